"""The audit log: which user did what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asyncpg import Record

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY
from oncue.engines.audit_pages import BEFORE_ALL, audit_page, audit_place, rows_to_read
from oncue.engines.port import EVERY_ENTRY, AuditEntry, AuditFilter, Page
from oncue.engines.postgres.inserting import AUDIT, write_audit
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
LOOKED_BACK = (2 * DAY, 30 * DAY)


class PostgresAudit:
    def __init__(self, store: Store, pieces: Partitions) -> None:
        self._store = store
        self._pieces = pieces

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        await self._pieces.write(
            "audit", [audit_entry.at for audit_entry in audit_entries], lambda c: write_audit(c, audit_entries)
        )

    async def entries(
        self,
        uid: UserNumber | None = None,
        limit: int = 100,
        after: str | None = None,
        only: AuditFilter = EVERY_ENTRY,
    ) -> Page[AuditEntry]:
        which, whose = "audit", list[object]()
        if only.object_id is not None:
            which, whose = "audit_of_object", [only.object_id]
        elif uid is not None:
            which, whose = "audit_of_user", [uid]
        place, read = audit_place(after, only), rows_to_read(uid, limit, only)
        for since in self._looks(place[0], BEFORE_ALL if only.since is None else only.since):
            found = await self._store.fetch(_SQL[which], *place, read, since, *whose)
            if len(found) == read:
                break
        return audit_page(found, uid, limit, only, audit_entry, lambda row: (row["at"], row["deed_id"]))

    def _looks(self, until: int, since: int) -> Iterator[int]:
        """Yield how far to look back, each time further: opening 400 partitions takes longer than reading a page."""
        newest = min(until, self._store.clock.now())
        for length in LOOKED_BACK:
            if newest - length > since:
                yield newest - length
        yield since


def audit_entry(row: Record) -> AuditEntry:
    return AuditEntry(*(row[column] for column in AUDIT))
