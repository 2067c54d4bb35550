"""The audit log: which user did what."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.ids import UserNumber
from oncue.engines.audit_pages import BEFORE_ALL, audit_page, audit_place, rows_to_read
from oncue.engines.port import EVERY_ENTRY, AuditEntry, AuditFilter, Page
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
        self,
        uid: UserNumber | None = None,
        limit: int = 100,
        after: str | None = None,
        only: AuditFilter = EVERY_ENTRY,
    ) -> Page[AuditEntry]:
        at, deed_id = audit_place(after, only)
        which = "audit_of_object" if only.object_id else "audit" if uid is None else "audit_of_user"
        given = {
            "uid": uid,
            "object_id": None if only.object_id is None else only.object_id.bytes,
            "since": BEFORE_ALL if only.since is None else only.since,
            "at": at,
            "deed_id": deed_id,
            "limit": rows_to_read(uid, limit, only),
        }
        found = await self._store.read(lambda db: fetch(db, _SQL[which], given))
        return audit_page(found, uid, limit, only, audit_entry, lambda row: row[:2])


def audit_entry(row: rows.Row) -> AuditEntry:
    at, _, uid, key_id, action, object_id, detail, address = row
    return AuditEntry(at, uid, rows.id_or_none(key_id), action, rows.id_or_none(object_id), detail, address)
