"""Whether the machine stood still meanwhile: figures from then mean little, and whoever reads them is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration

LOOK = Duration(100 * MILLISECOND)
STALL = Duration(2 * SECOND)  # longer than a busy machine lets anybody wait


class Stalls:
    def __init__(self) -> None:
        self.lost = Duration(0)

    @property
    def note(self) -> str:
        return f"the machine stood still for {self.lost / SECOND:.1f} s" if self.lost else ""

    async def watch(self, clock: Clock) -> None:
        while True:
            before, busy = clock.monotonic(), _busy()
            await clock.sleep(LOOK)
            late = clock.monotonic() - before - LOOK - (_busy() - busy)
            if late > STALL:
                self.lost = Duration(self.lost + late)


def _busy() -> Duration:
    """Processor time of this process: while it computes, it is no other's fault that it does not look."""
    times = os.times()
    return Duration(round((times.user + times.system) * SECOND))


@asynccontextmanager
async def watched(clock: Clock) -> AsyncIterator[Stalls]:
    """How long nothing moved in this block, all together."""
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch(clock))
    try:
        yield stalls
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
