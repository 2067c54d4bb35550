"""Browsers that are signed in, and when keys and sessions were used last."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from oncue.domain.ids import KeyId
from oncue.domain.instants import Instant
from oncue.engines.port import Key, Session
from oncue.engines.sql import statements
from oncue.engines.sqlite.accounts import as_key
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")


class SqliteSessions:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, session: Session, most: int) -> None:
        def open_session(db: Connection) -> None:
            key_id = session.key_id.bytes
            new = (session.session_hash, key_id, session.created_at, session.expires_at)
            db.execute(_SQL["open_session"], new)
            db.execute(_SQL["end_oldest_sessions"], (key_id, most))

        await self._store.write(open_session)

    async def find(self, session_hash: bytes) -> tuple[Session, Key] | None:
        found = await self._store.read(lambda db: first(db, _SQL["find_session"], (session_hash,)), hot=True)
        if found is None:
            return None
        _, key_id, created_at, expires_at = found[:4]
        return Session(session_hash, KeyId(UUID(bytes=key_id)), created_at, expires_at), as_key(found[4:])

    async def end(self, session_hash: bytes) -> None:
        end = "delete from key_sessions where session_hash = ?"
        await self._store.write(lambda db: fetch(db, end, (session_hash,)))

    async def used(self, keys: Mapping[KeyId, int], sessions: Mapping[bytes, Instant]) -> None:
        def used(db: Connection) -> None:
            db.executemany(_SQL["key_used"], [(day, key_id.bytes) for key_id, day in keys.items()])
            db.executemany(_SQL["extend_session"], [(at, session_hash) for session_hash, at in sessions.items()])

        await self._store.write(used)
