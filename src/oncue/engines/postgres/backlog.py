"""What is due and what runs, of some classes."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.gauges import MOST_CLASSES, Backlog, DueRuns, Pulse, backlogs
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


async def read_backlog(
    connection: Connection, uid: UserNumber | None, classes: Sequence[ClassId], now: Instant, limit: int
) -> dict[ClassId, Backlog]:
    running = {row["class_id"]: row["n"] for row in await connection.fetch(_SQL["count_running"], uid, limit)}
    if uid is None:
        due, full = await _due(connection, classes, now, limit)
    else:
        found = await connection.fetch(_SQL["count_due_of_user"], uid, now, limit)
        due = {row["class_id"]: (row["n"], row["oldest"]) for row in found if row["n"]}
        full = sum(row["looked"] for row in found) >= limit
    return backlogs(classes, due, running, full=full)


async def read_pulse(connection: Connection, uid: UserNumber | None, now: Instant, limit: int) -> Pulse:
    counts = {row["what"]: row["n"] for row in await connection.fetch(_SQL["sum_counts"], uid)}
    running = sum(row["n"] for row in await connection.fetch(_SQL["count_running"], uid, limit))
    if uid is None:
        busy = [row["class_id"] for row in await connection.fetch(_SQL["busy_classes"], MOST_CLASSES)]
        due = looked = sum(row["n"] for row in await connection.fetch(_SQL["count_due"], busy, now, limit))
    else:
        found = await connection.fetch(_SQL["count_due_of_user"], uid, now, limit)
        due, looked = sum(row["n"] for row in found), sum(row["looked"] for row in found)
    return Pulse(counts, running, due, looked >= limit)


async def _due(
    connection: Connection, classes: Sequence[ClassId], now: Instant, limit: int
) -> tuple[dict[ClassId, DueRuns], bool]:
    found = await connection.fetch(_SQL["oldest_due"], classes, now)
    oldest = {row["class_id"]: row["due"] for row in sorted(found, key=lambda row: row["due"])}
    counted = {row["class_id"]: row["n"] for row in await connection.fetch(_SQL["count_due"], list(oldest), now, limit)}
    due = {class_id: (max(1, counted.get(class_id, 0)), at) for class_id, at in oldest.items()}
    return due, sum(counted.values()) >= limit
