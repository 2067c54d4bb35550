"""Async functions, in the worker's event loop."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from oncue.context import current
from oncue.services.executors.calling import arguments_of, plain_failure
from oncue.services.executors.port import Work, encoded

# The attempt a built-in task belongs to: `ctx` tells tasks nothing of resources and timeouts.
attempt: ContextVar[Work | None] = ContextVar("oncue_attempt", default=None)


class LoopExecutor:
    """Each run in the asyncio task that awaits `run`, whose context is its own: what is set there needs no reset."""

    def __init__(self, result_cap: int) -> None:
        self._cap = result_cap

    async def run(self, work: Work) -> bytes | None:
        task = work.task
        arguments = arguments_of(task, work.payload)
        current.set(work.reports)
        attempt.set(work)
        try:
            result = await task.function(work.context, **arguments)
        except (SystemExit, KeyboardInterrupt) as leaving:  # asyncio would end the loop, and with it the worker
            raise plain_failure(leaving) from leaving
        except asyncio.CancelledError as cancelled:
            asked = asyncio.current_task()
            if asked is None or asked.cancelling():
                raise
            raise plain_failure(cancelled) from cancelled  # nobody cancelled the run: the task raised it by itself
        return None if result is None else encoded(result, self._cap)

    async def close(self) -> None:
        """Runs belong to whoever awaits them: there is nothing to close."""
