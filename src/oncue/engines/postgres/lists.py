"""Listings. Each page reads a bounded number of rows; a filtered one may be short while its mark says there is more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from asyncpg import Record
from msgspec.structs import replace

from oncue.domain.ids import ClassId, JobId, UserNumber
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import JobStatus
from oncue.domain.placement import ClassKey
from oncue.domain.run import RunView, State
from oncue.engines.marks import mark, unmark
from oncue.engines.port import JobQuery, JobRow, Page, RunQuery
from oncue.engines.postgres import rows
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
SCAN = 2_000  # most rows of an index that one page looks at
LOOKED_THROUGH = 500  # most jobs that one page reads whole, to see whether they pass a filter
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)
ENDED_FROM = (NEVER, LAST)
THE_ENDED = mark(("ended", *ENDED_FROM))
ALWAYS = (Instant(-(2**62)), Instant(2**62 + 1))


# Which one-shots that have not ended a status stands for: pieces of the statement, never the user's text.
ONE_SHOTS: dict[JobStatus | None, dict[str, str]] = {
    None: {"held": "true", "running": "true"},
    JobStatus.ACTIVE: {"held": "held & 4 = 0", "running": "cancel_at is null"},
    JobStatus.PAUSED: {"held": "held & 4 > 0", "running": "false"},
    JobStatus.FINISHED: {"held": "false", "running": "false"},
    JobStatus.CANCELLED: {"held": "false", "running": "cancel_at is not null"},
}


async def list_jobs(store: Store, query: JobQuery, classes: dict[ClassId, ClassKey]) -> Page[JobRow]:
    uids = await _uids(store, query.uid)
    if query.next_from is not None or query.next_until is not None:
        return await _jobs_in_window(store, query, uids)
    if query.tag is not None:
        return await _tagged_jobs(store, query, uids)
    part, at, last = (
        unmark(query.after, tuple[Literal["live", "ended"], int, UUID]) if query.after else ("live", 0, LAST)
    )
    if part == "ended":
        return await _ended_jobs(store, query, uids, classes, at, last)
    live = await _live_jobs(store, query, uids, classes, last)
    if live.next != THE_ENDED or len(live.items) == query.limit:
        return live
    left = replace(query, limit=query.limit - len(live.items))
    ended = await _ended_jobs(store, left, uids, classes, *ENDED_FROM)
    return Page(live.items + ended.items, ended.next)


async def _live_jobs(
    store: Store, query: JobQuery, uids: list[int], classes: dict[ClassId, ClassKey], last: UUID
) -> Page[JobRow]:
    chosen = _chosen(classes, query.task, query.queue)
    if chosen == []:
        return Page(())
    statuses = [number for status, number in rows.STATUS_NUMBER.items() if query.status in (None, status)]
    scan = SCAN if chosen is not None else query.limit + 1
    if query.name is not None:  # its index has more than jobs
        scan = max(scan, LOOKED_THROUGH)
    statement = _SQL["list_live" if query.name is None else "list_live_named"].format_map(ONE_SHOTS[query.status])
    name = [] if query.name is None else [query.name]
    found = await store.fetch(statement, uids, last, scan, statuses, chosen, *name)
    wanted = [row["job_id"] for row in found if row["wanted"]]
    jobs = await _jobs(store, wanted[: query.limit])
    if len(wanted) > query.limit:
        return Page(jobs, mark(("live", 0, wanted[query.limit - 1])))
    if len(found) == scan:
        return Page(jobs, mark(("live", 0, found[-1]["job_id"])))
    has_ended = query.status in (None, JobStatus.FINISHED, JobStatus.CANCELLED)
    return Page(jobs, THE_ENDED if has_ended else None)


async def _ended_jobs(
    store: Store, query: JobQuery, uids: list[int], classes: dict[ClassId, ClassKey], at: int, last: UUID
) -> Page[JobRow]:
    cancelled = None if query.status is None else query.status is JobStatus.CANCELLED
    narrowed, name = ("", []) if query.name is None else ("and name = $7", [query.name])
    statement = _SQL["list_ended"].format(name=narrowed)
    chosen = _chosen(classes, query.task, query.queue)
    scan = SCAN if query.status or chosen is not None else min(SCAN, 10 * query.limit)
    found = await store.fetch(statement, uids, at, last, scan, cancelled, chosen, *name)
    wanted = [row for row in found if row["wanted"]]
    jobs = await _jobs(store, [row["run_id"] for row in wanted[: query.limit]])
    if len(wanted) > query.limit:
        return Page(jobs, mark(("ended", wanted[query.limit - 1]["ended_at"], wanted[query.limit - 1]["run_id"])))
    if len(found) == scan:
        return Page(jobs, mark(("ended", found[-1]["ended_at"], found[-1]["run_id"])))
    return Page(jobs)


async def _tagged_jobs(store: Store, query: JobQuery, uids: list[int]) -> Page[JobRow]:
    last = unmark(query.after, UUID) if query.after else LAST
    found = await store.fetch(_SQL["list_tagged"], uids, query.tag, last, _scan(query) + 1)
    return await _filtered(store, query, [(row["job_id"], row["job_id"]) for row in found])


async def _jobs_in_window(store: Store, query: JobQuery, uids: list[int]) -> Page[JobRow]:
    start = _before(query.next_from)
    at, last = unmark(query.after, tuple[int, UUID]) if query.after else start
    end = NEVER if query.next_until is None else query.next_until
    found = await store.fetch(_SQL["list_window"], uids, end, *max(start, (at, last)), _scan(query) + 1)
    places = [(row["job_id"] if row["is_job"] else None, (row["next_at"], row["job_id"])) for row in found]
    return await _filtered(store, query, places)


def _before(start: Instant | None) -> tuple[int, UUID]:
    """The place right before the first one from `start` on."""
    return (ALWAYS[0] if start is None else start - 1, LAST)


def _scan(query: JobQuery) -> int:
    """Rows to look at for one page: more than it has where filters leave out some that the index knows nothing of."""
    narrowed = (query.status, query.task, query.queue, query.name)
    return query.limit if narrowed == (None,) * len(narrowed) else max(query.limit, LOOKED_THROUGH)


async def _filtered(store: Store, query: JobQuery, found: list[tuple[JobId | None, Any]]) -> Page[JobRow]:
    """What of these passes the filters that the index knows nothing of. Each comes with its place; one is too many."""
    more = len(found) > _scan(query)
    looked_at = found[: _scan(query)]
    there = await _jobs(store, [job_id for job_id, _ in looked_at if job_id is not None])
    fitting = {row.job.job_id: row for row in there if _matches(query, row)}
    items: list[JobRow] = []
    for number, (job_id, place) in enumerate(looked_at, 1):
        if job_id is not None and job_id in fitting:
            items.append(fitting[job_id])
        if len(items) == query.limit and (more or number < len(looked_at)):
            return Page(tuple(items), mark(place))
    return Page(tuple(items), mark(looked_at[-1][1]) if more else None)


def _matches(query: JobQuery, row: JobRow) -> bool:
    spec = row.job.spec
    return (
        query.status in (None, row.job.status)
        and query.task in (None, spec.task)
        and query.queue in (None, spec.queue)
        and query.name in (None, spec.name)
        and (query.tag is None or query.tag in spec.tags)
    )


async def _jobs(store: Store, job_ids: Sequence[JobId]) -> tuple[JobRow, ...]:
    """The jobs with these ids, in this order; one that went away meanwhile is left out."""
    if not job_ids:
        return ()
    found: dict[JobId, JobRow] = {}
    for row in await store.fetch(_SQL["one_shots_by_id"], job_ids):
        found[row["job_id"]] = JobRow(rows.one_shot(row), row["next_at"])
    for row in await store.fetch(_SQL["jobs_by_id"], job_ids):
        next_at = row["next_at"]
        found[row["job_id"]] = JobRow(rows.recurring(row), None if next_at in (None, NEVER) else next_at)
    return tuple(found[job_id] for job_id in job_ids if job_id in found)


async def list_runs(store: Store, query: RunQuery, classes: dict[ClassId, ClassKey]) -> Page[RunView]:
    """Part after part: running, waiting, ended. The mark says in which part the next page begins, and where."""
    part, at, last = unmark(query.after, tuple[Part, int, UUID]) if query.after else ("running", *_START["running"])
    chosen = _chosen(classes, query.task, query.queue)
    narrowed = (chosen, query.states, query.wanted_from, query.wanted_until)
    scan = SCAN if any(one is not None for one in narrowed) else query.limit + 1
    items: list[RunView] = []
    for current in _PARTS[_PARTS.index(part) :]:
        if current != part:
            at, last = _START[current]
        if not _has(query, current):
            continue
        found = await _fetch_part(store, query, current, at, last, scan)
        for row in found:
            if len(items) == query.limit:
                return Page(tuple(items), mark((current, at, last)))
            run = rows.view(row)
            at, last = _place(current, run)
            if _run_matches(query, run, chosen):
                items.append(run)
        if len(found) == scan:
            return Page(tuple(items), mark((current, at, last)))
    return Page(tuple(items))


async def list_recent(store: Store, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
    running = await store.fetch(_SQL["list_running"], uid, None, *ALWAYS, FIRST, limit)
    ended = await store.fetch(_SQL["ended_since"], await _uids(store, uid), since, limit)
    return [rows.view(row) for row in (*running, *ended)]


Part = Literal["running", "waiting", "ended"]
_PARTS: tuple[Part, ...] = ("running", "waiting", "ended")
_START: dict[Part, tuple[int, UUID]] = {"running": (0, FIRST), "waiting": (ALWAYS[0], FIRST), "ended": (NEVER, LAST)}


def _place(part: Part, run: RunView) -> tuple[int, UUID]:
    at = {"running": 0, "waiting": run.wanted, "ended": run.ended_at}[part]
    return (at or 0, run.run_id)


def _has(query: RunQuery, part: Part) -> bool:
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
    who: Any = query.job_id if query.job_id is not None else await _uids(store, query.uid)
    of_job = "" if query.job_id is None else "_of_job"
    if part == "waiting" and query.job_id is None:
        return await store.fetch(_SQL["list_waiting"], who, end, *max(_before(query.wanted_from), (at, last)), scan)
    if part == "waiting":
        return await store.fetch(_SQL["list_waiting_of_job"], who, start, end, at, last, scan)
    return await store.fetch(_SQL[f"list_history{of_job}"], who, at, last, scan)


def _run_matches(query: RunQuery, run: RunView, chosen: list[ClassId] | None) -> bool:
    return (
        (query.uid is None or run.uid == query.uid)
        and (query.states is None or run.state in query.states)
        and (chosen is None or run.class_id in chosen)
        and (query.wanted_from is None or run.wanted >= query.wanted_from)
        and (query.wanted_until is None or run.wanted < query.wanted_until)
    )


async def _uids(store: Store, uid: UserNumber | None) -> list[int]:
    """One user, or all: each is walked by its own index."""
    return [uid] if uid is not None else [row["uid"] for row in await store.fetch("select uid from users")]


def _chosen(classes: dict[ClassId, ClassKey], task: str | None, queue: str | None) -> list[ClassId] | None:
    if task is None and queue is None:
        return None
    return [i for i, key in classes.items() if task in (None, key.task) and queue in (None, key.queue)]
