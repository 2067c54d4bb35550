"""Classes: found or created with the jobs that need them, and dropped when nothing refers to them any more.

There is one writer, so classes appear in the order of their numbers: a process that knows all up to a number only has
to ask for those after it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.placement import GONE, ClassKey, Priority, Resources
from oncue.engines.classing import AT_A_TIME, Looked, Verdict, refuse_too_many, weigh
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, fetch, first

_SQL = statements("oncue.engines.sqlite")
MOST_STEPS = 100  # from class to class, before one statement looks into all that are left


def read_classes(db: Connection, after: ClassId, limit: int | None) -> dict[ClassId, ClassKey]:
    found = fetch(db, _SQL["classes"], (after, -1 if limit is None else limit))
    return {ClassId(class_id): class_key(row) for class_id, *row in found}


def classes_for(db: Connection, wanted: Mapping[ClassKey, UserNumber | None], most: int) -> dict[ClassKey, ClassId]:
    """Return the numbers of these classes; missing ones are created for the users named with them.

    TooManyClasses: one of the users would have more than `most`.
    """
    found = _find(db, wanted)
    missing = {key: uid for key, uid in wanted.items() if key not in found}
    if missing:
        refuse_too_many(missing, _made(db, missing.values()), most)
        db.executemany(_SQL["make_class"], [(*_class_row(key), uid) for key, uid in missing.items()])
        found = _find(db, wanted)
    asked_for = [(class_id,) for class_id, used_at in found.values() if used_at is not None]
    db.executemany("update classes set used_at = null where class_id = ?", asked_for)
    return {key: ClassId(class_id) for key, (class_id, _) in found.items()}


def refuse_classes(db: Connection, wanted: Mapping[ClassKey, UserNumber | None], most: int) -> None:
    """Raise TooManyClasses if `classes_for` would."""
    found = _find(db, wanted)
    missing = {key: uid for key, uid in wanted.items() if key not in found}
    refuse_too_many(missing, _made(db, missing.values()), most)


def let_go(db: Connection, after: ClassId, now: Instant) -> ClassId | None:
    """Check the next AT_A_TIME classes after this one; return the last of them, or None when there are no more."""
    [(kept_from,)] = fetch(db, "select min(from_at) from pieces")
    looked = [Looked(*row) for row in fetch(db, _SQL["look_at_classes"], (after, AT_A_TIME))]
    _carry_out(db, weigh(looked, now if kept_from is None else kept_from, now), now)
    return looked[-1].class_id if len(looked) == AT_A_TIME else None


def worth_a_look(db: Connection, classes: Sequence[ClassId], after: Instant, until: Instant) -> Sequence[ClassId]:
    """Return at least those of these classes that have runs due then.

    Goes from one requested class to the next in the index, and back: so it skips classes without waiting runs, and
    those that were not requested. Where many classes have waiting runs, one statement looks into each.
    """
    asked, found, at, steps = sorted(classes), list[ClassId](), 0, 0
    while at < len(asked):
        steps += 1
        if steps > MOST_STEPS:
            rest = fetch(db, _SQL["due_classes"], (_numbers(asked[at:]), after, until))
            return found + [class_id for (class_id,) in rest]
        if (row := first(db, _SQL["busy_class"], (asked[at],))) is None:
            break
        at = bisect_left(asked, row[0], at)
        if at < len(asked) and asked[at] == row[0]:
            found.append(asked[at])
            at += 1
    return found


def all_busy(db: Connection) -> Iterator[ClassId]:
    """Yield the classes with waiting runs, in order."""
    at = 0
    while (row := first(db, _SQL["busy_class"], (at,))) is not None:
        yield row[0]
        at = row[0] + 1


def _carry_out(db: Connection, verdict: Verdict, now: Instant) -> None:
    note = "update classes set used_at = ?, counted = ? where class_id = ?"
    db.executemany(note, [(now, one.counts, one.class_id) for one in verdict.used])
    if verdict.stand_ins:
        stand_ins = classes_for(db, dict.fromkeys(verdict.stand_ins), 0)
        db.execute(_SQL["hand_over_counts"], (_numbers(verdict.gone), GONE, _numbers(stand_ins.values())))
    gone = [(class_id,) for class_id in verdict.gone]
    db.executemany("delete from counters where class_id = ?", gone)
    db.executemany("delete from classes where class_id = ?", gone)


def _find(db: Connection, keys: Iterable[ClassKey]) -> dict[ClassKey, tuple[Any, ...]]:
    found = {key: first(db, _SQL["find_class"], _class_row(key)) for key in keys}
    return {key: row for key, row in found.items() if row is not None}


def _made(db: Connection, uids: Iterable[UserNumber | None]) -> dict[int, int]:
    count = "select count(*) from classes where made_by = ?"
    return {uid: fetch(db, count, (uid,))[0][0] for uid in uids if uid is not None}


def _numbers(class_ids: Iterable[ClassId]) -> Any:
    return apsw.carray(array("q", class_ids))


def _class_row(key: ClassKey) -> tuple[Any, ...]:
    size = key.size
    labels = msgspec.json.encode(key.labels).decode()
    return (key.task, key.queue, key.priority.value, labels, size.cpu_milli, size.memory_mb, size.slots)


def class_key(row: Sequence[Any]) -> ClassKey:
    task, queue, priority, labels, *size = row
    return ClassKey(
        task, queue, Priority(priority), msgspec.json.decode(labels, type=tuple[str, ...]), Resources(*size)
    )
