"""Find what people name by a part of its id, by a key or by the beginning of a tag."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.run import RunView
from oncue.engines.port import JobRow
from oncue.engines.port.searching import SEARCHED, SEARCHED_USERS
from oncue.engines.postgres import rows
from oncue.engines.postgres.store import Store
from oncue.engines.prefixes import range_of
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


class PostgresSearch:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def ids(self, uid: UserNumber | None, first: UUID, last: UUID, limit: int) -> list[UUID]:
        found = await self._store.fetch(_SQL["search_ids"], uid, first, last, SEARCHED, limit)
        return [row["id"] for row in found]

    async def endings(self, uid: UserNumber | None, digits: str, limit: int) -> list[UUID]:
        which, who = ("search_endings", []) if uid is None else ("search_endings_of_user", [uid])
        whole = bytes.fromhex(digits[len(digits) % 2 :])
        given = (digits, SEARCHED, limit, *who, 1 + 16 - len(whole), whole)
        return [row["id"] for row in await self._store.fetch(_SQL[which], *given)]

    async def keys(self, uid: UserNumber | None, prefix: str, limit: int) -> list[tuple[str, JobId]]:
        found = await self._store.fetch(_SQL["search_keys"], uid, *range_of(prefix), limit, SEARCHED_USERS)
        return [(row["key"], row["job_id"]) for row in found]

    async def tags(self, uid: UserNumber | None, prefix: str, limit: int) -> list[str]:
        which, who = ("search_tags_of_all", []) if uid is None else ("search_tags", [uid])
        found = await self._store.fetch(_SQL[which], *who, *range_of(prefix), limit)
        return [row["tag"] for row in found]

    async def jobs_by_id(self, uid: UserNumber | None, job_ids: Sequence[JobId]) -> dict[JobId, JobRow]:
        found = await self._store.fetch(_SQL["jobs_by_id"], sorted(job_ids), uid)
        return {row["job_id"]: rows.listed(row) for row in found}

    async def runs_by_id(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> dict[RunId, RunView]:
        found = await self._store.fetch(_SQL["runs_by_id"], sorted(run_ids), uid)
        return {row["run_id"]: rows.view(row) for row in found}
