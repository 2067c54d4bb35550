"""Browsers that are signed in, and when keys and sessions were used last."""

from __future__ import annotations

from collections.abc import Mapping

from oncue.domain.ids import KeyId
from oncue.domain.instants import Instant
from oncue.engines.port import Key, Session
from oncue.engines.postgres.accounts import as_key
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


class PostgresSessions:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, session: Session, most: int) -> None:
        async def open_session(connection: Connection) -> None:
            key_id = session.key_id
            await connection.execute("select from keys where key_id = $1 for no key update", key_id)  # one at a time
            new = (session.session_hash, key_id, session.created_at, session.expires_at)
            await connection.execute(_SQL["open_session"], *new)
            await connection.execute(_SQL["end_oldest_sessions"], key_id, most)

        await self._store.write(open_session)

    async def find(self, session_hash: bytes) -> tuple[Session, Key] | None:
        found = await self._store.fetch(_SQL["find_session"], session_hash)
        if not found:
            return None
        [row] = found
        return Session(session_hash, row["key_id"], row["opened_at"], row["ends_at"]), as_key(row)

    async def end(self, session_hash: bytes) -> None:
        await self._store.fetch("delete from key_sessions where session_hash = $1", session_hash)

    async def used(self, keys: Mapping[KeyId, int], sessions: Mapping[bytes, Instant]) -> None:
        async def used(connection: Connection) -> None:
            await connection.executemany(_SQL["key_used"], sorted(keys.items()))  # in one order: no deadlock
            await connection.executemany(_SQL["extend_session"], sorted(sessions.items()))

        await self._store.write(used)
