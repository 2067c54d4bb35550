"""Tending lanes: whoever adds or frees a member calls this before its transaction ends.

Order of locks, everywhere: serial lanes, then gates, each sorted; then the waiting rows. So nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable

from asyncpg import Record

from oncue.domain.lane import Held, Lanes
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
_LANE: dict[str, str | int] = {"lane": "lane", "bit": Held.LANE.value, "blocked": Held.PAUSED.value}
_GATE: dict[str, str | int] = {"lane": "gate", "bit": Held.GATE.value, "blocked": (Held.PAUSED | Held.LANE).value}


class Touched:
    """The lanes a transaction has to do with, gathered, then locked and tended once."""

    def __init__(self) -> None:
        self.lanes: set[int] = set()
        self.gates: dict[int, int] = {}

    def add(self, lanes: Lanes) -> None:
        """A new member: its definition says how wide the gate is."""
        if lanes.lane is not None:
            self.lanes.add(lanes.lane)
        if lanes.gate is not None:
            self.gates[lanes.gate] = lanes.width

    def free(self, lane: int | None, gate: int | None) -> None:
        if lane is not None:
            self.lanes.add(lane)
        if gate is not None:
            self.gates.setdefault(gate, 0)

    def __bool__(self) -> bool:
        return bool(self.lanes or self.gates)


async def lock(connection: Connection, touched: Touched) -> None:
    """Before touching waiting members: so that nobody who tends waits for us while we wait for them."""
    await _lock(connection, dict.fromkeys(touched.lanes, 1))
    await _lock(connection, touched.gates)


async def tend(connection: Connection, touched: Touched) -> None:
    if not touched:
        return
    await _lock(connection, dict.fromkeys(touched.lanes, 1))
    moved = await _tend(connection, touched.lanes, _LANE)
    for row in moved:
        touched.free(None, row["gate"])
    await _lock(connection, touched.gates)
    await _tend(connection, touched.gates, _GATE)


async def _lock(connection: Connection, widths: dict[int, int]) -> None:
    if widths:
        await connection.execute(_SQL["tend_lock"], list(widths), list(widths.values()))


async def _tend(connection: Connection, lanes: Iterable[int], names: dict[str, str | int]) -> list[Record]:
    which = sorted(lanes)
    if not which:
        return []
    await connection.execute(_SQL["tend_members"].format(**names), which)
    return await connection.fetch(_SQL["tend"].format(**names), which)
