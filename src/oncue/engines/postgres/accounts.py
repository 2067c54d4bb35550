"""Users, their keys, and what they did."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from asyncpg import Record

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.marks import mark, unmark
from oncue.engines.port import AuditEntry, IdempotencyKey, Key, Page, Reserved, Revoked, Role
from oncue.engines.postgres import idempotency
from oncue.engines.postgres.inserting import AUDIT, write_audit
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
FIRST_KEY_LOCK = 0x6669727374  # "first"


class PostgresAccounts:
    def __init__(self, store: Store, pieces: Partitions) -> None:
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

    async def reserve(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
        return await self._store.write(lambda c: idempotency.reserve(c, uid, idempotency_key, made))

    async def answered(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID, answer: bytes) -> None:
        await self._store.fetch(
            _SQL["answer_repeat"], uid, idempotency_key.key_hash, idempotency_key.body_hash, made, answer
        )

    async def refused(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> None:
        await self._store.fetch(_SQL["open_repeat"], uid, idempotency_key.key_hash, idempotency_key.body_hash, made)

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        await self._pieces.write(
            "audit", [audit_entry.at for audit_entry in audit_entries], lambda c: write_audit(c, audit_entries)
        )

    async def audit(
        self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None
    ) -> Page[AuditEntry]:
        at, deed_id = unmark(after, tuple[int, int]) if after else (2**63 - 1, 0)
        which, who = ("audit", []) if uid is None else ("audit_of_user", [uid])
        found = await self._store.fetch(_SQL[which], at, deed_id, limit + 1, *who)
        more = mark((found[limit - 1]["at"], found[limit - 1]["deed_id"])) if len(found) > limit else None
        return Page(tuple(_audit_entry(row) for row in found[:limit]), more)


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


def _audit_entry(row: Record) -> AuditEntry:
    return AuditEntry(*(row[column] for column in AUDIT))
