"""What is to come."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.domain.ids import ClassId, JobId, UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.domain.job import decode_spec
from oncue.engines.counting_ahead import due_counts
from oncue.engines.marks import page, unmark
from oncue.engines.port import CursorRow, DueCounts, Page
from oncue.engines.sql import statements
from oncue.engines.sqlite.rows import Row
from oncue.engines.sqlite.store import Connection, Store, fetch

_SQL = statements("oncue.engines.sqlite")
START = (-(2**62), bytes(16))


class SqliteAhead:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def cursors(
        self, uid: UserNumber | None, since: Instant, until: Instant, limit: int, after: str | None = None
    ) -> Page[CursorRow]:
        at, last = unmark(after, tuple[int, bytes]) if after else START
        given = {"uid": uid, "since": since, "until": until, "at": at, "last": last, "limit": limit + 1}
        statement = _SQL["cursors_ahead"].format(who="" if uid is None else "a.uid = :uid and ")
        found = await self._store.read(lambda db: fetch(db, statement, given))
        return page(found, limit, _cursor, lambda row: (row[4], row[0]))

    async def due_counts(
        self,
        uid: UserNumber | None,
        classes: Sequence[ClassId],
        since: Instant,
        until: Instant,
        step: Duration,
        most: int,
    ) -> dict[ClassId, DueCounts]:
        each = max(1, most // max(1, len(classes)))
        given = {"since": since, "until": until, "step": step, "most": each}

        def read(db: Connection) -> list[Row]:
            return [row for i in classes for row in fetch(db, _SQL["due_ahead"], {**given, "class_id": i})]

        found = await self._store.read(read)
        rows = ((i, at, n if uid in (None, of) else 0, last, n) for i, at, n, last, of in found)
        return due_counts(classes, rows, each)


def _cursor(row: Row) -> CursorRow:
    job_id, uid, class_id, spec, next_at, planned = row
    return CursorRow(JobId(UUID(bytes=job_id)), uid, class_id, decode_spec(spec), next_at, planned)
