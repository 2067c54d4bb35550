"""Find what a text may mean: the end of an id, a key, a name, the beginning of one.

A dozen indexes are asked at once: one after the other, an administrator with 1,000 users waited twice as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import queues, views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import LONGEST, OPEN, read_query, several
from oncue.api.shared.context import Api
from oncue.domain.errors import Invalid
from oncue.domain.fields import Reader, text
from oncue.domain.ids import NOTICES, JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.job import JobStatus
from oncue.domain.naming import Digits, Match, match_name, read_digits
from oncue.domain.shown_definition import show_schedule
from oncue.domain.tried import time_or_none
from oncue.engines.port import JobQuery, JobRow

MOST = 5  # of each kind
NAMES_LOOKED_AT = 50  # jobs whose names begin alike: of those with one name the first is shown
KINDS = ("job", "run", "worker", "task", "queue", "tag")
ENDED = frozenset(JobStatus) - OPEN
PARAMETERS: Mapping[str, Reader] = {"q": text(LONGEST), "kind": several({kind: kind for kind in KINDS})}

T = TypeVar("T")


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """Look up a text among the caller's objects; an administrator's look-up finds everybody's."""
    asked = read_query(request, PARAMETERS)
    if "q" not in asked:
        raise Invalid.of("q", "required", "is required: an id or its end, a key, or a name")
    q, kinds = asked["q"].strip(), asked.get("kind", frozenset(KINDS))
    digits = read_digits(q)
    (jobs, runs, looked_to), workers, *named = await asyncio.gather(
        _jobs_and_runs(api, caller, q, digits, kinds),
        _workers(api, q, digits) if "worker" in kinds else _none(),
        _task_names(api) if "task" in kinds else _none(),
        queues.queue_names(api, caller) if "queue" in kinds else _none(),
        api.engine.search.tags(caller.sees, q, MOST) if "tag" in kinds else _none(),
    )
    tasks, queue_names, tags = (_named(q, names) for names in named)
    found = {"jobs": jobs, "runs": runs, "workers": workers, "tasks": tasks, "queues": queue_names, "tags": tags}
    return answer({**found, "looked_back_to": time_or_none(looked_to)})


async def _none() -> list[Any]:
    return []


async def _task_names(api: Api) -> list[str]:
    return [one.name for one in await api.engine.fleet.tasks()]


async def _jobs_and_runs(
    api: Api, caller: Caller, q: str, digits: Digits | None, kinds: frozenset[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Instant | None]:
    by_id = digits is not None and bool(kinds & {"job", "run"})
    by_key = api.engine.search.keys(caller.sees, q, MOST) if "job" in kinds else _none()
    is_id = digits is not None and digits.whole
    by_name = _by_name(api, caller, q, is_id=is_id) if "job" in kinds else _nothing_by_name()
    ids, keys, (named, looked_to) = await asyncio.gather(_ids(api, caller, digits if by_id else None), by_key, by_name)
    jobs = await _jobs(api, caller, q, ids, keys, named) if "job" in kinds else []
    return jobs, await _runs(api, caller, ids) if "run" in kinds else [], looked_to


async def _ids(api: Api, caller: Caller, digits: Digits | None) -> dict[UUID, Match]:
    """The ids of jobs and runs that these digits may stand for, each with the stronger of its matches."""
    search, found = api.engine.search, list[UUID]()
    if digits is None:
        return {}
    if digits.can_end:
        found += await search.endings(caller.sees, digits.text, 2 * MOST)
    if digits.whole or digits.can_begin:
        found += await search.ids(caller.sees, digits.first, digits.last, MOST)
    return {one: match for one in found if (match := digits.match(one)) is not None}


async def _jobs(
    api: Api,
    caller: Caller,
    q: str,
    ids: Mapping[UUID, Match],
    keys: Iterable[tuple[str, JobId]],
    named: Iterable[tuple[JobRow, Match]],
) -> list[dict[str, Any]]:
    matches = {JobId(one): match for one, match in ids.items()}
    for key, job_id in keys:
        matches.setdefault(job_id, Match.KEY if key == q else Match.PREFIX)
    rows = await api.engine.search.jobs_by_id(caller.sees, sorted(matches)) if matches else {}
    for row, match in named:
        rows.setdefault(row.job.job_id, row)
        matches[row.job.job_id] = min(match, matches.get(row.job.job_id, match), key=_strength)
    strongest = sorted(rows.values(), key=lambda row: (_strength(matches[row.job.job_id]), row.job.status not in OPEN))
    best, now = {row.job.job_id: row for row in strongest[:MOST]}, api.clock.now()
    near = await api.engine.lists.last_and_next(list(best)) if best else {}
    return [
        _shown(row, matches[job_id], None if (last := near[job_id].last) is None else views.last_run(last, now))
        for job_id, row in best.items()
    ]


async def _nothing_by_name() -> tuple[list[tuple[JobRow, Match]], Instant | None]:
    return [], None


async def _by_name(
    api: Api, caller: Caller, q: str, *, is_id: bool
) -> tuple[list[tuple[JobRow, Match]], Instant | None]:
    """Jobs with this name, without active and paused ones the one that ended last; then names that begin with it."""
    statuses = OPEN if caller.sees is None else None  # everybody's ended jobs are in no order of names
    beginning = JobQuery(caller.sees, statuses, name_prefix=q, limit=NAMES_LOOKED_AT)
    whole = _by_whole_name(api, caller, q, is_id=is_id)
    found, alike = await asyncio.gather(whole, api.engine.lists.jobs(beginning))
    names = {row.job.spec.name: row for row in reversed(alike.items) if row.job.spec.name != q}
    return [*found, *((row, Match.PREFIX) for row in reversed(names.values()))], alike.looked_to


async def _by_whole_name(api: Api, caller: Caller, q: str, *, is_id: bool) -> list[tuple[JobRow, Match]]:
    """To look at everybody's last ends for a job that was called like an id would take longer than all the rest."""
    lists = api.engine.lists
    found = await lists.jobs(JobQuery(caller.sees, OPEN, name=q, limit=MOST))
    if found.items:
        return [(row, Match.NAME) for row in found.items]
    if is_id and caller.sees is None:
        return []
    ended = await lists.jobs(JobQuery(caller.sees, ENDED, name=q, limit=MOST))
    return [(max(ended.items, key=lambda row: row.job.updated_at), Match.ENDED_NAME)] if ended.items else []


async def _runs(api: Api, caller: Caller, ids: Mapping[UUID, Match]) -> list[dict[str, Any]]:
    found = await api.engine.search.runs_by_id(caller.sees, [RunId(one) for one in sorted(ids)]) if ids else {}
    runs = [run for run in found.values() if run.job_id != NOTICES or ids[run.run_id] is Match.ID]
    best = sorted(sorted(runs, key=lambda run: run.run_id, reverse=True), key=lambda run: _strength(ids[run.run_id]))
    best, now = best[:MOST], api.clock.now()
    classes = await api.classes_of(*best)
    jobs = await api.engine.search.jobs_by_id(None, sorted({run.job_id for run in best})) if best else {}
    return [
        {
            "run_id": run.run_id,
            "job_id": run.job_id,
            "job_name": jobs[run.job_id].job.spec.name if run.job_id in jobs else None,
            "task": classes[run.class_id].task,
            "status": views.status(run, now),
            "match": ids[run.run_id],
        }
        for run in best
    ]


async def _workers(api: Api, q: str, digits: Digits | None) -> list[dict[str, Any]]:
    workers = await api.engine.fleet.workers()
    found = _best(workers, lambda one: (digits and digits.match(one.worker_id)) or match_name(q, one.name))
    return [{"worker_id": one.worker_id, "name": one.name, "match": match} for one, match in found]


def _named(q: str, names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"name": name, "match": match} for name, match in _best(sorted(names), lambda one: match_name(q, one))]


def _best(some: Iterable[T], matching: Callable[[T], Match | None]) -> list[tuple[T, Match]]:
    found = [(one, match) for one in some if (match := matching(one)) is not None]
    return sorted(found, key=lambda pair: _strength(pair[1]))[:MOST]


def _shown(row: JobRow, match: Match, last: views.ShownLastRun | None) -> dict[str, Any]:
    spec = row.job.spec
    return {
        "job_id": row.job.job_id,
        "name": spec.name,
        "key": spec.key,
        "task": spec.task,
        "status": row.job.status,
        "schedule": show_schedule(spec.schedule),
        "last_run": last,
        "match": match,
    }


_ORDER = {match: place for place, match in enumerate(Match)}


def _strength(match: Match) -> int:
    return _ORDER[match]
