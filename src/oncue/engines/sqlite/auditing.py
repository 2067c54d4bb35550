"""What the self-audit reads and records."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import Cursor
from oncue.domain.ledger import Entry
from oncue.engines.audited import MOST_FINDINGS, MOST_SUMMED, one_of_each, page_of
from oncue.engines.port import AuditedCursor, Finding, LongHeld, LongRunning, Orphan, Page, Sums, Unexpired
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.partitions import pieces
from oncue.engines.sqlite.store import Connection, Store, fetch, first
from oncue.engines.stored import STATUSES

_SQL = statements("oncue.engines.sqlite")


class SqliteAuditing:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def record_findings(self, findings: Sequence[Finding], now: Instant) -> list[Finding]:
        each = [(one.check, one.object_id, one.words, now) for one in one_of_each(findings)]

        def record(db: Connection) -> list[Finding]:
            found = [Finding(*row) for one in each for row in fetch(db, _SQL["record_finding"], one)]
            db.execute(_SQL["forget_findings"], (MOST_FINDINGS,))
            return [one for one in found if one.first_seen == now]

        return await self._store.write(record) if each else []

    async def clear_findings(self, check: str, object_ids: Sequence[str], now: Instant) -> list[Finding]:
        def clear(db: Connection) -> list[Finding]:
            each = ((check, object_id, now) for object_id in object_ids)
            return [Finding(*row) for one in each for row in fetch(db, _SQL["clear_finding"], one)]

        return await self._store.write(clear)

    async def findings(self, limit: int = 100, after: str | None = None) -> Page[Finding]:
        found = await self._store.read(lambda db: fetch(db, _SQL["findings"]))
        return page_of((Finding(*row) for row in found), limit, after)

    async def cursors(self, after: JobId | None, limit: int) -> list[AuditedCursor]:
        given = (b"" if after is None else after.bytes, limit)
        found = await self._store.read(lambda db: fetch(db, _SQL["audited_cursors"], given))
        return [
            AuditedCursor(JobId(UUID(bytes=job_id)), STATUSES[status], spec, created_at, updated_at, Cursor(*cursor))
            for job_id, status, spec, created_at, updated_at, *cursor in found
        ]

    async def existing_runs(self, run_ids: Sequence[RunId], since: Instant) -> frozenset[RunId]:
        asked = {run_id.bytes: run_id for run_id in run_ids}

        def look(db: Connection) -> frozenset[RunId]:
            tables = ("runs", "dead", *(piece.name for piece in pieces(db, since)))
            each = (_SQL["there"].format(table=table, key="run_id") for table in tables)
            return frozenset(asked[row[0]] for one in each for row in fetch(db, one, (rows.blobs(asked),)))

        return await self._store.read(look) if asked else frozenset()

    async def stretches(self, job_id: JobId, first: Instant, last: Instant, limit: int = 1_000) -> list[Entry]:
        given = (job_id.bytes, first, last, limit)
        return [rows.entry(row) for row in await self._store.read(lambda db: fetch(db, _SQL["stretches"], given))]

    async def longest_held(self, now: Instant, limit: int = 100) -> list[LongHeld]:
        return [
            LongHeld(RunId(UUID(bytes=run_id)), JobId(UUID(bytes=job_id)), wanted, by_lane == 1, admitted == 1)
            for run_id, job_id, wanted, by_lane, admitted in await self._store.read(
                lambda db: fetch(db, _SQL["longest_held"], (now, limit))
            )
        ]

    async def orphans(self, before: Instant, limit: int = 100) -> list[Orphan]:
        found = await self._store.read(lambda db: fetch(db, _SQL["audited_orphans"], (before, limit)))
        return [Orphan(RunId(UUID(bytes=run_id)), WorkerId(UUID(bytes=who)), at) for run_id, who, at in found]

    async def long_running(self, after: RunId | None, before: Instant, limit: int) -> list[LongRunning]:
        given = (b"" if after is None else after.bytes, before, limit)
        return [
            LongRunning(RunId(UUID(bytes=run_id)), WorkerId(UUID(bytes=worker_id)), *rest)
            for run_id, worker_id, *rest in await self._store.read(lambda db: fetch(db, _SQL["long_running"], given))
        ]

    async def unexpired(self, before: Instant) -> Unexpired | None:
        found = await self._store.read(lambda db: first(db, _SQL["unexpired"], (before,)))
        return None if found is None else Unexpired(RunId(UUID(bytes=found[0])), found[1])

    async def sums(self, most: int = MOST_SUMMED) -> Sums | None:
        [(counted, stored)] = await self._store.read(lambda db: fetch(db, _SQL["sums"], (most + 1,)))
        return Sums(counted, stored) if stored <= most else None
