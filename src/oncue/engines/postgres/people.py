"""Users, their keys, and what they did."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from asyncpg import Record

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.marks import mark, unmark
from oncue.engines.port import Deed, Key, Page, Repeat, Reserved, Revoked, Role
from oncue.engines.postgres import repeats
from oncue.engines.postgres.inserting import AUDIT, write_deeds
from oncue.engines.postgres.pieces import Pieces
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
FIRST_KEY_LOCK = 0x6669727374  # "first"


class PostgresPeople:
    def __init__(self, store: Store, pieces: Pieces) -> None:
        self._store = store
        self._pieces = pieces

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

    async def add_key(self, key: Key) -> None:
        await self._store.write(lambda c: _add_key(c, key))

    async def add_first_key(self, key: Key) -> bool:
        async def add_if_first(connection: Connection) -> bool:
            await connection.execute("select pg_advisory_xact_lock($1)", FIRST_KEY_LOCK)
            if await connection.fetchval("select exists (select from keys)"):
                return False
            await _add_key(connection, key)
            return True

        return await self._store.write(add_if_first)

    async def key(self, key_hash: bytes) -> Key | None:
        found = await self._store.fetch(_SQL["find_key"], key_hash)
        return _key(found[0]) if found else None

    async def keys(self) -> list[Key]:
        return [_key(row) for row in await self._store.fetch(_SQL["list_keys"])]

    async def revoke(self, key_id: KeyId, now: Instant) -> Revoked:
        async def revoke(connection: Connection) -> Revoked:
            working = await connection.fetch(_SQL["lock_working_admin_keys"], now)
            if [row["key_id"] for row in working] == [key_id]:
                return Revoked.LAST_ADMIN
            return Revoked.DONE if await connection.fetch(_SQL["revoke"], key_id, now) else Revoked.UNKNOWN

        return await self._store.write(revoke)

    async def reserve(self, uid: UserNumber, repeat: Repeat, made: UUID) -> Reserved:
        return await self._store.write(lambda c: repeats.reserve(c, uid, repeat, made))

    async def answered(self, uid: UserNumber, repeat: Repeat, made: UUID, answer: bytes) -> None:
        await self._store.fetch(_SQL["answer_repeat"], uid, repeat.key_hash, repeat.body_hash, made, answer)

    async def refused(self, uid: UserNumber, repeat: Repeat, made: UUID) -> None:
        await self._store.fetch(_SQL["open_repeat"], uid, repeat.key_hash, repeat.body_hash, made)

    async def record(self, deeds: Sequence[Deed]) -> None:
        await self._pieces.write("audit", [deed.at for deed in deeds], lambda c: write_deeds(c, deeds))

    async def audit(self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None) -> Page[Deed]:
        at, deed_id = unmark(after, tuple[int, int]) if after else (2**63 - 1, 0)
        which, who = ("audit", []) if uid is None else ("audit_of_user", [uid])
        found = await self._store.fetch(_SQL[which], at, deed_id, limit + 1, *who)
        more = mark((found[limit - 1]["at"], found[limit - 1]["deed_id"])) if len(found) > limit else None
        return Page(tuple(_deed(row) for row in found[:limit]), more)


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
    )


def _key(row: Record) -> Key:
    return Key(
        key_id=row["key_id"],
        key_hash=row["key_hash"],
        uid=row["uid"],
        user_id=row["user_id"],
        role=Role(row["role"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )


def _deed(row: Record) -> Deed:
    return Deed(*(row[column] for column in AUDIT))
