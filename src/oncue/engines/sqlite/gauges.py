"""The state of the whole cluster in numbers, by reads whose cost does not grow with what waits or has ended."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.domain.ids import NOTICES, ClassId
from oncue.domain.instants import Instant
from oncue.engines.gauges import MOST_ORPHANS, ClassGauge, Gauges, Turn, by_oldest, with_due
from oncue.engines.port import Member
from oncue.engines.sql import statements
from oncue.engines.sqlite.classes import class_key
from oncue.engines.sqlite.fleet import worker_of
from oncue.engines.sqlite.store import Connection, fetch, first

_SQL = statements("oncue.engines.sqlite")


def read_gauges(db: Connection, now: Instant, most: int, most_due: int) -> Gauges:
    found = fetch(db, _SQL["open_classes"], (most + 1,))
    classes = [ClassGauge(ClassId(class_id), class_key(key), many) for class_id, *key, many in found[:most]]
    [(next_plan, held_since, orphans, history_from)] = fetch(db, _SQL["cluster_state"], (now, MOST_ORPHANS))
    return Gauges(
        at=now,
        counts={(task, what): n for task, what, n in fetch(db, _SQL["counts_by_task"])},
        classes=_with_due(db, classes, now, most_due),
        more_classes=len(found) > most,
        paused=dict(fetch(db, "select queue, paused_at from queues")),
        next_plan=next_plan,
        held_since=held_since,
        orphans=orphans,
        members=tuple(Member(UUID(bytes=who), *row) for who, *row in fetch(db, _SQL["known_members"])),
        workers=tuple(worker_of(row) for row in fetch(db, _SQL["workers"])),
        oldest_transaction=None,
        history_from=history_from,
        findings=dict(fetch(db, _SQL["open_findings"])),
        turns={name: Turn(next_at, position) for name, next_at, position in fetch(db, _SQL["turns"])},
        notices_since=fetch(db, _SQL["notices_since"], (NOTICES.bytes, now))[0][0],
    )


def _with_due(db: Connection, classes: Sequence[ClassGauge], now: Instant, most_due: int) -> tuple[ClassGauge, ...]:
    looks = {one.class_id: first(db, _SQL["oldest_due"], (one.class_id, now)) for one in classes}
    oldest = {class_id: Instant(row[0]) for class_id, row in looks.items() if row is not None}
    order = by_oldest(classes, oldest)
    counted: dict[ClassId, int] = {}
    left = most_due
    for class_id in order:
        [(counted[class_id],)] = fetch(db, _SQL["count_due"], (class_id, now, left))
        left -= counted[class_id]
        if not left:
            break
    return with_due(classes, oldest, order, counted, most_due)
