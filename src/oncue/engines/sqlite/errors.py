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
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
LAST_USER, LAST = 2**31 - 1, 2**63 - 1


class SqliteErrors:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def roll_up(self, limit: int = FOLDED_AT_ONCE) -> int:
        if await self._store.read(lambda db: first(db, "select 1 from error_counts limit 1")) is None:
            return 0
        return await self._store.write(lambda db: _fold(db, limit))

    async def groups(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[ErrorGroup]:
        at, last_uid, last = unmark(after, tuple[int, int, int]) if after else (NEVER, LAST_USER, LAST)
        statement = _SQL["list_errors"].format(who="" if uid is None else "uid = :uid and ")
        given = {"uid": uid, "at": at, "last_uid": last_uid, "last": last, "limit": limit + 1}
        found = await self._store.read(lambda db: fetch(db, statement, given))
        return page(found, limit, group, lambda row: (row[7], row[0], row[1]))

    async def open_letters(self, groups: Sequence[GroupKey], most: int = LETTERS_COUNTED) -> dict[GroupKey, int]:
        def look(db: Connection) -> dict[GroupKey, int]:
            counted = {key: fetch(db, _SQL["count_letters_of_error"], (*key, most))[0][0] for key in groups}
            return {key: n for key, n in counted.items() if n}

        return await self._store.read(look)

    async def fingerprints(self, run_ids: Sequence[RunId]) -> dict[RunId, int]:
        def look(db: Connection) -> dict[RunId, int]:
            read = "select fingerprint from dead where run_id = ? and fingerprint is not null"
            found = {run_id: first(db, read, (run_id.bytes,)) for run_id in run_ids}
            return {run_id: row[0] for run_id, row in found.items() if row is not None}

        return await self._store.read(look)


def _fold(db: Connection, limit: int) -> int:
    taken = [Failures(*row) for row in fetch(db, _SQL["take_error_counts"], (limit,))]
    keys = {(one.uid, fingerprint) for one in taken for fingerprint in (one.fingerprint, OTHER)}
    found = (first(db, _SQL["find_error"], key) for key in sorted(keys))
    known = {(one.uid, one.fingerprint): one for one in map(group, filter(None, found))}
    users = {one.uid for one in taken}
    sizes = {uid: fetch(db, _SQL["count_errors"], (uid, MOST_GROUPS))[0][0] for uid in users}
    changed = folded(known, sizes, taken)
    db.executemany(_SQL["put_error"], [stored(changed[key]) for key in sorted(changed)])
    return len(taken)
