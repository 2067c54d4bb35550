"""Run a task's function in the thread and the event loop of the test, and note what it prints and logs."""

from __future__ import annotations

import asyncio.events
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from oncue.context import current
from oncue.executors.around import WithMiddleware
from oncue.executors.calling import arguments_of, as_failure, not_awaitable
from oncue.executors.functions import LoopExecutor
from oncue.executors.port import Executor, Work, encoded
from oncue.testing.fake_context import FakeContext, Recorded

LARGEST_RESULT = 64 * 1024 * 1024


class HereExecutor:
    """Executes every kind of task here. Plain functions may start event loops of their own, as in a worker's thread."""

    def __init__(self) -> None:
        self._loop = LoopExecutor(LARGEST_RESULT)

    async def run(self, work: Work) -> bytes | None:
        if work.task.is_async:
            return await self._loop.run(work)
        current.set(work.reports)
        try:
            arguments = arguments_of(work.task, work.payload)
            with outside_of_the_loop():
                return encoded(not_awaitable(work.task.call(work.context, arguments)), LARGEST_RESULT)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the edge of user code
            raise as_failure(error, work.task) from None

    async def close(self) -> None:
        """Does nothing: nothing is left running."""


async def execute(work: Work) -> bytes | None:
    """Run one attempt here, with the middleware of its task. TaskFailed: it failed."""
    executor: Executor = HereExecutor()
    if work.task.shared.middleware:
        executor = WithMiddleware(executor, work.task.shared.middleware, LARGEST_RESULT)
    return await asyncio.create_task(executor.run(work))  # in a context of its own: what is set needs no reset


class RecordedWork(Work, frozen=True):
    """An attempt whose context records."""

    @property
    def context(self) -> FakeContext[Any]:
        assert isinstance(self.reports, Recorded)
        return FakeContext.of(self.info, self.reports, self.task.state)


@contextmanager
def recorded_output() -> Iterator[None]:
    """Note what runs print and log during the block. It also goes where it always went, as to pytest."""
    if isinstance(sys.stdout, _Tee):
        yield  # within another run
        return
    handler, real = _Handler(), sys.stdout
    logging.getLogger().addHandler(handler)
    sys.stdout = cast(TextIO, _Tee(real))
    try:
        yield
    finally:
        sys.stdout = real
        logging.getLogger().removeHandler(handler)


@contextmanager
def outside_of_the_loop() -> Iterator[None]:
    """Let the block start an event loop although one is running, as it could in another thread."""
    loop = asyncio.events._get_running_loop()
    asyncio.events._set_running_loop(None)
    try:
        yield
    finally:
        asyncio.events._set_running_loop(loop)


def _write(text: str) -> None:
    reports = current.get()
    if isinstance(reports, Recorded):
        reports.write(text)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, "oncue_run"):  # else `ctx.log` has noted it
            _write(self.format(record) + "\n")


class _Tee:
    """Standard output, and the log of the run that prints."""

    def __init__(self, real: TextIO) -> None:
        self._real = real

    def write(self, text: str) -> int:
        _write(text)
        return self._real.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
