"""Classes: found or created with the jobs that need them, and dropped when nothing refers to them any more.

A transaction that adds or removes classes holds one lock until its end: so classes appear in the order of their
numbers, and a process that knows all up to a number only has to ask for those after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from asyncpg import Record

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.placement import GONE, ClassKey, Priority, Resources
from oncue.engines.classing import AT_A_TIME, Looked, Verdict, refuse_too_many, weigh
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
_LOCK = 0x6F6E637565_636C73  # any number that no other advisory lock uses


async def read_classes(store: Store, after: ClassId, limit: int | None) -> dict[ClassId, ClassKey]:
    return {row["class_id"]: class_key(row) for row in await store.fetch(_SQL["classes"], after, limit, hot=True)}


async def classes_for(
    connection: Connection, wanted: Mapping[ClassKey, UserNumber | None], most: int
) -> dict[ClassKey, ClassId]:
    """Return the numbers of these classes; missing ones are created for the users named with them.

    TooManyClasses: one of the users would have more than `most`.
    """
    found = await _find(connection, list(wanted))
    if len(found) == len(wanted) and all(row["used_at"] is None for row in found.values()):
        return _numbers(found)
    await connection.execute(_SQL["lock"], _LOCK)
    found = await _find(connection, list(wanted))
    missing = {key: uid for key, uid in wanted.items() if key not in found}
    if missing:
        refuse_too_many(missing, await _made(connection, missing.values()), most)
        await connection.execute(_SQL["make_classes"], *_columns(missing), list(missing.values()))
        found = await _find(connection, list(wanted))
    numbers = _numbers(found)
    await connection.execute("update classes set used_at = null where class_id = any($1::int[])", [*numbers.values()])
    return numbers


async def refuse_classes(connection: Connection, wanted: Mapping[ClassKey, UserNumber | None], most: int) -> None:
    """Raise TooManyClasses if `classes_for` would."""
    if not wanted:
        return
    found = await _find(connection, list(wanted))
    missing = {key: uid for key, uid in wanted.items() if key not in found}
    refuse_too_many(missing, await _made(connection, missing.values()), most)


async def let_go(connection: Connection, after: ClassId, now: Instant) -> ClassId | None:
    """Check the next AT_A_TIME classes after this one; return the last of them, or None when there are no more."""
    await connection.execute(_SQL["lock"], _LOCK)
    kept_from = await connection.fetchval("select min(from_at) from pieces where parent = 'history'")
    looked = [Looked(*row) for row in await connection.fetch(_SQL["look_at_classes"], after, AT_A_TIME)]
    await _carry_out(connection, weigh(looked, now if kept_from is None else kept_from, now), now)
    return looked[-1].class_id if len(looked) == AT_A_TIME else None


async def _carry_out(connection: Connection, verdict: Verdict, now: Instant) -> None:
    note = "update classes set used_at = $2, counted = $3 where class_id = $1"
    await connection.executemany(note, [(one.class_id, now, one.counts) for one in verdict.used])
    if verdict.stand_ins:
        stand_ins = await classes_for(connection, dict.fromkeys(verdict.stand_ins), 0)
        await connection.execute(_SQL["hand_over_counts"], verdict.gone, GONE, [*stand_ins.values()])
    if verdict.gone:
        await connection.execute("delete from counters where class_id = any($1::int[])", verdict.gone)
        await connection.execute("delete from classes where class_id = any($1::int[])", verdict.gone)


async def _find(connection: Connection, keys: Sequence[ClassKey]) -> dict[ClassKey, Record]:
    return {keys[row["n"] - 1]: row for row in await connection.fetch(_SQL["find_classes"], *_columns(keys))}


async def _made(connection: Connection, uids: Iterable[UserNumber | None]) -> dict[int, int]:
    count = "select made_by, count(*) as n from classes where made_by = any($1::int[]) group by made_by"
    asked = sorted({uid for uid in uids if uid is not None})
    return {row["made_by"]: row["n"] for row in await connection.fetch(count, asked)}


def _numbers(found: Mapping[ClassKey, Record]) -> dict[ClassKey, ClassId]:
    return {key: row["class_id"] for key, row in found.items()}


def _columns(keys: Iterable[ClassKey]) -> list[tuple[Any, ...]]:
    rows = [
        (key.task, key.queue, key.priority.value, msgspec.json.encode(key.labels).decode(), *_size(key.size))
        for key in keys
    ]
    return list(zip(*rows, strict=True)) if rows else [()] * 7


def _size(size: Resources) -> tuple[int, int, int]:
    return (size.cpu_milli, size.memory_mb, size.slots)


def class_key(row: Record) -> ClassKey:
    return ClassKey(
        row["task"],
        row["queue"],
        Priority(row["priority"]),
        tuple(row["labels"]),
        Resources(row["cpu_milli"], row["memory_mb"], row["slots"]),
    )
