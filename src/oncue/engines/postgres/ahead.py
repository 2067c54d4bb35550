"""What is to come."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from asyncpg import Record

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.domain.job import decode_spec
from oncue.engines.counting_ahead import due_counts
from oncue.engines.marks import page, unmark
from oncue.engines.port import CursorRow, DueCounts, Page
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
START = (-(2**62), UUID(int=0))


class PostgresAhead:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def cursors(
        self, uid: UserNumber | None, since: Instant, until: Instant, limit: int, after: str | None = None
    ) -> Page[CursorRow]:
        at, last = unmark(after, tuple[int, UUID]) if after else START
        which, who = ("cursors_ahead", []) if uid is None else ("cursors_ahead_of_user", [uid])
        found = await self._store.fetch(_SQL[which], since, until, at, last, limit + 1, *who)
        return page(found, limit, _cursor, lambda row: (row["next_at"], row["job_id"]))

    async def due_counts(
        self,
        uid: UserNumber | None,
        classes: Sequence[ClassId],
        since: Instant,
        until: Instant,
        step: Duration,
        most: int,
    ) -> dict[ClassId, DueCounts]:
        if uid is not None:
            found = await self._store.fetch(_SQL["due_ahead_of_user"], classes, since, until, step, most, uid)
            rows = ((class_id, at, n, last, read) for class_id, at, n, last, read in found)
            return due_counts(classes, rows, most, together=True)
        each = max(1, most // max(1, len(classes)))
        found = await self._store.fetch(_SQL["due_ahead"], classes, since, until, step, each)
        return due_counts(classes, ((class_id, at, n, last, n) for class_id, at, n, last in found), each)


def _cursor(row: Record) -> CursorRow:
    job_id, uid, class_id, spec, next_at, planned = row
    return CursorRow(job_id, uid, class_id, decode_spec(spec), next_at, planned)
