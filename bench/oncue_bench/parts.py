"""The parts of `oncue bench`, and how they are run.

Whether the machine stood still meanwhile: figures from then mean little, and the report says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import groupby

import msgspec

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue_bench import measures
from oncue_bench.filling import full, snapshot
from oncue_bench.fleet import counting, fleet, fleet_stand, roles_apart, scale
from oncue_bench.intake import intake
from oncue_bench.measures import Options, Row, Step
from oncue_bench.soak import narrow_history, soak
from oncue_bench.stand import Stand, standing
from oncue_bench.usual_parts import burst, create, drain, drained, idle, recurring, spread, sustained

Part = Callable[[Stand, Options, Step], Awaitable[list[Row]]]
Place = Callable[[str, Options], AbstractAsyncContextManager[Stand]]
Begins = Callable[[str], None]

# In the order in which they run.
PARTS: dict[str, Part] = {
    "idle": idle,
    "create": create,
    "drain": drain,
    "burst": burst,
    "spread": spread,
    "sustained": sustained,
    "recurring": recurring,
    "snapshot": snapshot,
    "full": full,
    "scale": scale,
    "soak": soak,
    "counting": counting,
    "intake": intake,
    "fleet": fleet,
}
BY_NAME_ONLY = ("soak", "counting", "intake", "fleet")
EVERY = tuple(name for name in PARTS if name not in BY_NAME_ONLY)
USUAL = tuple(name for name in EVERY if name not in ("full", "scale"))
PLACES: dict[str, Place] = {
    "scale": roles_apart,
    "soak": narrow_history,
    "counting": roles_apart,
    "intake": roles_apart,
    "fleet": fleet_stand,
}
"""Of parts that do not share `oncue up` with the others. They are for PostgreSQL: one file is for one machine."""
WARM_UP = 2_000  # runs


def route(names: Collection[str]) -> list[str]:
    """Return the parts in order, each once; but `idle` is measured before and after all others."""
    chosen = [name for name in PARTS if name in names]
    together, apart = ([name for name in chosen if (name in PLACES) is own] for own in (False, True))
    return [*together, *(["idle"] if "idle" in together and len(together) > 1 else []), *apart]


def applicable(engine: str, names: Collection[str]) -> list[str]:
    """Return the parts of a route that are meaningful on this engine."""
    return [name for name in names if engine == "postgres" or name not in PLACES]


async def measured(
    engine: str, names: Sequence[str], options: Options, step: Step, begins: Begins
) -> tuple[str, list[Row]]:
    """Run the parts of a route; return the database's version and the results. Calls `begins` for each part."""
    rows: list[Row] = []
    noted = early = again = 0
    version = ""
    for place, some in groupby(names, lambda name: PLACES.get(name, standing)):
        step("starting", 0, None)
        async with place(engine, options) as stand:
            rows += await _go_through(stand, list(some), options, step, begins)
        version = stand.store.version
        noted, early, again = noted + stand.noted, early + stand.early, again + stand.again
    if noted:
        rows += [Row(measures.EARLY, early, f"of {noted:,}"), Row(measures.AGAIN, again, f"of {noted:,}")]
    return version, rows


async def _go_through(stand: Stand, names: Sequence[str], options: Options, step: Step, begins: Begins) -> list[Row]:
    rows: list[Row] = []
    warm = False
    for name in names:
        begins(name)
        if not warm and name != "idle":
            await drained(stand, WARM_UP, step)
            warm = True
        async with watched(stand.clock) as stalls:
            found = await PARTS[name](stand, options, step)
        rows += [msgspec.structs.replace(row, caution=stalls.note) for row in found]
    return rows


# ------------------------------------------------------------------------------------------------ stalls of the machine

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
