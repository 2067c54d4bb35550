"""Users and their keys."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import apsw

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.admitting import UNKNOWN
from oncue.engines.marks import page, unmark
from oncue.engines.port import JOBS_COUNTED, KEYS_COUNTED, Key, Page, Revoked, Role, User
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")


class SqliteAccounts:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def user(self, user_id: str, now: Instant) -> UserNumber:
        def find_or_make(db: Connection) -> UserNumber:
            db.execute(_SQL["add_user"], (user_id, now))
            return UserNumber(fetch(db, "select uid from users where user_id = ?", (user_id,))[0][0])

        return await self._store.write(find_or_make)

    async def find(self, user_id: str) -> UserNumber | None:
        found = await self._store.read(lambda db: first(db, "select uid from users where user_id = ?", (user_id,)))
        return None if found is None else UserNumber(found[0])

    async def names(self, uids: Sequence[UserNumber]) -> dict[UserNumber, str]:
        if not uids:
            return {}
        named, given = "select uid, user_id from users where uid in carray(?)", (apsw.carray(array("q", uids)),)
        return dict(await self._store.read(lambda db: fetch(db, named, given)))

    async def add_key(self, key: Key) -> None:
        await self._store.write(lambda db: fetch(db, _SQL["add_key"], _key_row(key)))

    async def add_first_key(self, key: Key) -> bool:
        def add_if_first(db: Connection) -> bool:
            if first(db, "select 1 from keys limit 1") is not None:
                return False
            db.execute(_SQL["add_key"], _key_row(key))
            return True

        return await self._store.write(add_if_first)

    async def key(self, key_hash: bytes) -> Key | None:
        found = await self._store.read(lambda db: fetch(db, _SQL["find_key"], (key_hash,)), hot=True)
        return as_key(found[0]) if found else None

    async def keys(self) -> list[Key]:
        return [as_key(row) for row in await self._store.read(lambda db: fetch(db, _SQL["keys"]))]

    async def revoke(self, key_id: KeyId, now: Instant) -> Revoked:
        def revoke(db: Connection) -> Revoked:
            if fetch(db, _SQL["working_admin_keys"], (now,)) == [(key_id.bytes,)]:
                return Revoked.LAST_ADMIN
            return Revoked.DONE if fetch(db, _SQL["revoke"], (now, key_id.bytes)) else Revoked.UNKNOWN

        return await self._store.write(revoke)

    async def users(self, now: Instant, limit: int = 100, after: str | None = None) -> Page[User]:
        given = {
            "now": now,
            "after": unmark(after, int) if after else 0,
            "limit": limit + 1,
            "keys": KEYS_COUNTED,
            "jobs": JOBS_COUNTED,
        }
        found = await self._store.read(lambda db: fetch(db, _SQL["users"], given))
        return page(found, limit, _user, lambda row: row[0])


def _user(row: rows.Row) -> User:
    uid, user_id, created_at, keys, open_jobs, bound = row
    return User(uid, user_id, created_at, keys, open_jobs, None if bound == UNKNOWN.payload else bound)


def _key_row(key: Key) -> tuple[Any, ...]:
    return (
        key.key_id.bytes,
        key.key_hash,
        key.uid,
        key.role.value,
        key.created_at,
        key.expires_at,
        key.revoked_at,
        key.note,
    )


def as_key(row: rows.Row) -> Key:
    key_id, key_hash, uid, user_id, role, *rest = row
    return Key(KeyId(UUID(bytes=key_id)), key_hash, uid, user_id, Role(role), *rest)
