"""The parts of `oncue bench`, and how they are run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import groupby

import msgspec

from oncue.bench import measures
from oncue.bench.counting import counting
from oncue.bench.creating import create
from oncue.bench.filling import full, snapshot
from oncue.bench.fleet import fleet, fleet_stand
from oncue.bench.idling import idle
from oncue.bench.intake import intake
from oncue.bench.measures import Row, Step
from oncue.bench.options import Options
from oncue.bench.recurring import recurring
from oncue.bench.running import burst, drain, drained, spread, sustained
from oncue.bench.scaling import roles_apart, scale
from oncue.bench.soaking import narrow_history, soak
from oncue.bench.stalls import watched
from oncue.bench.stand import Stand, standing

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
