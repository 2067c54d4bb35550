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
from oncue.executors.contained import outlast
from oncue.executors.port import TaskFailed, Work, encoded


class ThreadExecutor:
    """Runs each function in a thread. A thread cannot be stopped: a cancelled run ends when its function has ended.

    There are as many threads as active runs; who gives it a run decides how many that are.
    """

    def __init__(self, max_result_bytes: int) -> None:
        self._cap = max_result_bytes
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._active: set[_Call] = set()
        self._threads = 0
        self._closed = False

    async def run(self, work: Work) -> bytes | None:
        call = _Call(work, self._cap)
        self._active.add(call)
        if self._threads < len(self._active):
            self._threads += 1
            Thread(target=_take_calls, args=(self._calls,), name="oncue task", daemon=True).start()
        self._calls.put(call)
        try:
            return await call.outcome
        except asyncio.CancelledError:
            if not self._closed:
                await call.end()
            raise
        finally:
            self._active.discard(call)

    async def close(self) -> None:
        """End idle threads. The others are not waited for: they are daemons, and end with the worker."""
        self._closed = True
        for call in self._active:
            call.let_go()
        for _ in range(self._threads):
            self._calls.put(None)
        self._threads = 0


class _Call:
    """One run in a thread. The lock decides between a call that begins and its cancellation."""

    def __init__(self, work: Work, cap: int) -> None:
        self._work = work
        self._cap = cap
        self._context = copy_context()
        self._lock = Lock()
        self._begun = self._withdrawn = False
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] | None = None  # of a cancelled call: its function has ended
        self.outcome: asyncio.Future[bytes | None] = self._loop.create_future()

    async def end(self) -> None:
        """After a cancel: wait until the function has ended, however often we are cancelled meanwhile."""
        if self.outcome.cancelled() and not self._withdraw():
            self._over = self._loop.create_future()
            await outlast(self._over)

    def let_go(self) -> None:
        """Wait no longer for a cancelled call."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def make(self) -> None:
        """Execute the call, in the thread, unless it was cancelled before."""
        if not self._begin():
            return
        us = os.getpid()
        result: bytes | None = None
        failure: TaskFailed | None = None
        try:
            result = self._context.run(_called, self._work, self._cap)
        except BaseException as error:  # the edge of user code: nothing it raises may end the thread, or reach the loop
            failure = as_failure(error, self._work.task)
        if os.getpid() != us:
            os._exit(0)  # the task forked and its copy returned: the copy must not talk to the worker
        with suppress(RuntimeError):  # the loop is closed: the worker has ended
            self._loop.call_soon_threadsafe(self._deliver, result, failure)

    def _begin(self) -> bool:
        with self._lock:
            self._begun = not self._withdrawn
            return self._begun

    def _withdraw(self) -> bool:
        """False: a thread executes it."""
        with self._lock:
            self._withdrawn = not self._begun
            return self._withdrawn

    def _deliver(self, result: bytes | None, failure: TaskFailed | None) -> None:
        if self.outcome.done():
            self.let_go()
        elif failure:
            self.outcome.set_exception(failure)
        else:
            self.outcome.set_result(result)


def _take_calls(calls: SimpleQueue[_Call | None]) -> None:
    while call := calls.get():
        call.make()
        del call  # else its payload and result would live until the next call


def _called(work: Work, cap: int) -> bytes | None:
    arguments = arguments_of(work.task, work.payload)
    current.set(work.reports)
    return encoded(not_awaitable(work.task.call(work.context, arguments)), cap)
