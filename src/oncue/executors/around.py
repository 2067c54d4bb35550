"""Run middleware around an executor, in the worker's event loop, whatever the executor runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from oncue.context import Context, current
from oncue.executors.calling import as_failure
from oncue.executors.port import Executor, TaskFailed, Work, encoded
from oncue.tasks.hooks import Middleware


class WithMiddleware:
    """An executor with functions around each attempt, the first outermost. What they raise is the attempt's failure."""

    def __init__(self, executor: Executor, around: Sequence[Middleware], max_result_bytes: int) -> None:
        self._executor = executor
        self._around = around
        self._cap = max_result_bytes

    async def run(self, work: Work) -> bytes | None:
        current.set(work.reports)  # in the context of this attempt, which its threads copy
        inner = _Inner(self._executor, work)
        call = inner.call
        for middleware in reversed(self._around):
            call = partial(_within, middleware, work.context, call)
        try:
            result = await call()
            return inner.stored if inner.is_result(result) else encoded(result, self._cap)
        except Exception as error:  # the edge of user code
            if inner.failed is not None and error is inner.failed.error:
                raise inner.failed from None  # described where it was raised
            raise as_failure(error, work.task) from None

    async def close(self) -> None:
        """Does nothing: the executor closes itself."""


class _Inner:
    """The attempt itself, as middleware calls it."""

    def __init__(self, executor: Executor, work: Work) -> None:
        self._executor = executor
        self._work = work
        self._result: Any = None
        self.stored: bytes | None = None
        self.failed: TaskFailed | None = None

    async def call(self) -> Any:
        """Return the result as JSON has it. Raises what the task raised, or its description if that is elsewhere."""
        try:
            self.stored = await self._executor.run(self._work)
        except TaskFailed as failed:
            self.failed = failed
            if failed.error is None:
                raise
            raise failed.error from None
        self._result = None if self.stored is None else msgspec.json.decode(self.stored)
        return self._result

    def is_result(self, result: Any) -> bool:
        return result is self._result


async def _within(middleware: Middleware, ctx: Context[Any], call: Any) -> Any:
    return await middleware(ctx, call)
