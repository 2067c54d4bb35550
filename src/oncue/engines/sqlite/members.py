"""The processes of oncue that run on this database."""

from __future__ import annotations

from uuid import UUID

from oncue.domain.instants import Instant
from oncue.engines.port import Member
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Store, fetch

_SQL = statements("oncue.engines.sqlite")


class SqliteMembers:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def beat(self, member: Member, now: Instant) -> None:
        who = (member.member_id.bytes, member.role, member.version, member.schema, member.host, member.started_at)
        await self._store.write(lambda db: fetch(db, _SQL["beat_of_member"], (*who, now)))

    async def leave(self, member_id: UUID) -> None:
        forget = "delete from members where member_id = ?"
        await self._store.write(lambda db: fetch(db, forget, (member_id.bytes,)))

    async def known(self) -> list[Member]:
        found = await self._store.read(lambda db: fetch(db, _SQL["known_members"]))
        return [Member(UUID(bytes=member_id), *row) for member_id, *row in found]
