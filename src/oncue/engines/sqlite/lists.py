"""Lists. Each page reads a bounded number of rows; a filtered page may be short while its token says there is more.

A list is a walk over rows in order, each with its position; it begins after the position in the token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import merge
from itertools import chain, islice, takewhile
from typing import Any, Literal, TypeVar
from uuid import UUID

from oncue.domain.ids import JobId, RunId, UserNumber, WorkerId, created_at
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import JobStatus, decode_spec
from oncue.domain.ledger import Entry
from oncue.domain.run import RunView, State
from oncue.engines.holding import HELD_SCAN, held_after, held_page
from oncue.engines.marks import mark, page, unmark
from oncue.engines.narrowing import fits, only_ended
from oncue.engines.port import (
    Counts,
    DeadRuns,
    EndedRun,
    JobName,
    JobQuery,
    JobRow,
    Jobs,
    JobVersion,
    LastAndNext,
    Page,
    RunQuery,
)
from oncue.engines.prefixes import range_of
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.classes import all_busy
from oncue.engines.sqlite.nearby import OF_JOB, counts, job_names, last_and_next, last_ended
from oncue.engines.sqlite.partitions import LAST, Piece, newest_ends, pieces
from oncue.engines.sqlite.recent_of_job import list_recent_of_job
from oncue.engines.sqlite.searching import find_ended_one_shot, find_live_jobs
from oncue.engines.sqlite.store import Connection, Store, fetch, stream
from oncue.engines.stored import STATUSES, TRIGGERS

_SQL = statements("oncue.engines.sqlite")
SCAN = 2_000  # most rows of an index that one page reads
SCAN_OF_ALL = 500  # the same of everybody's ends, which are merged from each user's
SORTED_AT_ONCE = 5_000  # runs of one user: up to this many are read and sorted in a few milliseconds
TAGGED_AT_ONCE = 100  # jobs with a tag that are looked up together
FIRST = bytes(16)
BEGINNING = -NEVER
ENDED = frozenset({JobStatus.FINISHED, JobStatus.CANCELLED})
BEING_STOPPED = "job_id in (select run_id from running where cancel_at is not null) and "
NO_JOB: rows.Row = (None,) * 11  # matches no query: its job is gone

T = TypeVar("T")
Place = tuple[str, int | str, bytes]
Walk = Iterator[tuple[Place, rows.Row]]


class SqliteLists:
    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

    async def jobs(self, query: JobQuery) -> Page[JobRow]:
        return await self._store.read(lambda db: list_jobs(db, query))

    async def runs(self, query: RunQuery) -> Page[RunView]:
        return await self._store.read(lambda db: list_runs(db, query))

    async def recent(self, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
        def look(db: Connection) -> list[RunView]:
            retried = fetch(db, _SQL["retried_since"], (uid, since, limit))
            return [*list_recent(db, uid, since, limit), *map(rows.view, retried)]

        return await self._store.read(look)

    async def recent_of_job(self, uid: UserNumber, job_id: JobId, since: Instant, limit: int) -> list[RunView]:
        return await self._store.read(lambda db: list_recent_of_job(db, uid, job_id, since, limit))

    async def held(
        self, worker_id: WorkerId, uid: UserNumber | None, limit: int = 100, after: str | None = None
    ) -> Page[RunView]:
        given = (worker_id.bytes, uid, held_after(after).bytes, limit + 1, HELD_SCAN)
        found = await self._store.read(lambda db: fetch(db, _SQL["list_held"], given))
        return held_page(((rows.view(row[:-1]), bool(row[-1])) for row in found), worker_id, uid, limit)

    async def counts(self, uid: UserNumber | None, most: int, now: Instant) -> Counts:
        return await self._store.read(lambda db: counts(db, uid, most, now))

    async def last_ended(self, job_ids: Sequence[JobId], limit: int) -> dict[JobId, list[EndedRun]]:
        return await self._store.read(lambda db: last_ended(db, job_ids, limit))

    async def job_names(self, runs: Sequence[RunView]) -> dict[RunId, JobName]:
        return await self._store.read(lambda db: job_names(db, runs))

    async def last_and_next(self, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
        return await self._store.read(lambda db: last_and_next(db, job_ids))

    async def versions(self, uid: UserNumber | None, job_id: JobId, below: int, limit: int = 100) -> list[JobVersion]:
        if uid is not None and await self._jobs.read(uid, job_id) is None:
            return []
        given = (job_id.bytes, below, limit)
        return [_version(row) for row in await self._store.read(lambda db: fetch(db, _SQL["list_versions"], given))]

    async def ledger(
        self, uid: UserNumber | None, job_id: JobId, limit: int = 100, after: str | None = None
    ) -> Page[Entry]:
        if uid is not None and await self._jobs.read(uid, job_id) is None:
            return Page(())
        at, entry_id = unmark(after, tuple[int, int]) if after else (NEVER, 0)
        given = (job_id.bytes, at, entry_id, limit + 1)
        found = await self._store.read(lambda db: fetch(db, _SQL["list_ledger"], given))
        return page(found, limit, lambda row: rows.entry(row[:7]), lambda row: (row[2], row[7]))

    async def dead_letters(
        self, uid: UserNumber | None, limit: int = 100, after: str | None = None, *, fingerprint: int | None = None
    ) -> Page[RunView]:
        at, last = unmark(after, tuple[int, bytes]) if after else (NEVER, LAST)
        who = ("" if uid is None else "uid = :uid and ") + ("" if fingerprint is None else "fingerprint = :kind and ")
        statement = _SQL["list_dead"].format(who=who)
        given = {"uid": uid, "at": at, "last": last, "limit": limit + 1, "kind": fingerprint}
        found = await self._store.read(lambda db: fetch(db, statement, given))
        return page(found, limit, rows.view, lambda row: (row[15], row[0]))

    async def dead_by_job(self, uid: UserNumber | None, most: int) -> list[DeadRuns]:
        statement = _SQL["dead_by_job"].format(who="" if uid is None else "where uid = :uid")
        found = await self._store.read(lambda db: fetch(db, statement, {"uid": uid, "most": most}))
        return [DeadRuns(JobId(UUID(bytes=job_id)), *row) for job_id, *row in found]


def _version(row: tuple[Any, ...]) -> JobVersion:
    version, spec, payload, until = row
    return JobVersion(version, decode_spec(spec), payload, until)


def list_jobs(db: Connection, query: JobQuery) -> Page[JobRow]:
    chosen = _chosen(db, query.task, query.queue)
    return _page(_jobs(db, query), query.limit, lambda row: _job_matches(query, chosen, row), rows.job)


def list_runs(db: Connection, query: RunQuery) -> Page[RunView]:
    """List in parts: running, waiting, ended."""
    part, at, last = _after(query, tuple[Part, int, bytes], ("running", 0, FIRST))
    parts = [one for one in _PARTS[_PARTS.index(part) :] if query.states is None or query.states & _STATES[one]]
    if only_ended(query):
        parts = [one for one in parts if one == "ended"]
    walks = (_WALKS[one](db, query, *((at, last) if one == part else _START[one])) for one in parts)
    chosen = _chosen(db, query.task, query.queue)

    def matches(row: rows.Row) -> bool:
        return _run_matches(query, chosen, row) and fits(query, rows.view(row))

    merged = parts == ["ended"] and query.uid is None and query.job_id is None
    scan = max(SCAN_OF_ALL, query.limit + 1) if merged else SCAN
    return _page(chain.from_iterable(walks), query.limit, matches, rows.view, scan)


def _page(
    walk: Walk, limit: int, matches: Callable[[rows.Row], bool], made_of: Callable[[rows.Row], T], scan: int = SCAN
) -> Page[T]:
    items: list[T] = []
    last: Place | None = None
    for seen, (place, row) in enumerate(walk):
        if last is not None and (len(items) == limit or seen == scan):
            return Page(tuple(items), mark(last), None if len(items) == limit else _time_of(last))
        last = place
        if matches(row):
            items.append(made_of(row))
    return Page(tuple(items))


def _time_of(place: Place) -> Instant | None:
    _, at, found = place
    if isinstance(at, str):
        return None
    return Instant(at) if at else created_at(UUID(bytes=found))


def _chosen(db: Connection, task: str | None, queue: str | None) -> Collection[int] | None:
    if task is None and queue is None:
        return None
    asked = {name: value for name, value in (("task", task), ("queue", queue)) if value is not None}
    narrowed = " and ".join(f"{name} = :{name}" for name in asked)
    return {class_id for (class_id,) in fetch(db, f"select class_id from classes where {narrowed}", asked)}


def _uids(db: Connection, uid: int | None) -> list[int]:
    """Return one user, or all: each is read by its own index, and the walks are merged."""
    return [uid] if uid is not None else [found for (found,) in fetch(db, "select uid from users")]


# --------------------------------------------------------------------------------------------------------------- jobs


def _jobs(db: Connection, query: JobQuery) -> Walk:
    if query.next_from is not None or query.next_until is not None:
        _, at, last = _after(query, tuple[Literal["window"], int, bytes], ("window", BEGINNING, FIRST))
        return _jobs_in_window(db, query, at, last)
    if query.tag is not None:
        _, _, last = _after(query, tuple[Literal["tagged"], int, bytes], ("tagged", 0, LAST))
        return _tagged_jobs(db, query, last)
    part, place, last = _after(query, tuple[Literal["live", "ended"], int | str, bytes], ("live", 0, LAST))
    if part == "ended" and isinstance(place, int):
        return _ended_jobs(db, query, place, last)
    live = _live_jobs(db, query, last) if query.name_prefix is None else _jobs_by_name(db, query, place, last)
    return chain(live, _ended_jobs(db, query, NEVER, LAST))


def _after(query: JobQuery | RunQuery, shape: type[T], start: T) -> T:
    return unmark(query.after, shape) if query.after else start


def _live_jobs(db: Connection, query: JobQuery, last: bytes) -> Walk:
    """Walk through recurring jobs in any state, and one-shots that have not ended; newest first."""
    given = {"uid": query.uid, "name": query.name, "last": last}
    who = ("" if query.uid is None else "uid = :uid and ") + ("" if query.name is None else "name = :name and ")
    streams = [stream(db, _SQL["list_recurring"].format(who=who), given)]
    statuses = frozenset(JobStatus) if query.statuses is None else query.statuses
    if statuses - {JobStatus.FINISHED}:
        which = BEING_STOPPED if statuses <= ENDED else ""
        streams.append(stream(db, _SQL["list_one_shots"].format(who=who + which), given))
    for row in merge(*streams, key=lambda row: row[0], reverse=True):
        yield ("live", 0, row[0]), row


def _jobs_by_name(db: Connection, query: JobQuery, at: int | str, last: bytes) -> Walk:
    """Walk through the same in the order of their names."""
    begin, end = range_of(query.name_prefix or "")
    after = (at, last) if isinstance(at, str) else (begin, FIRST)
    who = "" if query.uid is None else "uid = ?1 and "
    streams = [
        stream(db, _SQL["list_by_name"].format(jobs=jobs, who=who), (query.uid, begin, end, *after))
        for jobs in ("recurring_jobs", "live_one_shots")
    ]
    for row in merge(*streams, key=lambda row: (row[5], row[0])):
        yield ("live", row[5], row[0]), row


def _ended_jobs(db: Connection, query: JobQuery, at: int, last: bytes) -> Walk:
    """Walk through one-shots that ended, newest end first."""
    if query.statuses is not None and not query.statuses & ENDED:
        return
    narrowed = "" if query.name is None else "and name = :name "
    for piece in pieces(db):
        if piece.from_at <= at:
            statement = _SQL["list_ended_jobs"].format(piece=piece.name, narrowed=narrowed)
            users = _uids(db, query.uid) if query.name is None else _with_name(db, piece, query.uid, query.name)
            given = {"name": query.name, "at": at, "last": last}
            for row in newest_ends(db, piece, users, statement, given, ended=7):
                yield ("ended", row[7], row[0]), row


def _with_name(db: Connection, piece: Piece, uid: int | None, name: str) -> list[int]:
    having = f"select 1 from {piece.name} h where h.uid = u.uid and h.name = ?2"
    found = fetch(db, f"select uid from users u where ifnull(uid = ?1, true) and exists ({having})", (uid, name))
    return [user for (user,) in found]


def _tagged_jobs(db: Connection, query: JobQuery, last: bytes) -> Walk:
    who = "" if query.uid is None else "uid = ?1 and "
    tagged = stream(db, _SQL["list_tagged"].format(who=who), (query.uid, query.tag, last))
    while some := [job_id for (job_id,) in islice(tagged, min(TAGGED_AT_ONCE, query.limit + 1))]:
        live = find_live_jobs(db, some)
        for job_id in some:
            yield ("tagged", 0, job_id), live.get(job_id) or find_ended_one_shot(db, job_id) or NO_JOB


def _jobs_in_window(db: Connection, query: JobQuery, at: int, last: bytes) -> Walk:
    """Walk through jobs in order of the next run."""
    given = {
        "uid": query.uid,
        "start": at if query.next_from is None else max(at, query.next_from),
        "end": NEVER if query.next_until is None else query.next_until,
        "at": at,
        "last": last,
    }
    who = "" if query.uid is None else "a.uid = :uid and "
    recurring = stream(db, _SQL["list_agenda"].format(who=who), given)
    for row in merge(_one_shots_in_window(db, given), recurring, key=_by_next):
        yield ("window", row[10], row[0]), row


def _one_shots_in_window(db: Connection, given: dict[str, Any]) -> Iterator[rows.Row]:
    """Read and sort the runs of a user who has few; find those of a user with many, or of all users, by due."""
    if (
        given["uid"] is not None
        and len(fetch(db, _SQL["some_run_ids"], (given["uid"], SORTED_AT_ONCE + 1))) <= SORTED_AT_ONCE
    ):
        return iter(sorted(fetch(db, _SQL["few_in_window"], given), key=_by_next))
    who = "" if given["uid"] is None else "and r.uid = :uid "
    by_class = _SQL["due_in_window"].format(who=who)
    streams = [stream(db, by_class, {**given, "class_id": class_id}) for class_id in all_busy(db)]
    return merge(stream(db, _SQL["held_in_window"].format(who=who), given), *streams, key=_by_next)


def _by_next(row: rows.Row) -> tuple[int, bytes]:
    return row[10], row[0]


def _job_matches(query: JobQuery, chosen: Collection[int] | None, row: rows.Row) -> bool:
    _, uid, _, status, class_id, name, _, _, spec, *_ = row
    return (
        spec is not None
        and query.uid in (None, uid)
        and (query.statuses is None or STATUSES[status] in query.statuses)
        and (chosen is None or class_id in chosen)
        and query.name in (None, name)
        and (query.name_prefix is None or (name or "").startswith(query.name_prefix))
        and (query.tag is None or query.tag in decode_spec(spec).tags)
    )


# --------------------------------------------------------------------------------------------------------------- runs


Part = Literal["running", "waiting", "ended"]
_PARTS: tuple[Part, ...] = ("running", "waiting", "ended")
_START: dict[Part, tuple[int, bytes]] = {"running": (0, FIRST), "waiting": (0, FIRST), "ended": (NEVER, LAST)}
_STATES: dict[Part, set[State]] = {
    "running": {State.RUNNING},
    "waiting": {State.WAITING},
    "ended": {state for state in State if state.final},
}


def _running(db: Connection, query: RunQuery, at: int, last: bytes) -> Walk:
    for row in stream(db, _SQL["list_running"], (last,)):
        yield ("running", 0, row[0]), row


def _waiting(db: Connection, query: RunQuery, at: int, last: bytes) -> Walk:
    if query.job_id is not None:
        given = (query.job_id.bytes, last)
        streams = [stream(db, _SQL["list_waiting_of_job"].format(which=which), given) for which in OF_JOB]
    else:
        who = "" if query.uid is None else "uid = :uid and "
        streams = [stream(db, _SQL["list_waiting"].format(who=who), {"uid": query.uid, "last": last})]
    for row in merge(*streams, key=lambda row: row[0]):
        yield ("waiting", 0, row[0]), row


def _ended(db: Connection, query: RunQuery, at: int, last: bytes) -> Walk:
    at, last = (at, last) if query.ended_until is None else min((at, last), (query.ended_until, FIRST))
    since = BEGINNING if query.ended_from is None else query.ended_from
    for piece in pieces(db, since):
        if piece.from_at > at:
            continue
        if query.job_id is not None:
            statement, given = _SQL["list_ended_of_job"], (query.job_id.bytes, at, last)
            streams = [stream(db, statement.format(piece=piece.name, which=which), given) for which in OF_JOB]
            found: Iterator[rows.Row] = merge(*streams, key=lambda row: (row[15], row[0]), reverse=True)
        else:
            statement = _SQL["list_ended"].format(piece=piece.name)
            found = newest_ends(db, piece, _uids(db, query.uid), statement, {"at": at, "last": last}, ended=15)
        for row in found:
            if row[15] < since:
                return
            yield ("ended", row[15], row[0]), row


_WALKS: dict[Part, Callable[[Connection, RunQuery, int, bytes], Walk]] = {
    "running": _running,
    "waiting": _waiting,
    "ended": _ended,
}


def list_recent(db: Connection, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
    query = RunQuery(uid)
    running = (row for _, row in _running(db, query, *_START["running"]) if uid in (None, row[2]))
    ended = (row for _, row in takewhile(lambda one: one[1][15] >= since, _ended(db, query, *_START["ended"])))
    return [rows.view(row) for row in chain(islice(running, limit), islice(ended, limit))]


def _run_matches(query: RunQuery, chosen: Collection[int] | None, row: rows.Row) -> bool:
    _, job_id, uid, class_id, state, _, wanted, *_ = row
    return (
        query.uid in (None, uid)
        and (query.job_id is None or query.job_id.bytes == job_id)
        and (query.states is None or state in query.states)
        and (chosen is None or class_id in chosen)
        and (query.wanted_from is None or wanted >= query.wanted_from)
        and (query.wanted_until is None or wanted < query.wanted_until)
        and (query.worker_id is None or row[17] == query.worker_id.bytes)
        and (query.triggers is None or TRIGGERS[row[8]] in query.triggers)
        and (query.error_type is None or (row[18] or row[21]) is not None)
    )
