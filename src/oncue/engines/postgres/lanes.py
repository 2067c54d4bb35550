"""Tending lanes: whoever adds or frees a member calls this before its transaction ends.

Order of locks, everywhere: running rows, serial lanes, gates, each sorted; then the waiting rows; meters last. Whoever
is let into a lane comes to its gate next, so the gates of all who may be are locked before anybody moves. So nobody
waits in a circle; what slips through (a lane whose first members changed while we asked) the server resolves, and we
repeat.
"""

from __future__ import annotations

from collections.abc import Iterable

from asyncpg import Record

from oncue.domain.lane import Held
from oncue.engines import touched
from oncue.engines.postgres import meters
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
# Their indexes are of those in line, by what else holds these, and of those let in: whoever tends reads neither those
# that are paused nor, at a gate, those that wait for their lane, however many they are.
LANE: dict[str, str | int] = {"lane": "lane", "bit": Held.LANE.value, "blocked": Held.PAUSED.value}
GATE: dict[str, str | int] = {"lane": "gate", "bit": Held.GATE.value, "blocked": (Held.PAUSED | Held.LANE).value}


class TouchedLanes(touched.TouchedLanes):
    """With what this transaction has locked already."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: dict[int, int] = {}


async def lock(connection: Connection, touched: TouchedLanes, leaving: int = 0) -> None:
    """Before touching waiting members, so many of which will leave: then nobody who tends waits for us in a circle."""
    lanes = sorted(touched.lanes - touched.locked.keys())
    await _lock(connection, touched, dict.fromkeys(lanes, 1))
    ahead = await connection.fetch(_SQL["tend_gates"], lanes, leaving + 1) if lanes else []
    await _lock(connection, touched, {row["gate"]: 0 for row in ahead} | touched.gates)


async def tend(connection: Connection, touched: TouchedLanes) -> None:
    if not touched:
        return
    await lock(connection, touched)
    moved = await _tend(connection, touched.lanes, LANE)
    for row in moved:
        touched.free(None, row["gate"])
    await _lock(connection, touched, touched.gates)
    for row in moved + await _tend(connection, touched.gates, GATE):
        touched.wait_for_rate(row["meter"], row["held"], row["due"])
    await meters.expect(connection, touched)


async def _lock(connection: Connection, touched: TouchedLanes, widths: dict[int, int]) -> None:
    """Those that are not locked yet, or whose width is another now; 0 leaves it as it is."""
    locked = touched.locked
    new = {lane: width for lane, width in widths.items() if lane not in locked or width not in (0, locked[lane])}
    if new:
        await connection.execute(_SQL["tend_lock"], list(new), list(new.values()))
        locked.update(new)


async def _tend(connection: Connection, lanes: Iterable[int], names: dict[str, str | int]) -> list[Record]:
    which = sorted(lanes)
    if not which:
        return []
    await connection.execute(_SQL["tend_members"].format(**names), which)
    return await connection.fetch(_SQL["tend"].format(**names), which)
