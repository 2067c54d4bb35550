"""A run in a process of its own, which serves this one run and ends with it.

Its messages travel over a socket created for this run, its prints through a pipe created for it: whatever it leaves
behind reaches no other run. TERM tells the run to stop: `ctx.cancelled` is true, and an async function is cancelled.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import Context as ContextVars
from contextvars import copy_context
from threading import Lock, Timer
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import msgspec

from oncue.context import Context, Created, Done, RunInfo, current
from oncue.domain.attempt import LONGEST_ERROR, LONGEST_TRACEBACK
from oncue.domain.errors import Conflict, Invalid, OncueError
from oncue.domain.masking import Masking
from oncue.domain.plain_text import end_of, message_of, printable
from oncue.executors import words
from oncue.executors.calling import arguments_of, as_failure, not_awaitable
from oncue.executors.forking import end_copies_by_signals
from oncue.executors.port import TaskFailed, encoded
from oncue.secret import RunSecrets, secrets_of_run
from oncue.settings import Settings
from oncue.tasks import Task, Tasks
from oncue.tasks.lifespan import lifespans
from oncue.tracing.current import make_current

if TYPE_CHECKING:
    import asyncio

PROGRESS_EVERY = 0.1  # seconds
TRACEBACK_END = 3_000  # characters of a traceback that are sent


class Line:
    """The socket to the worker. Sends whole messages, also from several threads."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._reading = end.makefile("rb")
        self._sending, self._asking = Lock(), Lock()

    def receive(self) -> words.ToProcess | None:
        """None: the worker has closed the line."""
        received = self._reading.readline()
        return msgspec.json.decode(received, type=words.ToProcess) if received.endswith(b"\n") else None

    def send(self, said: words.FromProcess) -> None:
        message = words.line(said)
        if len(message) > words.LONGEST_LINE:
            raise ValueError(f"{len(message)} bytes are too many to pass to the worker: store them elsewhere")
        with self._sending:
            self._end.sendall(message)

    def ask(self, said: words.Save | words.Submit) -> words.ToProcess | None:
        with self._asking:
            self.send(said)
            return self.receive()


class LineReports:
    """`Reports` that go to the worker: the log through standard output, the rest over the socket."""

    def __init__(self, line: Line) -> None:
        self.cancelled = False
        self._line = line
        self._newest: bytes | None = None
        self._timer: Timer | None = None
        self._lock = Lock()

    def write(self, text: str) -> None:
        sys.stdout.write(text)

    def progress(self, stored: bytes) -> None:
        """Send progress a little later: a function that reports a million times must not keep the worker busy."""
        with self._lock:
            self._newest = stored
            if self._timer is None:
                self._timer = Timer(PROGRESS_EVERY, self.tell_progress)
                self._timer.daemon = True
                self._timer.start()

    def tell_progress(self) -> None:
        with self._lock:
            if self._timer:
                self._timer.cancel()
            newest, self._newest, self._timer = self._newest, None, None
            if newest is not None:
                with suppress(OSError):  # the worker is gone, and this process ends in a moment
                    self._line.send(words.Progress(newest))

    def save(self, stored: bytes) -> Awaitable[None]:
        match self._line.ask(words.Save(stored)):
            case words.Saved(None):
                return Done()
            case words.Saved(str(problem)):
                raise Conflict(problem)
            case _:
                raise Conflict("the worker ended: this attempt can no longer save anything")

    def submit(self, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        match self._line.ask(words.Submit(asked)):
            case words.Submitted(ids, None):
                return Created(ids)
            case words.Submitted(_, str(problem)):
                raise OncueError(problem)
            case _:
                raise Conflict("the worker ended: this attempt can no longer create jobs")


class Child:
    """One run. `tasks` is Invalid if they could not be loaded: then the run fails and says why."""

    def __init__(self, line: Line, settings: Settings, tasks: Tasks | Invalid) -> None:
        self._line = line
        self._settings = settings
        self._tasks = tasks
        self._reports = LineReports(line)
        self._async_run: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def on_term(self, number: int, frame: FrameType | None) -> None:
        """Handle TERM. The warden and the template both send it: an async function is cancelled only once."""
        if self._reports.cancelled:
            return
        self._reports.cancelled = True
        if self._async_run:
            loop, task = self._async_run
            loop.call_soon_threadsafe(task.cancel)

    def serve(self) -> None:
        us = os.getpid()
        message = self._line.receive()
        if not isinstance(message, words.Run) or self._reports.cancelled:
            return
        answer = self._answer(message, self._reports)
        if os.getpid() != us:
            os._exit(0)  # the task forked and its copy returned: the copy must not talk to the worker
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed or replaced by the task
                stream.flush()
        self._reports.tell_progress()
        self._line.send(answer)

    def _answer(self, message: words.Run, reports: LineReports) -> words.Done | words.Failed:
        secrets = RunSecrets(message.secrets)
        task: Task | None = None
        try:
            task = self._task(message.info.task)
            context = copy_context()
            context.run(secrets_of_run.set, secrets)
            arguments = context.run(arguments_of, task, message.payload)
            context.run(current.set, reports)
            if message.info.trace is not None:
                context.run(make_current, message.info.trace)
            if task.is_async:
                result = self._run_async(task, message.info, arguments, context)
            elif task.shared.lifespan is None:
                result = not_awaitable(context.run(task.call, Context(message.info, reports), arguments))
            else:
                result = not_awaitable(_with_lifespan(task, message.info, reports, arguments, context))
            return words.Done(encoded(result, self._settings.max_result_bytes))
        except BaseException as error:  # the edge of user code
            return failure(error, secrets.masking, task)

    def _task(self, name: str) -> Task:
        if isinstance(self._tasks, Invalid):
            raise self._tasks
        task = self._tasks.get(name)
        if task is None:
            from oncue.executors.registry import load_registry  # a built-in task: imported only when needed

            task = load_registry(self._settings).get(name)
        if task is None:
            raise TaskFailed("UnknownTask", f"this worker has no task {name!r}")
        return task

    def _run_async(self, task: Task, info: RunInfo, arguments: dict[str, Any], context: Any) -> object:
        import asyncio

        async def run() -> object:
            this = asyncio.current_task()
            assert this is not None
            self._async_run = asyncio.get_running_loop(), this
            if self._reports.cancelled:
                this.cancel()
            try:
                async with lifespans([task]):
                    try:
                        result: object = await task.call(Context(info, self._reports, task.state), arguments)
                    except BaseException as error:  # the edge of user code, before contextlib sees the exception
                        failed = as_failure(error, task)
                    else:
                        return result
            except BaseException as error:  # of a lifespan, before asyncio sees the exception
                raise as_failure(error, task) from None
            raise failed

        return asyncio.Runner().run(run(), context=context)  # not closed: whatever is left in it ends with this process


def _with_lifespan(
    task: Task, info: RunInfo, reports: LineReports, arguments: dict[str, Any], context: ContextVars
) -> object:
    """Call a plain function between the beginning and the end of its set's lifespan, which need an event loop."""
    import asyncio

    runner, lifespan = asyncio.Runner(), lifespans([task])
    runner.run(lifespan.__aenter__(), context=context)
    try:
        return context.run(task.call, Context(info, reports, task.state), arguments)
    finally:
        runner.run(lifespan.__aexit__(None, None, None), context=context)


def failure(error: BaseException, masking: Masking, task: Task | None = None) -> words.Failed:
    failed = as_failure(error, task)
    said, trace = masking.excerpt(message_of(failed, LONGEST_ERROR)), masking.excerpt(failed.trace)
    message = f"{said}\n\n{trace[-TRACEBACK_END:]}".strip() if trace else said
    path = None if failed.path is None else masking.excerpt(failed.path)
    kept = end_of(masking.excerpt(failed.traceback), LONGEST_TRACEBACK)
    return words.Failed(printable(failed.kind), message, failed.retry, failed.after, path, kept)


def serve(line: int, output: int, settings: Settings, tasks: Tasks | Invalid) -> NoReturn:
    """Execute the run on this line, then end the process, without waiting for threads that the run has left."""
    try:
        for stream in (1, 2):
            os.dup2(output, stream)
        os.close(output)
        os.set_inheritable(line, False)
        child = Child(Line(socket.socket(fileno=line)), settings, tasks)
        signal.signal(signal.SIGTERM, child.on_term)
        end_copies_by_signals()
        child.serve()
    finally:
        os._exit(0)
