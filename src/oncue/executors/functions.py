"""Run async functions in the worker's event loop."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from oncue.context import current
from oncue.executors.calling import arguments_of, as_failure
from oncue.executors.port import Work, encoded

# The attempt of a built-in task: `ctx` tells tasks nothing of resources and timeouts.
attempt: ContextVar[Work | None] = ContextVar("oncue_attempt", default=None)


class LoopExecutor:
    """Executes each run in the asyncio task that awaits `run`, with its own context: what is set needs no reset."""

    def __init__(self, max_result_bytes: int) -> None:
        self._cap = max_result_bytes

    async def run(self, work: Work) -> bytes | None:
        current.set(work.reports)
        attempt.set(work)
        try:
            arguments = arguments_of(work.task, work.payload)
            result = await work.task.call(work.context, arguments)
            return None if result is None else encoded(result, self._cap)
        except asyncio.CancelledError as cancelled:
            asked = asyncio.current_task()
            if asked is None or asked.cancelling():
                raise
            raise as_failure(cancelled, work.task) from None  # no one cancelled the run: the task raised it itself
        except BaseException as error:  # the edge of user code; some would end the loop, and with it the worker
            raise as_failure(error, work.task) from None

    async def close(self) -> None:
        """Does nothing: the callers of `run` own their runs."""
