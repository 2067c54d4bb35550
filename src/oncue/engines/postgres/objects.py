"""What the database knows of objects in storage."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.ids import RunId
from oncue.domain.instants import Instant
from oncue.engines.port import LOOKED_AT_ONCE, SELDOM, UNUSED_FOR, KnownObject, Looked, StoredObject
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


class PostgresObjects:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, objects: Sequence[StoredObject], now: Instant) -> None:
        columns = zip(*((one.key, one.uid, one.owner, one.kind, one.size) for one in objects), strict=True)
        await self._store.fetch(_SQL["add_objects"], *columns, now, now + UNUSED_FOR)

    async def look(self, now: Instant, limit: int = LOOKED_AT_ONCE) -> Looked:
        found = await self._store.fetch(_SQL["look_at_objects"], now, limit, UNUSED_FOR, SELDOM)
        return Looked(len(found), tuple(row["key"] for row in found if not row["referred"]))

    async def forget(self, keys: Sequence[str]) -> None:
        await self._store.fetch("delete from objects where key = any($1::text[])", sorted(keys))

    async def known(self, keys: Sequence[str]) -> frozenset[str]:
        found = await self._store.fetch("select key from objects where key = any($1::text[])", sorted(keys))
        return frozenset(row["key"] for row in found)

    async def walk(self, after: str, limit: int) -> Sequence[KnownObject]:
        return [KnownObject(**row) for row in await self._store.fetch(_SQL["walk_objects"], after, limit)]

    async def attach(self, run_id: RunId, token: int, lost: bytes, result: bytes) -> bool:
        return bool(await self._store.fetch(_SQL["attach"], run_id, token, lost, result))
