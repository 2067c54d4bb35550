"""The processes of oncue that run on this database."""

from __future__ import annotations

from uuid import UUID

from oncue.domain.instants import Instant
from oncue.engines.port import Member
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


class PostgresMembers:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def beat(self, member: Member, now: Instant) -> None:
        who = (member.member_id, member.role, member.version, member.schema, member.host, member.started_at)
        await self._store.fetch(_SQL["beat_of_member"], *who, now, hot=True)

    async def leave(self, member_id: UUID) -> None:
        await self._store.fetch("delete from members where member_id = $1", member_id, hot=True)

    async def known(self) -> list[Member]:
        return [Member(*row) for row in await self._store.fetch(_SQL["known_members"])]
