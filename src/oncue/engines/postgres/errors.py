"""Failures of one kind, counted together."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.error_groups import MOST_GROUPS, ErrorGroup, Failures, GroupKey, folded
from oncue.domain.fingerprint import OTHER
from oncue.domain.ids import RunId, UserNumber
from oncue.domain.instants import NEVER
from oncue.engines.error_rows import group, stored
from oncue.engines.marks import page, unmark
from oncue.engines.port import FOLDED_AT_ONCE, LETTERS_COUNTED, Page
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
_LOCK = 0x6F6E637565_657272  # any number that no other advisory lock uses
LAST_USER, LAST = 2**31 - 1, 2**63 - 1


class PostgresErrors:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def roll_up(self, limit: int = FOLDED_AT_ONCE) -> int:
        if not await self._store.fetch("select 1 from error_counts limit 1"):
            return 0
        return await self._store.write(lambda connection: _fold(connection, limit))

    async def groups(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[ErrorGroup]:
        at, last_uid, last = unmark(after, tuple[int, int, int]) if after else (NEVER, LAST_USER, LAST)
        which, whose = ("list_errors", last_uid) if uid is None else ("list_errors_of_user", uid)
        found = await self._store.fetch(_SQL[which], at, whose, last, limit + 1)
        return page(found, limit, group, lambda row: (row["last_seen"], row["uid"], row["fingerprint"]))

    async def open_letters(self, groups: Sequence[GroupKey], most: int = LETTERS_COUNTED) -> dict[GroupKey, int]:
        if not groups:
            return {}
        uids, fingerprints = zip(*groups, strict=True)
        found = await self._store.fetch(_SQL["count_letters_of_errors"], uids, fingerprints, most)
        return {(row["uid"], row["fingerprint"]): row["n"] for row in found}

    async def fingerprints(self, run_ids: Sequence[RunId]) -> dict[RunId, int]:
        read = "select run_id, fingerprint from dead where run_id = any($1::uuid[]) and fingerprint is not null"
        return {row["run_id"]: row["fingerprint"] for row in await self._store.fetch(read, run_ids)}


async def _fold(connection: Connection, limit: int) -> int:
    """One caller at a time: what it reads of the groups it also writes."""
    if not await connection.fetchval(_SQL["try_lock"], _LOCK):
        return 0
    taken = [Failures(*row) for row in await connection.fetch(_SQL["take_error_counts"], limit)]
    keys = sorted({(one.uid, fingerprint) for one in taken for fingerprint in (one.fingerprint, OTHER)})
    users = sorted({one.uid for one in taken})
    if not taken:
        return 0
    known = map(group, await connection.fetch(_SQL["find_errors"], *zip(*keys, strict=True)))
    sizes = {row["uid"]: row["n"] for row in await connection.fetch(_SQL["count_errors"], users, MOST_GROUPS)}
    changed = folded({(one.uid, one.fingerprint): one for one in known}, sizes, taken)
    rows = [stored(changed[key]) for key in sorted(changed)]
    await connection.execute(_SQL["put_errors"], *map(list, zip(*rows, strict=True)))
    return len(taken)
