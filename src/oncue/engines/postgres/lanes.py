"""Tending lanes: a transaction that adds or frees a member calls this before it ends.

Order of locks, everywhere: running rows, serial lanes, gates, each sorted; then the waiting rows; meters last. A run
that its lane admits comes to its gate next, so the gates of all such runs are locked before any run moves. So
transactions do not deadlock; where one still does (a lane's first members changed while we read), the server resolves
it, and we retry.
"""

from __future__ import annotations

from collections.abc import Iterable

from asyncpg import Record

from oncue.domain.instants import Instant
from oncue.domain.lane import Held
from oncue.engines import touched
from oncue.engines.postgres import meters
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
# The indexes cover members in line, by what else holds them, and admitted members: tending reads neither paused runs
# nor, at a gate, runs that wait for their lane, however many there are.
LANE: dict[str, str | int] = {"lane": "lane", "bit": Held.LANE.value, "blocked": Held.PAUSED.value}
GATE: dict[str, str | int] = {"lane": "gate", "bit": Held.GATE.value, "blocked": (Held.PAUSED | Held.LANE).value}


class TouchedLanes(touched.TouchedLanes):
    """With the lanes that this transaction has locked already."""

    def __init__(self, now: Instant) -> None:
        super().__init__(now)
        self.locked: dict[int, int] = {}


async def lock(connection: Connection, touched: TouchedLanes, leaving: int = 0) -> None:
    """Lock lanes before touching waiting members, `leaving` of which will leave: so tending never deadlocks with us."""
    lanes = sorted(touched.lanes - touched.locked.keys())
    await _lock(connection, touched, dict.fromkeys(lanes, 1))
    ahead = await connection.fetch(_SQL["tend_gates"], lanes, leaving + 1) if lanes else []
    await _lock(connection, touched, {row["gate"]: 0 for row in ahead} | touched.gates)


async def tend(connection: Connection, touched: TouchedLanes) -> None:
    if not touched:
        return
    await lock(connection, touched)
    moved = await _tend(connection, touched.lanes, LANE, touched.now)
    for row in moved:
        touched.free(None, row["gate"])
    await _lock(connection, touched, touched.gates)
    for row in moved + await _tend(connection, touched.gates, GATE, touched.now):
        touched.wait_for_rate(row["meter"], row["held"], row["due"])
    await meters.expect(connection, touched)
    if dropped := sorted(touched.dropped.items()):  # last: everybody who drops a user's notices waits for its row
        await connection.execute(_SQL["note_dropped"], *zip(*dropped, strict=True))


async def _lock(connection: Connection, touched: TouchedLanes, widths: dict[int, int]) -> None:
    """Lock lanes that are not locked yet, or whose width has changed; width 0 leaves it unchanged."""
    locked = touched.locked
    new = {lane: width for lane, width in widths.items() if lane not in locked or width not in (0, locked[lane])}
    if new:
        await connection.execute(_SQL["tend_lock"], list(new), list(new.values()))
        locked.update(new)


async def _tend(
    connection: Connection, lanes: Iterable[int], names: dict[str, str | int], now: Instant
) -> list[Record]:
    which = sorted(lanes)
    if not which:
        return []
    await connection.execute(_SQL["tend_members"].format(**names), which)
    return await connection.fetch(_SQL["tend"].format(**names), which, now)
