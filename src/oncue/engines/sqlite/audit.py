"""The audit log: which user did what."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.ids import UserNumber
from oncue.engines.marks import page, unmark
from oncue.engines.port import AuditEntry, Page
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.inserting import write_audit
from oncue.engines.sqlite.store import Store, fetch

_SQL = statements("oncue.engines.sqlite")


class SqliteAudit:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        await self._store.write(lambda db: write_audit(db, audit_entries))

    async def entries(
        self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None
    ) -> Page[AuditEntry]:
        at, deed_id = unmark(after, tuple[int, int]) if after else (2**63 - 1, 0)
        which = "audit" if uid is None else "audit_of_user"
        given = {"uid": uid, "at": at, "deed_id": deed_id, "limit": limit + 1}
        found = await self._store.read(lambda db: fetch(db, _SQL[which], given))
        return page(found, limit, audit_entry, lambda row: row[:2])


def audit_entry(row: rows.Row) -> AuditEntry:
    at, _, uid, key_id, action, object_id, detail, address = row
    return AuditEntry(at, uid, rows.id_or_none(key_id), action, rows.id_or_none(object_id), detail, address)
