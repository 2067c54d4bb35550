"""The audit log: which user did what."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Record

from oncue.domain.ids import UserNumber
from oncue.engines.marks import page, unmark
from oncue.engines.port import AuditEntry, Page
from oncue.engines.postgres.inserting import AUDIT, write_audit
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


class PostgresAudit:
    def __init__(self, store: Store, pieces: Partitions) -> None:
        self._store = store
        self._pieces = pieces

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        await self._pieces.write(
            "audit", [audit_entry.at for audit_entry in audit_entries], lambda c: write_audit(c, audit_entries)
        )

    async def entries(
        self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None
    ) -> Page[AuditEntry]:
        at, deed_id = unmark(after, tuple[int, int]) if after else (2**63 - 1, 0)
        which, who = ("audit", []) if uid is None else ("audit_of_user", [uid])
        found = await self._store.fetch(_SQL[which], at, deed_id, limit + 1, *who)
        return page(found, limit, audit_entry, lambda row: (row["at"], row["deed_id"]))


def audit_entry(row: Record) -> AuditEntry:
    return AuditEntry(*(row[column] for column in AUDIT))
