"""The state of the whole cluster in numbers, by reads whose cost does not grow with what waits or has ended."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.ids import NOTICES
from oncue.domain.instants import Instant
from oncue.engines.gauges import MOST_ORPHANS, ClassGauge, Gauges, Turn, by_oldest, with_due
from oncue.engines.port import Member
from oncue.engines.postgres.classes import class_key
from oncue.engines.postgres.fleet import worker_of
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements, tables

_SQL = statements("oncue.engines.postgres")
TABLES = sorted(tables("oncue.engines.postgres"))


async def read_gauges(connection: Connection, now: Instant, most: int, most_due: int) -> Gauges:
    fetch = connection.fetch
    found = await fetch(_SQL["open_classes"], most + 1)
    classes = [ClassGauge(row["class_id"], class_key(row), row["open"]) for row in found[:most]]
    [(next_plan, held_since, orphans, history_from)] = await fetch(_SQL["cluster_state"], now, MOST_ORPHANS)
    return Gauges(
        at=now,
        counts={(row["task"], row["what"]): row["n"] for row in await fetch(_SQL["counts_by_task"])},
        classes=await _with_due(connection, classes, now, most_due),
        more_classes=len(found) > most,
        paused={row["queue"]: row["paused_at"] for row in await fetch("select queue, paused_at from queues")},
        next_plan=next_plan,
        held_since=held_since,
        orphans=orphans,
        members=tuple(Member(*row) for row in await fetch(_SQL["known_members"])),
        workers=tuple(worker_of(row) for row in await fetch("select * from workers order by started_at, worker_id")),
        oldest_transaction=await connection.fetchval(_SQL["oldest_transaction"]),
        history_from=history_from,
        findings={row["check_name"]: row["n"] for row in await fetch(_SQL["open_findings"])},
        turns={name: Turn(next_at, position) for name, next_at, position in await fetch(_SQL["turns"])},
        notices_since=await connection.fetchval(_SQL["notices_since"], NOTICES, now),
    )


async def _with_due(
    connection: Connection, classes: Sequence[ClassGauge], now: Instant, most_due: int
) -> tuple[ClassGauge, ...]:
    asked = [one.class_id for one in classes]
    oldest = {row["class_id"]: row["due"] for row in await connection.fetch(_SQL["oldest_due"], asked, now)}
    order = by_oldest(classes, oldest)
    counted = {row["class_id"]: row["n"] for row in await connection.fetch(_SQL["count_due"], order, now, most_due)}
    return with_due(classes, oldest, order, counted, most_due)
