"""Run sync functions in threads of the worker.

The threads are daemons of our own: the standard pool waits for its threads at exit, and a thread stuck in a task for
ever would keep its slot.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock, Thread

from oncue.context import current
from oncue.executors.calling import arguments_of, as_failure, not_awaitable
from oncue.executors.port import LeftBehind, TaskFailed, Work, encoded


class ThreadExecutor:
    """Runs functions in threads, which cannot be stopped. A cancelled run leaves its thread behind, counted in
    `abandoned` while it still runs; its late result is dropped, and another thread takes its place.
    """

    def __init__(self, size: int, max_result_bytes: int) -> None:
        self.abandoned = 0
        self._size = size
        self._cap = max_result_bytes
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._inside = 0  # runs given to us and not over
        self._threads = 0  # that take calls, so without the abandoned

    async def run(self, work: Work) -> bytes | None:
        call = _Call(work, self._cap)
        self._inside += 1
        self._calls.put(call)
        self._start_threads()
        try:
            return await call.outcome
        except asyncio.CancelledError:
            if not call.abandon():
                raise
            self.abandoned += 1
            self._threads -= 1
            call.over.add_done_callback(self._came_back)
            raise LeftBehind(call.over) from None
        finally:
            self._inside -= 1
            self._start_threads()

    async def close(self) -> None:
        """End idle threads. The others are not waited for: they are daemons, and end with the worker."""
        for _ in range(self._threads):
            self._calls.put(None)
        self._threads = 0

    def _start_threads(self) -> None:
        while self._threads < min(self._inside, self._size):
            self._threads += 1
            Thread(target=_take_calls, args=(self._calls,), name="oncue task", daemon=True).start()

    def _came_back(self, _: asyncio.Future[None]) -> None:
        self.abandoned -= 1


class _Call:
    """One run in a thread. The lock decides between a call that begins or ends and its cancellation."""

    def __init__(self, work: Work, cap: int) -> None:
        self._work = work
        self._cap = cap
        self._context = copy_context()
        self._lock = Lock()
        self._begun = self._ended = self._abandoned = False
        self.loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[bytes | None] = self.loop.create_future()
        self.over: asyncio.Future[None] = self.loop.create_future()  # of an abandoned call: the thread has ended

    def abandon(self) -> bool:
        """Stop waiting for this call. True: a thread executes it and stays behind."""
        with self._lock:
            self._abandoned = True
            return self._begun and not self._ended

    def make(self) -> bool:
        """Execute the call, in the thread. False: it was abandoned meanwhile, and so was the thread."""
        if not self._begin():
            return True
        us = os.getpid()
        result: bytes | None = None
        failure: TaskFailed | None = None
        try:
            result = self._context.run(_called, self._work, self._cap)
        except BaseException as error:  # the edge of user code: nothing it raises may end the thread, or reach the loop
            failure = as_failure(error, self._work.task)
        if os.getpid() != us:
            os._exit(0)  # the task forked and its copy returned: the copy must not talk to the worker
        if not self._end():
            return False
        with suppress(RuntimeError):  # the loop is closed: the worker has ended
            self.loop.call_soon_threadsafe(self._deliver, result, failure)
        return True

    def _begin(self) -> bool:
        with self._lock:
            self._begun = not self._abandoned
            return self._begun

    def _end(self) -> bool:
        with self._lock:
            self._ended = True
            return not self._abandoned

    def _deliver(self, result: bytes | None, failure: TaskFailed | None) -> None:
        if self.outcome.done():
            return
        if failure:
            self.outcome.set_exception(failure)
        else:
            self.outcome.set_result(result)


def _take_calls(calls: SimpleQueue[_Call | None]) -> None:
    while call := calls.get():
        if not call.make():
            with suppress(RuntimeError):
                call.loop.call_soon_threadsafe(call.over.set_result, None)
            return
        del call  # else its payload and result would live until the next call


def _called(work: Work, cap: int) -> bytes | None:
    arguments = arguments_of(work.task, work.payload)
    current.set(work.reports)
    return encoded(not_awaitable(work.task.call(work.context, arguments)), cap)
