"""Users, their keys, and what they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.marks import mark, unmark
from oncue.engines.port import AuditEntry, IdempotencyKey, Key, Page, Reserved, Revoked, Role
from oncue.engines.sql import statements
from oncue.engines.sqlite import idempotency, rows
from oncue.engines.sqlite.inserting import write_audit
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
        return _key(found[0]) if found else None

    async def keys(self) -> list[Key]:
        return [_key(row) for row in await self._store.read(lambda db: fetch(db, _SQL["keys"]))]

    async def revoke(self, key_id: KeyId, now: Instant) -> Revoked:
        def revoke(db: Connection) -> Revoked:
            if fetch(db, _SQL["working_admin_keys"], (now,)) == [(key_id.bytes,)]:
                return Revoked.LAST_ADMIN
            return Revoked.DONE if fetch(db, _SQL["revoke"], (now, key_id.bytes)) else Revoked.UNKNOWN

        return await self._store.write(revoke)

    async def reserve(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
        return await self._store.write(lambda db: idempotency.reserve(db, uid, idempotency_key, made))

    async def answered(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID, answer: bytes) -> None:
        await self._store.write(lambda db: idempotency.answered(db, uid, idempotency_key, made, answer))

    async def refused(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> None:
        await self._store.write(lambda db: idempotency.refused(db, uid, idempotency_key, made))

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        await self._store.write(lambda db: write_audit(db, audit_entries))

    async def audit(
        self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None
    ) -> Page[AuditEntry]:
        at, deed_id = unmark(after, tuple[int, int]) if after else (2**63 - 1, 0)
        which = "audit" if uid is None else "audit_of_user"
        given = {"uid": uid, "at": at, "deed_id": deed_id, "limit": limit + 1}
        found = await self._store.read(lambda db: fetch(db, _SQL[which], given))
        more = mark(found[limit - 1][:2]) if len(found) > limit else None
        return Page(tuple(_audit_entry(row) for row in found[:limit]), more)


def _key_row(key: Key) -> tuple[Any, ...]:
    return (
        key.key_id.bytes,
        key.key_hash,
        key.uid,
        key.role.value,
        key.created_at,
        key.expires_at,
        key.revoked_at,
    )


def _key(row: rows.Row) -> Key:
    key_id, key_hash, uid, user_id, role, created_at, expires_at, revoked_at = row
    return Key(KeyId(UUID(bytes=key_id)), key_hash, uid, user_id, Role(role), created_at, expires_at, revoked_at)


def _audit_entry(row: rows.Row) -> AuditEntry:
    at, _, uid, key_id, action, object_id, detail, address = row
    return AuditEntry(at, uid, rows.id_or_none(key_id), action, rows.id_or_none(object_id), detail, address)
