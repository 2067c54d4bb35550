"""Actions on many objects."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.engines.bulk_rows import added, bulk
from oncue.engines.bulk_values import MOST_OPEN, Bulk, BulkState, Progress, TakenBulk, encode
from oncue.engines.marks import page, unmark
from oncue.engines.port import Page
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
LAST = b"\xff" * 16
MOST_UNREADABLE = 100  # written by a newer oncue


class SqliteBulks:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, bulk: Bulk, most_open: int = MOST_OPEN) -> bool:
        def add(db: Connection) -> bool:
            given = (bulk.bulk_id.bytes, bulk.uid, bulk.key_id.bytes, *added(bulk), most_open)
            db.execute(_SQL["add_bulk"], given)
            return first(db, "select 1 from bulks where bulk_id = ?", (bulk.bulk_id.bytes,)) is not None

        return await self._store.write(add)

    async def read(self, uid: UserNumber | None, bulk_id: UUID) -> Bulk | None:
        row = await self._store.read(lambda db: first(db, _SQL["find_bulk"], (bulk_id.bytes,)))
        return _bulk(row) if row is not None and uid in (None, row[1]) else None

    async def page(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[Bulk]:
        last = unmark(after, bytes) if after else LAST
        statement = _SQL["list_bulks"].format(who="" if uid is None else "uid = :uid and ")
        given = {"uid": uid, "last": last, "limit": limit + 1}
        found = await self._store.read(lambda db: fetch(db, statement, given))
        return page(found, limit, _bulk, lambda row: row[0])

    async def take(self, now: Instant, lease: Duration) -> TakenBulk | None:
        given = {"now": now, "limit": MOST_UNREADABLE}
        if not await self._store.read(lambda db: fetch(db, _SQL["free_bulks"], given | {"limit": 1})):
            return None  # without a write
        return await self._store.write(lambda db: _take(db, given, Instant(now + lease)))

    async def advance(
        self,
        bulk: Bulk,
        progress: Progress,
        now: Instant,
        lease: Duration | None = None,
        *,
        state: BulkState = BulkState.RUNNING,
        why: str | None = None,
    ) -> bool:
        ended_at = None if state is BulkState.RUNNING else now
        given = (bulk.bulk_id.bytes, bulk.turn, encode(progress), now + (lease or 0), state.value, ended_at, why)
        return await self._store.write(lambda db: bool(fetch(db, _SQL["advance_bulk"], given)))

    async def record(self, bulk: Bulk, progress: Progress) -> bool:
        given = (bulk.bulk_id.bytes, bulk.turn, encode(progress), BulkState.STOPPED.value)
        return await self._store.write(lambda db: bool(fetch(db, _SQL["record_bulk"], given)))

    async def stop(self, uid: UserNumber | None, bulk_id: UUID, now: Instant) -> bool:
        given = (bulk_id.bytes, uid, BulkState.STOPPED.value, now)
        return await self._store.write(lambda db: bool(fetch(db, _SQL["stop_bulk"], given)))


def _bulk(row: tuple[Any, ...]) -> Bulk:
    bulk_id, uid, key_id, *rest = row
    return bulk((UUID(bytes=bulk_id), uid, UUID(bytes=key_id), *rest))


def _take(db: Connection, given: dict[str, Any], until: Instant) -> TakenBulk | None:
    for *columns, allowed in fetch(db, _SQL["free_bulks"], given):
        try:
            found = _bulk(tuple(columns))
        except (msgspec.ValidationError, ValueError):
            continue
        take = "update bulks set turn = turn + 1, free_at = ? where bulk_id = ?"
        db.execute(take, (until, found.bulk_id.bytes))
        return TakenBulk(msgspec.structs.replace(found, turn=found.turn + 1), bool(allowed))
    return None
