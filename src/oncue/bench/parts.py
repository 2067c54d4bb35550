"""The parts of `oncue bench`, and how they are gone through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec

from oncue.bench import measures
from oncue.bench.creating import create
from oncue.bench.filling import full, snapshot
from oncue.bench.idling import idle
from oncue.bench.measures import Row, Step
from oncue.bench.options import Options
from oncue.bench.recurring import recurring
from oncue.bench.running import burst, drain, drained, spread, sustained
from oncue.bench.stalls import watched
from oncue.bench.stand import Stand

Part = Callable[[Stand, Options, Step], Awaitable[list[Row]]]

# In the order in which they are gone through.
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
}
USUAL = tuple(name for name in PARTS if name != "full")
WARM_UP = 2_000  # runs


def route(names: Collection[str]) -> list[str]:
    """In order, each once; but what is idle is measured before and after all others."""
    chosen = [name for name in PARTS if name in names]
    return [*chosen, "idle"] if "idle" in chosen and len(chosen) > 1 else chosen


async def go_through(
    stand: Stand, names: Sequence[str], options: Options, step: Step, begins: Callable[[str], None]
) -> list[Row]:
    """What the parts of a route come to; `begins` is told of each."""
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
    if stand.noted:
        rows += [
            Row(measures.EARLY, stand.early, f"of {stand.noted:,}"),
            Row(measures.AGAIN, stand.again, f"of {stand.noted:,}"),
        ]
    return rows
