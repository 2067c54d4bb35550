"""Counts are appended, so that no row is contended, and added to their sums and series once a second."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from oncue.domain.buckets import LAG, RUN, bucket
from oncue.domain.instants import SECOND, Instant
from oncue.domain.run import Settlement
from oncue.engines.port import Count
from oncue.engines.postgres.store import Connection
from oncue.engines.series import minute_of
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
Counted = Tally[tuple[int, int, Count]]


async def count(connection: Connection, tally: Counted, now: Instant | None) -> None:
    """Count what happened `now`. None: at a time that no series tells of."""
    if tally:
        uids, classes, whats = zip(*tally, strict=True)
        at = None if now is None else minute_of(now)
        await connection.execute(_SQL["count"], uids, classes, whats, list(tally.values()), at)


async def count_attempts(connection: Connection, settlements: Iterable[Settlement], what: Count, now: Instant) -> None:
    """Count attempts with how late they began and how long they took."""
    tally = Tally((s.run.uid, s.run.class_id, *_measured(s)) for s in settlements)
    if tally:
        uids, classes, lags, took = zip(*tally, strict=True)
        ns = list(tally.values())
        await connection.execute(_SQL["count_attempts"], uids, classes, what, ns, minute_of(now), lags, took)


def _measured(settled: Settlement) -> tuple[int | None, int | None]:
    if settled.started_at is None:
        return None, None
    lag, took = settled.started_at - settled.run.eligible, settled.ended_at - settled.started_at
    return bucket(LAG, lag / SECOND), bucket(RUN, took / SECOND)
