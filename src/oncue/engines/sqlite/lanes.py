"""Tending lanes: a transaction that adds or frees a member calls this before it ends.

No locks: there is one writer. Of a lane only the admitted members and the first in line are read, however long it is.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import apsw

from oncue.domain.lane import Held
from oncue.engines.sql import statements
from oncue.engines.sqlite.meters import expect
from oncue.engines.sqlite.store import Connection, fetch
from oncue.engines.touched import TouchedLanes

_SQL = statements("oncue.engines.sqlite")


class _Kind(NamedTuple):
    inside: str
    line: str
    bit: Held


class _Member(NamedTuple):
    wanted: int
    run_id: bytes
    gate: int | None
    inside: bool


_LANE = _Kind(_SQL["lane_inside"], _SQL["lane_line"], Held.LANE)
_GATE = _Kind(_SQL["gate_inside"], _SQL["gate_line"], Held.GATE)


def tend(db: Connection, touched: TouchedLanes) -> None:
    if touched.lanes:
        for member in _tend(db, dict.fromkeys(touched.lanes, 1), _LANE, touched):
            touched.free(None, member.gate)
    if touched.gates:
        _tend(db, _widths(db, touched.gates), _GATE, touched)
    if touched.meters:
        expect(db, touched)
    if touched.dropped:
        db.executemany(_SQL["note_dropped"], list(touched.dropped.items()))


def _widths(db: Connection, gates: Mapping[int, int]) -> dict[int, int]:
    """Set and return the widths of gates: the newest definition that adds a member sets it; freeing a slot reads it."""
    db.executemany(_SQL["set_width"], [(gate, width) for gate, width in gates.items() if width])
    known = dict(db.execute(_SQL["widths"], (_numbers(gates),)))
    return {gate: known.get(gate, 1) for gate in gates}


def _tend(db: Connection, widths: Mapping[int, int], kind: _Kind, touched: TouchedLanes) -> list[_Member]:
    """Admit as many as there are free slots, in order; send back those admitted too early. Returns the moved runs."""
    free = dict(widths)
    members: dict[int, list[_Member]] = defaultdict(list)
    for lane, run_id, wanted, gate, pinned in fetch(db, kind.inside, (_numbers(widths),)):
        if pinned:
            free[lane] -= 1
        else:
            members[lane].append(_Member(wanted, run_id, gate, True))
    for places, some in _by_width(widths):
        for lane, run_id, wanted, gate in fetch(db, kind.line, (_numbers(some), places)):
            members[lane].append(_Member(wanted, run_id, gate, False))
    enter: list[_Member] = []
    leave: list[_Member] = []
    for lane, all_of_it in members.items():
        all_of_it.sort()
        places = max(0, free[lane])
        enter += [member for member in all_of_it[:places] if not member.inside]
        leave += [member for member in all_of_it[places:] if member.inside]
    let_in = [(kind.bit.value, member.run_id, touched.now) for member in enter]
    for meter, held, due in db.executemany(_SQL["let_in"], let_in):
        touched.wait_for_rate(meter, held, due)
    db.executemany(_SQL["keep_out"], [(kind.bit.value, member.run_id) for member in leave])
    return enter + leave


def _by_width(widths: Mapping[int, int]) -> Iterable[tuple[int, list[int]]]:
    by_width: dict[int, list[int]] = defaultdict(list)
    for lane, width in widths.items():
        by_width[width].append(lane)
    return by_width.items()


def _numbers(lanes: Iterable[int]) -> apsw.CArrayBinding:
    return apsw.carray(array("q", lanes))
