"""What the self-audit reads and records."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.ledger import Entry
from oncue.engines.audited import MOST_FINDINGS, MOST_SUMMED, one_of_each, page_of
from oncue.engines.port import AuditedCursor, Finding, LongHeld, LongRunning, Orphan, Page, Sums, Unexpired
from oncue.engines.postgres import rows
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements
from oncue.engines.stored import STATUSES

_SQL = statements("oncue.engines.postgres")
NOBODY = UUID(int=0)


class PostgresAuditing:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def record_findings(self, findings: Sequence[Finding], now: Instant) -> list[Finding]:
        each = one_of_each(findings)
        columns = [one.check for one in each], [one.object_id for one in each], [one.words for one in each]

        async def record(connection: Connection) -> list[Finding]:
            await connection.execute("lock table findings in share row exclusive mode")  # else two add too many
            found = [Finding(*row) for row in await connection.fetch(_SQL["record_findings"], *columns, now)]
            await connection.execute(_SQL["forget_findings"], MOST_FINDINGS)
            return [one for one in found if one.first_seen == now]

        return await self._store.write(record) if each else []

    async def clear_findings(self, check: str, object_ids: Sequence[str], now: Instant) -> list[Finding]:
        found = await self._store.fetch(_SQL["clear_findings"], check, object_ids, now)
        return [Finding(*row) for row in found]

    async def findings(self, limit: int = 100, after: str | None = None) -> Page[Finding]:
        return page_of((Finding(*row) for row in await self._store.fetch(_SQL["findings"])), limit, after)

    async def cursors(self, after: JobId | None, limit: int) -> list[AuditedCursor]:
        return [
            AuditedCursor(
                job_id=row["job_id"],
                status=STATUSES[row["status"]],
                spec=row["spec"],
                created_at=row["created_at"],
                updated_at=row["updated_at"],
                cursor=rows.cursor(row),
            )
            for row in await self._store.fetch(_SQL["audited_cursors"], after or NOBODY, limit)
        ]

    async def existing_runs(self, run_ids: Sequence[RunId], since: Instant) -> frozenset[RunId]:
        found = await self._store.fetch(_SQL["existing_runs_since"], run_ids, since)
        return frozenset(row["run_id"] for row in found)

    async def stretches(self, job_id: JobId, first: Instant, last: Instant, limit: int = 1_000) -> list[Entry]:
        return [rows.entry(row) for row in await self._store.fetch(_SQL["stretches"], job_id, first, last, limit)]

    async def longest_held(self, now: Instant, limit: int = 100) -> list[LongHeld]:
        return [LongHeld(*row) for row in await self._store.fetch(_SQL["longest_held"], now, limit)]

    async def orphans(self, before: Instant, limit: int = 100) -> list[Orphan]:
        return [Orphan(*row) for row in await self._store.fetch(_SQL["audited_orphans"], before, limit)]

    async def long_running(self, after: RunId | None, before: Instant, limit: int) -> list[LongRunning]:
        found = await self._store.fetch(_SQL["long_running"], after or NOBODY, before, limit)
        apart = {(job_id, version) for *_, job_id, version, spec in found if spec is None}
        jobs, versions = zip(*apart, strict=True) if apart else ((), ())
        rest = await self._store.fetch(_SQL["definitions"], jobs, versions) if apart else ()
        specs = {(row["job_id"], row["version"]): row["spec"] for row in rest}
        return [
            LongRunning(run_id, worker_id, claimed_at, cancel_at, spec or specs.get((job_id, version)))
            for run_id, worker_id, claimed_at, cancel_at, job_id, version, spec in found
        ]

    async def unexpired(self, before: Instant) -> Unexpired | None:
        found = await self._store.fetch(_SQL["unexpired"], before)
        return Unexpired(*found[0]) if found else None

    async def sums(self, most: int = MOST_SUMMED) -> Sums | None:
        [(counted, stored)] = await self._store.fetch(_SQL["sums"], most + 1)
        return Sums(counted, stored) if stored <= most else None
