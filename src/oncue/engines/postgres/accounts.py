"""Users and their keys."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Record

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.admitting import UNKNOWN
from oncue.engines.marks import page, unmark
from oncue.engines.port import JOBS_COUNTED, KEYS_COUNTED, Key, Page, Revoked, Role, User
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
FIRST_KEY_LOCK = 0x6669727374  # "first"


class PostgresAccounts:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def user(self, user_id: str, now: Instant) -> UserNumber:
        async def find_or_make(connection: Connection) -> UserNumber:
            find = "select uid from users where user_id = $1"
            if (uid := await connection.fetchval(find, user_id)) is None:
                await connection.execute(
                    "insert into users (user_id, created_at) values ($1, $2) on conflict do nothing", user_id, now
                )
                uid = await connection.fetchval(find, user_id)
            return UserNumber(uid)

        return await self._store.write(find_or_make)

    async def find(self, user_id: str) -> UserNumber | None:
        found = await self._store.fetch("select uid from users where user_id = $1", user_id)
        return found[0]["uid"] if found else None

    async def names(self, uids: Sequence[UserNumber]) -> dict[UserNumber, str]:
        found = await self._store.fetch("select uid, user_id from users where uid = any($1::int[])", uids)
        return {row["uid"]: row["user_id"] for row in found}

    async def add_key(self, key: Key) -> None:
        await self._store.write(lambda c: _add_key(c, key))

    async def add_first_key(self, key: Key) -> bool:
        async def add_if_first(connection: Connection) -> bool:
            await connection.execute(_SQL["lock"], FIRST_KEY_LOCK)
            if await connection.fetchval("select exists (select from keys)"):
                return False
            await _add_key(connection, key)
            return True

        return await self._store.write(add_if_first)

    async def key(self, key_hash: bytes) -> Key | None:
        found = await self._store.fetch(_SQL["find_key"], key_hash)
        return as_key(found[0]) if found else None

    async def keys(self) -> list[Key]:
        return [as_key(row) for row in await self._store.fetch(_SQL["list_keys"])]

    async def revoke(self, key_id: KeyId, now: Instant) -> Revoked:
        async def revoke(connection: Connection) -> Revoked:
            working = await connection.fetch(_SQL["lock_working_admin_keys"], now)
            if [row["key_id"] for row in working] == [key_id]:
                return Revoked.LAST_ADMIN
            return Revoked.DONE if await connection.fetch(_SQL["revoke"], key_id, now) else Revoked.UNKNOWN

        return await self._store.write(revoke)

    async def users(self, now: Instant, limit: int = 100, after: str | None = None) -> Page[User]:
        given = (unmark(after, int) if after else 0, limit + 1, now, KEYS_COUNTED, JOBS_COUNTED)
        found = await self._store.fetch(_SQL["users"], *given)
        return page(found, limit, _user, lambda row: row["uid"])


def _user(row: Record) -> User:
    uid, user_id, created_at, keys, open_jobs, bound = row
    return User(uid, user_id, created_at, keys, open_jobs, None if bound == UNKNOWN.payload else bound)


async def _add_key(connection: Connection, key: Key) -> None:
    await connection.execute(
        _SQL["add_key"],
        key.key_id,
        key.key_hash,
        key.uid,
        key.role,
        key.created_at,
        key.expires_at,
        key.revoked_at,
        key.note,
    )


def as_key(row: Record) -> Key:
    return Key(
        key_id=row["key_id"],
        key_hash=row["key_hash"],
        uid=row["uid"],
        user_id=row["user_id"],
        role=Role(row["role"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        note=row["note"],
        last_used_on=row["last_used_on"],
    )
