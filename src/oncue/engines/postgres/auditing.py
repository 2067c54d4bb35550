"""What the self-audit reads and records."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.instants import Instant
from oncue.engines.audited import MOST_FINDINGS, Finding, one_of_each, page_of
from oncue.engines.port import Page
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


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
