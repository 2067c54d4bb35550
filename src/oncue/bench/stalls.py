"""Whether the machine stood still meanwhile: figures from then mean little, and the report says so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration

CHECK_INTERVAL = Duration(100 * MILLISECOND)
STALL = Duration(2 * SECOND)  # longer than any process waits on a busy machine


class Stalls:
    def __init__(self) -> None:
        self.lost = Duration(0)

    @property
    def note(self) -> str:
        return f"the machine stood still for {self.lost / SECOND:.1f} s" if self.lost else ""

    async def watch(self, clock: Clock) -> None:
        while True:
            before, busy = clock.monotonic(), _busy()
            await clock.sleep(CHECK_INTERVAL)
            late = clock.monotonic() - before - CHECK_INTERVAL - (_busy() - busy)
            if late > STALL:
                self.lost = Duration(self.lost + late)


def _busy() -> Duration:
    """Return the processor time of this process: while it computes, a late check is its own fault."""
    times = os.times()
    return Duration(round((times.user + times.system) * SECOND))


@asynccontextmanager
async def watched(clock: Clock) -> AsyncIterator[Stalls]:
    """Measure how long nothing moved in this block, in total."""
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch(clock))
    try:
        yield stalls
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
