"""Find what people name by a part of its id, by a key or by the beginning of a tag; and jobs by their ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from msgspec.structs import replace

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.run import RunView
from oncue.engines.port import JobRow
from oncue.engines.port.searching import SEARCHED, SEARCHED_USERS
from oncue.engines.prefixes import range_of
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.partitions import find_ended, pieces
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")


class SqliteSearch:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def ids(self, uid: UserNumber | None, first: UUID, last: UUID, limit: int) -> list[UUID]:
        return await self._store.read(lambda db: _ids(db, uid, first, last, limit))

    async def endings(self, uid: UserNumber | None, digits: str, limit: int) -> list[UUID]:
        return await self._store.read(lambda db: _endings(db, uid, digits, limit))

    async def keys(self, uid: UserNumber | None, prefix: str, limit: int) -> list[tuple[str, JobId]]:
        def look(db: Connection) -> list[tuple[str, JobId]]:
            begins = range_of(prefix)
            found = [row for one in _users(db, uid) for row in fetch(db, _SQL["search_keys"], (one, *begins, limit))]
            return [(key, JobId(UUID(bytes=job_id))) for key, job_id in sorted(found)[:limit]]

        return await self._store.read(look)

    async def tags(self, uid: UserNumber | None, prefix: str, limit: int) -> list[str]:
        begin, end = range_of(prefix)
        given = {"uid": uid, "begin": begin, "end": end, "limit": limit}
        statement = _SQL["search_tags"].format(who="" if uid is None else "uid = :uid and ")
        return [tag for (tag,) in await self._store.read(lambda db: fetch(db, statement, given))]

    async def jobs_by_id(self, uid: UserNumber | None, job_ids: Sequence[JobId]) -> dict[JobId, JobRow]:
        def look(db: Connection) -> dict[JobId, JobRow]:
            found = (_job(db, job_id) for job_id in job_ids)
            return {row.job.job_id: row for row in found if row is not None and uid in (None, row.job.uid)}

        return await self._store.read(look)

    async def runs_by_id(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> dict[RunId, RunView]:
        def look(db: Connection) -> dict[RunId, RunView]:
            found = (_run(db, run_id) for run_id in run_ids)
            return {run.run_id: run for run in found if run is not None and uid in (None, run.uid)}

        return await self._store.read(look)


def _users(db: Connection, uid: UserNumber | None) -> list[int]:
    if uid is not None:
        return [uid]
    return [one for (one,) in fetch(db, "select uid from users order by uid desc limit ?", (SEARCHED_USERS,))]


def _ids(db: Connection, uid: UserNumber | None, lowest: UUID, highest: UUID, limit: int) -> list[UUID]:
    given = {"uid": uid, "first": lowest.bytes, "last": highest.bytes, "scan": SEARCHED}
    own, others = set[bytes](), set[bytes]()
    tables = [("jobs", "job_id"), *((table, "run_id") for table in ("runs", "dead", *(one.name for one in pieces(db))))]
    for table, key in tables:
        for found, is_job in fetch(db, _SQL["search_ids"].format(table=table, key=key), given):
            (own if is_job else others).add(found)
    newest = sorted((*sorted(own)[-limit:], *sorted(others)[-limit:]), reverse=True)
    return [UUID(bytes=one) for one in newest]


def _endings(db: Connection, uid: UserNumber | None, digits: str, limit: int) -> list[UUID]:
    given = {"uid": uid, "ending": digits.upper(), "length": -len(digits)}
    found = {row[0] for look, scan in _newest(db, uid) for row in fetch(db, look, {**given, "scan": scan})}
    return [UUID(bytes=one) for one in sorted(found, reverse=True)[:limit]]


def _newest(db: Connection, uid: UserNumber | None) -> Iterator[tuple[str, int]]:
    """Yield a statement for each table, and how many entries it may read: `SEARCHED` of history, newest first."""
    who, by_end = ("", "run_id desc") if uid is None else ("where uid = :uid", "ended_at desc, run_id desc")
    ending = _SQL["search_endings"]
    yield ending.format(table="jobs", key="job_id", who=who, order="job_id desc"), SEARCHED
    yield ending.format(table="runs", key="run_id", who=who, order="run_id desc"), SEARCHED
    yield ending.format(table="runs", key="run_id", who=who, order="run_id"), SEARCHED
    yield ending.format(table="dead", key="run_id", who=who, order=by_end), SEARCHED
    left = SEARCHED
    for piece in pieces(db):
        yield ending.format(table=piece.name, key="run_id", who=who, order=by_end), left
        counted = f"select count(*) from (select 1 from {piece.name} {who} limit :left)"
        [(there,)] = fetch(db, counted, {"uid": uid, "left": left})
        left -= there
        if not left:
            return


def _job(db: Connection, job_id: JobId) -> JobRow | None:
    row = find_job(db, job_id.bytes)
    return None if row is None else rows.job(row)


def _run(db: Connection, run_id: RunId) -> RunView | None:
    row = first(db, _SQL["live_run"], (run_id.bytes,)) or find_ended(db, run_id, _SQL["find_ended_run"])
    return None if row is None else replace(rows.view(row), payload=None, spec=None)


def find_job(db: Connection, job_id: bytes) -> rows.Row | None:
    """Return a job of either kind in any state. None also if the run with this id is not a job."""
    return first(db, _SQL["recurring_job"], (job_id,)) or find_one_shot(db, job_id)


def find_one_shot(db: Connection, job_id: bytes) -> rows.Row | None:
    return first(db, _SQL["one_shot"], (job_id,)) or find_ended_one_shot(db, job_id)


def find_ended_one_shot(db: Connection, job_id: bytes) -> rows.Row | None:
    row = find_ended(db, UUID(bytes=job_id), _SQL["find_ended_job"])
    return None if row is None or row[8] is None else row


def find_live_jobs(db: Connection, job_ids: Sequence[bytes]) -> dict[bytes, rows.Row]:
    """Return those of these jobs that recur, or run once and have not ended."""
    asked = (rows.blobs(job_ids),)
    return {row[0]: row for name in ("recurring_by_id", "one_shots_by_id") for row in fetch(db, _SQL[name], asked)}
