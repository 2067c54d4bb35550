"""Lists. Each page reads a bounded number of rows; a filtered page may be short while its token says there is more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple
from uuid import UUID

from asyncpg import Record
from msgspec.structs import replace

from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, WorkerId, created_at
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import JobStatus, decode_spec
from oncue.domain.lane import Held
from oncue.domain.ledger import Entry
from oncue.domain.run import RunView, State
from oncue.engines.holding import HELD_SCAN, held_after, held_page
from oncue.engines.marks import mark, page, unmark
from oncue.engines.narrowing import fits, is_narrowed, only_ended
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
from oncue.engines.postgres import rows
from oncue.engines.postgres.nearby import counts, job_names, last_and_next, last_ended, newest_ends, next_wanted
from oncue.engines.postgres.recent_of_job import list_recent_of_job
from oncue.engines.postgres.store import Store
from oncue.engines.prefixes import range_of
from oncue.engines.sql import statements
from oncue.engines.stored import STATUS_NUMBER, TRIGGERS

_SQL = statements("oncue.engines.postgres")
SCAN = 2_000  # most rows of an index that one page reads
BEGINS = "and name >= $8 and name < $9"
SCAN_OF_ALL = 500  # the same of everybody's ends, which are merged from each user's
WINDOW_OF_ALL = 200  # the same of everybody's jobs by their next run
LOOKUP_SCAN = 1_000  # the same where each row has to be looked up by its id
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)
ENDED_FROM = (NEVER, LAST)
THE_ENDED = mark(("ended", *ENDED_FROM))
ALWAYS = (Instant(-(2**62)), Instant(2**62 + 1))
BEGINNING = ALWAYS[0]


# Which active or paused one-shots a status stands for: parts of the statement, never the user's text.
_WAITING = {JobStatus.ACTIVE: f"held & {Held.PAUSED:d} = 0", JobStatus.PAUSED: f"held & {Held.PAUSED:d} > 0"}
_RUNNING = {JobStatus.ACTIVE: "cancel_at is null", JobStatus.CANCELLED: "cancel_at is not null"}
ENDED = frozenset({JobStatus.FINISHED, JobStatus.CANCELLED})


def one_shots(statuses: Collection[JobStatus]) -> dict[str, str]:
    return {"held": _any_of(_WAITING, statuses), "running": _any_of(_RUNNING, statuses)}


def _any_of(conditions: dict[JobStatus, str], statuses: Collection[JobStatus]) -> str:
    """Both conditions together are always true, and "true" lets the planner take any index."""
    chosen = [condition for status, condition in conditions.items() if status in statuses]
    return "true" if len(chosen) == len(conditions) else chosen[0] if chosen else "false"


# The planner would read all jobs with the tag for an `exists`.
TAGGED = "and (select true from job_tags t where t.uid = w.uid and t.tag = $10 and t.job_id = w.job_id)"


class PostgresLists:
    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

    async def jobs(self, query: JobQuery) -> Page[JobRow]:
        return await list_jobs(self._store, query)

    async def runs(self, query: RunQuery) -> Page[RunView]:
        return await list_runs(self._store, query)

    async def recent(self, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
        recent = await list_recent(self._store, uid, since, limit)
        retried = await self._store.fetch(_SQL["retried_since"], uid, since, limit)
        return [*recent, *map(rows.view, retried)]

    async def recent_of_job(self, uid: UserNumber, job_id: JobId, since: Instant, limit: int) -> list[RunView]:
        return await list_recent_of_job(self._store, uid, job_id, since, limit)

    async def held(
        self, worker_id: WorkerId, uid: UserNumber | None, limit: int = 100, after: str | None = None
    ) -> Page[RunView]:
        given = (worker_id, uid, held_after(after), limit + 1, HELD_SCAN)
        found = await self._store.fetch(_SQL["list_held"], *given)
        seen = ((rows.view([row[name] for name in RunView.__struct_fields__]), row["stopped"]) for row in found)
        return held_page(seen, worker_id, uid, limit)

    async def counts(self, uid: UserNumber | None, most: int, now: Instant) -> Counts:
        return await counts(self._store, uid, most, now)

    async def last_ended(self, job_ids: Sequence[JobId], limit: int) -> dict[JobId, list[EndedRun]]:
        return await last_ended(self._store, job_ids, limit)

    async def job_names(self, runs: Sequence[RunView]) -> dict[RunId, JobName]:
        return await job_names(self._store, runs)

    async def last_and_next(self, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
        return await last_and_next(self._store, job_ids)

    async def versions(self, uid: UserNumber | None, job_id: JobId, below: int, limit: int = 100) -> list[JobVersion]:
        if uid is not None and await self._jobs.read(uid, job_id) is None:
            return []
        return [_version(row) for row in await self._store.fetch(_SQL["list_versions"], job_id, below, limit)]

    async def ledger(
        self, uid: UserNumber | None, job_id: JobId, limit: int = 100, after: str | None = None
    ) -> Page[Entry]:
        if uid is not None and await self._jobs.read(uid, job_id) is None:
            return Page(())
        at, entry_id = unmark(after, tuple[int, int]) if after else (NEVER, 0)
        found = await self._store.fetch(_SQL["list_ledger"], job_id, at, entry_id, limit + 1)
        return page(found, limit, rows.entry, lambda row: (row["last_at"], row["entry_id"]))

    async def dead_letters(
        self, uid: UserNumber | None, limit: int = 100, after: str | None = None, *, fingerprint: int | None = None
    ) -> Page[RunView]:
        at, last = unmark(after, tuple[int, UUID]) if after else (NEVER, LAST)
        who: list[int]
        which, who = ("list_dead", []) if uid is None else ("list_dead_of_user", [uid])
        if fingerprint is not None:
            which, who = ("list_dead_of_kind" if uid is None else "list_dead_of_group"), [*who, fingerprint]
        found = await self._store.fetch(_SQL[which], at, last, limit + 1, *who)
        return page(found, limit, rows.view, lambda row: (row["ended_at"], row["run_id"]))

    async def dead_by_job(self, uid: UserNumber | None, most: int) -> list[DeadRuns]:
        which, who = ("dead_by_job", [NEVER]) if uid is None else ("dead_by_job_of_user", [uid])
        return [DeadRuns(*row) for row in await self._store.fetch(_SQL[which], most, *who)]


def _version(row: Record) -> JobVersion:
    return JobVersion(row["version"], decode_spec(row["spec"]), row["payload"], row["until"])


async def list_jobs(store: Store, query: JobQuery) -> Page[JobRow]:
    chosen = await _chosen(store, query.task, query.queue)
    if chosen == []:
        return Page(())
    look = _Look(store, query, chosen)
    if query.next_from is not None or query.next_until is not None:
        return await _jobs_in_window(look)
    if query.tag is not None:
        return await _tagged_jobs(look)
    part, at, last = unmark(query.after, tuple[JobPart, int | str, UUID]) if query.after else ("live", 0, LAST)
    if part == "ended" and isinstance(at, int):
        return await _ended_jobs(look, at, last)
    live = await (_live_jobs(look, last) if query.name_prefix is None else _jobs_by_name(look, at, last))
    if live.next is not None or not look.statuses & ENDED:
        return live
    if len(live.items) == query.limit:
        return Page(live.items, THE_ENDED)
    look = _Look(store, replace(query, limit=query.limit - len(live.items)), chosen)
    ended = await _ended_jobs(look, *ENDED_FROM)
    return Page(live.items + ended.items, ended.next)


class _Look(NamedTuple):
    """What the walks of one page have in common."""

    store: Store
    query: JobQuery
    chosen: list[ClassId] | None

    @property
    def statuses(self) -> frozenset[JobStatus]:
        return frozenset(JobStatus) if self.query.statuses is None else self.query.statuses

    def text(self, name: str) -> str:
        """Everybody's are found by other indexes than one user's, whose begin with the user."""
        return _SQL[f"{name}_of_all" if self.query.uid is None else name]

    @property
    def uids(self) -> list[int] | None:
        return None if self.query.uid is None else [self.query.uid]

    async def walk(
        self, statement: str, scan: int, place: Callable[[Record], Any], *args: Any, uids: list[Any] | None
    ) -> Page[JobRow]:
        """Return the matches among up to `scan` entries, and where to continue. Reads one more, to know if there is."""
        query = self.query
        statuses = [STATUS_NUMBER[status] for status in self.statuses]
        found = await self.store.fetch(statement, uids, self.chosen, statuses, scan, query.limit + 1, *args)
        items: list[JobRow] = []
        for number, row in enumerate(found, 1):
            if row["fits"]:
                items.append(rows.listed(row))
            if len(items) == query.limit and (row["ends"] or number < len(found)):
                return Page(tuple(items), mark(place(row)))
            if row["ends"]:
                return Page(tuple(items), mark(place(row)), _time_of(place(row)))
        return Page(tuple(items))


def _time_of(place: UUID | tuple[int, UUID] | tuple[str, int | str, UUID]) -> Instant | None:
    if isinstance(place, UUID):
        return created_at(place)
    at, last = place[-2:]
    if isinstance(at, str):
        return None
    return Instant(at) if at else created_at(last)


async def _live_jobs(look: _Look, last: UUID) -> Page[JobRow]:
    name = [] if look.query.name is None else [look.query.name]
    statement = look.text("list_live_named" if name else "list_live").format_map(one_shots(look.statuses))
    return await look.walk(statement, SCAN, lambda row: ("live", 0, row["job_id"]), last, *name, uids=look.uids)


async def _jobs_by_name(look: _Look, at: int | str, last: UUID) -> Page[JobRow]:
    begin, end = range_of(look.query.name_prefix or "")
    after = (at, last) if isinstance(at, str) else (begin, FIRST)
    statement = look.text("list_by_name").format_map(one_shots(look.statuses))
    place = itemgetter("name", "job_id")
    return await look.walk(statement, SCAN, lambda row: ("live", *place(row)), *after, begin, end, uids=look.uids)


async def _ended_jobs(look: _Look, at: int, last: UUID) -> Page[JobRow]:
    narrowed, name, begins = "", list[str](), ""
    if look.query.name is not None:
        narrowed, name = "and name = $8", [look.query.name]
    if look.query.uid is None:  # no index has everybody's by their names
        narrowed, begins = "", narrowed
    if look.query.name_prefix is not None:
        begins, name = BEGINS, [*range_of(look.query.name_prefix)]
    statement = look.text("list_ended").format(name=narrowed, begins=begins)
    uids, scan = look.uids, SCAN
    places: tuple[Any, Any] = (at, last)
    if look.query.uid is None:
        scan = max(SCAN_OF_ALL, look.query.limit + 1)
        ends = await newest_ends(look.store, at, last, scan)
        uids, places = [end.uid for end in ends], ([end.at for end in ends], [end.run_id for end in ends])
    return await look.walk(
        statement, scan, lambda row: ("ended", row["ended_at"], row["job_id"]), *places, *name, uids=uids
    )


async def _tagged_jobs(look: _Look) -> Page[JobRow]:
    query = look.query
    last = unmark(query.after, UUID) if query.after else LAST
    place = itemgetter("job_id")
    return await look.walk(look.text("list_tagged"), LOOKUP_SCAN, place, last, query.tag, query.name, uids=look.uids)


async def _jobs_in_window(look: _Look) -> Page[JobRow]:
    query = look.query
    start = _before(query.next_from)
    at, last = max(start, unmark(query.after, tuple[int, UUID])) if query.after else start
    end = NEVER if query.next_until is None else query.next_until
    place = itemgetter("next_at", "job_id")
    narrowed, tag = ("", []) if query.tag is None else (TAGGED, [query.tag])
    statement = look.text("list_window").format(tag=narrowed)
    which: list[Any] | None = look.uids
    scan = LOOKUP_SCAN
    if query.uid is None:
        narrowed_by = (query.task, query.queue, query.name, query.tag, query.statuses)
        scan = query.limit + 1 if not any(narrowed_by) else max(WINDOW_OF_ALL, query.limit + 1)
        which = [found.run_id for found in await next_wanted(look.store, at, last, end, scan)]
    return await look.walk(statement, scan, place, last, at, end, query.name, *tag, uids=which)


def _before(start: Instant | None) -> tuple[int, UUID]:
    """Return the position right before the first row from `start` on."""
    return (ALWAYS[0] if start is None else start - 1, LAST)


async def list_runs(store: Store, query: RunQuery) -> Page[RunView]:
    """List in parts: running, waiting, ended. The token says in which part the next page begins, and where."""
    part, at, last = unmark(query.after, tuple[Part, int, UUID]) if query.after else ("running", *_START["running"])
    classes = await _chosen(store, query.task, query.queue)
    chosen = None if classes is None else frozenset(classes)
    items: list[RunView] = []
    for current in _PARTS[_PARTS.index(part) :]:
        if current != part:
            at, last = _START[current]
        if not _has(query, current):
            continue
        if current == "ended" and query.ended_until is not None:
            at, last = min((at, last), (query.ended_until, FIRST))
        scan = _most_read(query, current)
        found = await _fetch_part(store, query, current, at, last, scan)
        for row in found:
            if len(items) == query.limit:
                return Page(tuple(items), mark((current, at, last)))
            if current == "ended" and row["ended_at"] < (query.ended_from or BEGINNING):
                return Page(tuple(items))
            at, last = _place(query, current, row)
            if _run_matches(query, row, chosen) and fits(query, run := rows.view(row)):
                items.append(run)
        if len(found) == scan:
            place = (current, at, last)
            return Page(tuple(items), mark(place), None if len(items) == query.limit else _time_of(place))
    return Page(tuple(items))


async def list_recent(store: Store, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
    running = await store.fetch(_SQL["list_running"], uid, None, *ALWAYS, FIRST, limit)
    if uid is None:
        ended = await _ended_of_all(store, NEVER, LAST, limit, since)
    else:
        ended = await store.fetch(_SQL["ended_since"], [uid], since, limit)
    return [rows.view(row) for row in (*running, *ended)]


Part = Literal["running", "waiting", "ended"]
JobPart = Literal["live", "ended"]
_PARTS: tuple[Part, ...] = ("running", "waiting", "ended")
_START: dict[Part, tuple[int, UUID]] = {"running": (0, FIRST), "waiting": (ALWAYS[0], FIRST), "ended": (NEVER, LAST)}


def _place(query: RunQuery, part: Part, row: Record) -> tuple[int, UUID]:
    by_id = query.uid is None and query.job_id is None  # see list_waiting_of_all
    at = {"running": 0, "waiting": 0 if by_id else row["wanted"], "ended": row["ended_at"]}[part]
    return at, row["run_id"]


def _most_read(query: RunQuery, part: Part) -> int:
    """Return how many rows of a part a page reads. Of what waits or runs, all are in the state that was asked for."""
    if not is_narrowed(query if part == "ended" else replace(query, states=None)):
        return query.limit + 1
    of_all = part == "ended" and query.uid is None and query.job_id is None
    return max(SCAN_OF_ALL, query.limit + 1) if of_all else SCAN


def _has(query: RunQuery, part: Part) -> bool:
    if part != "ended" and only_ended(query):
        return False
    if query.states is None:
        return True
    states = {
        "running": {State.RUNNING},
        "waiting": {State.WAITING},
        "ended": set(State) - {State.RUNNING, State.WAITING},
    }
    return bool(query.states & states[part])


async def _fetch_part(store: Store, query: RunQuery, part: Part, at: int, last: UUID, scan: int) -> list[Record]:
    start = ALWAYS[0] if query.wanted_from is None else query.wanted_from
    end = ALWAYS[1] if query.wanted_until is None else query.wanted_until
    if part == "running":
        return await store.fetch(_SQL["list_running"], query.uid, query.job_id, start, end, last, scan)
    if part == "waiting" and query.job_id is not None:
        return await store.fetch(_SQL["list_waiting_of_job"], query.job_id, start, end, at, last, scan)
    if part == "waiting" and query.uid is None:
        return await store.fetch(_SQL["list_waiting_of_all"], last, scan)
    if part == "waiting":
        before = max(_before(query.wanted_from), (at, last))
        return await store.fetch(_SQL["list_waiting"], [query.uid], end, *before, scan)
    if query.job_id is not None:
        return await store.fetch(_SQL["list_history_of_job"], query.job_id, at, last, scan)
    if query.uid is None:
        return await _ended_of_all(store, at, last, scan, query.ended_from)
    return await store.fetch(_SQL["list_history"], [query.uid], at, last, scan)


async def _ended_of_all(store: Store, at: int, last: UUID, scan: int, since: Instant | None) -> list[Record]:
    ends = await newest_ends(store, at, last, scan, since)
    places = [[end.uid for end in ends], [end.at for end in ends], [end.run_id for end in ends]]
    return await store.fetch(_SQL["ended_by_place"], *places)


def _run_matches(query: RunQuery, row: Record, chosen: frozenset[ClassId] | None) -> bool:
    return (
        (query.uid is None or row["uid"] == query.uid)
        and (query.states is None or row["state"] in query.states)
        and (chosen is None or row["class_id"] in chosen)
        and (query.wanted_from is None or row["wanted"] >= query.wanted_from)
        and (query.wanted_until is None or row["wanted"] < query.wanted_until)
        and query.worker_id in (None, row["worker_id"])
        and (query.triggers is None or TRIGGERS[row["trigger"]] in query.triggers)
        and (query.error_type is None or (row["error_type"] or row["attempts"]) is not None)
    )


async def _chosen(store: Store, task: str | None, queue: str | None) -> list[ClassId] | None:
    if task is None and queue is None:
        return None
    asked = {name: value for name, value in (("task", task), ("queue", queue)) if value is not None}
    narrowed = " and ".join(f"{name} = ${n}" for n, name in enumerate(asked, 1))
    found = await store.fetch(f"select class_id from classes where {narrowed}", *asked.values())
    return [row["class_id"] for row in found]
