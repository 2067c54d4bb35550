"""Actions on many objects."""

from __future__ import annotations

from uuid import UUID

import msgspec

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.engines.bulk_rows import added, bulk
from oncue.engines.bulk_values import MOST_OPEN, Bulk, BulkState, Progress, TakenBulk, encode
from oncue.engines.marks import page, unmark
from oncue.engines.port import Page
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
_LOCK = 0x6F6E6375  # beside a user's number: any number that no other advisory lock of two parts uses
LAST = UUID(int=2**128 - 1)


class PostgresBulks:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._unreadable: set[UUID] = set()  # written by a newer oncue

    async def add(self, bulk: Bulk, most_open: int = MOST_OPEN) -> bool:
        async def add(connection: Connection) -> bool:
            await connection.execute(_SQL["lock_user"], _LOCK, bulk.uid)
            given = (bulk.bulk_id, bulk.uid, bulk.key_id, *added(bulk), most_open)
            await connection.execute(_SQL["add_bulk"], *given)
            return await connection.fetchval("select 1 from bulks where bulk_id = $1", bulk.bulk_id) is not None

        return await self._store.write(add)

    async def read(self, uid: UserNumber | None, bulk_id: UUID) -> Bulk | None:
        found = await self._store.fetch(_SQL["find_bulk"], bulk_id)
        return bulk(found[0]) if found and uid in (None, found[0]["uid"]) else None

    async def page(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[Bulk]:
        last = unmark(after, UUID) if after else LAST
        which, who = ("list_bulks", []) if uid is None else ("list_bulks_of_user", [uid])
        found = await self._store.fetch(_SQL[which], last, limit + 1, *who)
        return page(found, limit, bulk, lambda row: row["bulk_id"])

    async def take(self, now: Instant, lease: Duration) -> TakenBulk | None:
        found = await self._store.fetch(_SQL["take_bulk"], now, lease, sorted(self._unreadable))
        if not found:
            return None
        *columns, allowed = found[0]
        try:
            return TakenBulk(bulk(columns), allowed)
        except (msgspec.ValidationError, ValueError):
            self._unreadable.add(found[0]["bulk_id"])
            return None

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
        given = (bulk.bulk_id, bulk.turn, encode(progress), now + (lease or 0), state.value, ended_at, why)
        return bool(await self._store.fetch(_SQL["advance_bulk"], *given))

    async def record(self, bulk: Bulk, progress: Progress) -> bool:
        given = (bulk.bulk_id, bulk.turn, encode(progress), BulkState.STOPPED.value)
        return bool(await self._store.fetch(_SQL["record_bulk"], *given))

    async def stop(self, uid: UserNumber | None, bulk_id: UUID, now: Instant) -> bool:
        return bool(await self._store.fetch(_SQL["stop_bulk"], bulk_id, uid, BulkState.STOPPED.value, now))
