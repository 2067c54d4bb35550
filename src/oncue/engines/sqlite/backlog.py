"""What is due and what runs, of some classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.gauges import MOST_CLASSES, Backlog, DueRuns, Pulse, backlogs
from oncue.engines.sql import statements
from oncue.engines.sqlite.classes import all_busy
from oncue.engines.sqlite.store import Connection, fetch, first

_SQL = statements("oncue.engines.sqlite")


def read_backlog(
    db: Connection, uid: UserNumber | None, classes: Sequence[ClassId], now: Instant, limit: int
) -> dict[ClassId, Backlog]:
    running = {ClassId(class_id): n for class_id, n in fetch(db, _SQL["count_running"], (uid, limit))}
    oldest: dict[ClassId, int] = {}
    for class_id in classes:
        if (row := first(db, _SQL["oldest_due"], (class_id, now))) is not None:
            oldest[class_id] = row[0]
    due, left = dict[ClassId, DueRuns](), limit
    for class_id in sorted(oldest, key=lambda one: oldest[one]):
        n, at, looked = _counted(db, uid, class_id, now, left) if left else (0, None, 0)
        left -= looked
        if uid is None:
            due[class_id] = (max(1, n), Instant(oldest[class_id]))
        elif n:
            due[class_id] = (n, at)
    return backlogs(classes, due, running, full=not left)


def read_pulse(db: Connection, uid: UserNumber | None, now: Instant, limit: int) -> Pulse:
    counts: dict[str, int] = dict(fetch(db, _SQL["sum_counts"], (uid,)))
    running = sum(n for _, n in fetch(db, _SQL["count_running"], (uid, limit)))
    due, left = 0, limit
    for class_id in islice(all_busy(db), MOST_CLASSES):
        if left:
            n, _, looked = _counted(db, uid, class_id, now, left)
            due, left = due + n, left - looked
    return Pulse(counts, running, due, not left)


def _counted(
    db: Connection, uid: UserNumber | None, class_id: ClassId, now: Instant, left: int
) -> tuple[int, Instant | None, int]:
    """Count due runs: how many, since when, and how many were looked at."""
    if uid is None:
        [(n,)] = fetch(db, _SQL["count_due"], (class_id, now, left))
        return n, None, n
    [(n, oldest, looked)] = fetch(db, _SQL["count_due_of_user"], (class_id, now, left, uid))
    return n, oldest, looked
