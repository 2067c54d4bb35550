"""What the self-audit reads and records."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.instants import Instant
from oncue.engines.audited import MOST_FINDINGS, Finding, one_of_each, page_of
from oncue.engines.port import Page
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, Store, fetch

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
