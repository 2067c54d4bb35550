"""Lists of jobs and of runs: filtered, page by page, each page with a bounded number of questions to the store."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.answers import answer
from oncue.api.auth import Caller, forbidden
from oncue.api.context import Api
from oncue.api.pages import filled_page, instant, page, wanted_page, window
from oncue.api.reading import read_job_id
from oncue.domain.fields import Reader, choice, text
from oncue.domain.ids import ClassId, RunId, UserNumber
from oncue.domain.instants import NEVER
from oncue.domain.job import Cursor, JobStatus, Snapshot, WaitingRun
from oncue.domain.run import RunView, State, Status
from oncue.engines.port import JobQuery, JobRow, LastAndNext, Page, RunQuery

LONGEST = 200  # characters of a filter: no name of anything is longer
NOBODY = UserNumber(0)
NOT_TRIED = frozenset({Status.SCHEDULED, Status.QUEUED})
Listed = tuple[Snapshot, RunView | None]
_TEXT = text(LONGEST)
_WINDOW: dict[str, Reader] = {"start_time": instant, "end_time": instant}
JOB_FILTERS: dict[str, Reader] = {
    "status": choice({one.value: one for one in JobStatus}),
    "last_status": choice({one.value: one for one in Status if one not in NOT_TRIED}),
    **dict.fromkeys(("task", "name", "tag", "queue", "user_id"), _TEXT),
    **_WINDOW,
}
RUN_FILTERS: dict[str, Reader] = {
    "status": choice({one.value: one for one in Status}),
    "job_id": read_job_id,
    **dict.fromkeys(("task", "queue"), _TEXT),
    **_WINDOW,
}
_STATES = {
    **dict.fromkeys((Status.SCHEDULED, Status.QUEUED, Status.RETRYING), State.WAITING),
    **dict.fromkeys((Status.RUNNING, Status.CANCELLING), State.RUNNING),
    **{Status[state.name]: state for state in State if state.final},
}


async def jobs(api: Api, request: Request, caller: Caller) -> Response:
    """Newest first; in a window, by the next run. One that ends meanwhile may come twice."""
    if "user_id" in request.query_params and caller.sees is not None:
        raise forbidden("user_id is for administrators: leave it out to list your own jobs")
    wanted = wanted_page(request, caller, JOB_FILTERS)
    query = await _job_query(api, caller, wanted.filters)
    status, last_status, now = wanted.filters.get("status"), wanted.filters.get("last_status"), api.clock.now()

    async def read(limit: int, after: str | None) -> Page[Listed]:
        found = await api.engine.jobs.list(replace(query, limit=limit, after=after))
        last_and_next = (
            await api.engine.history.last_and_next([row.job.job_id for row in found.items]) if found.items else {}
        )
        return Page(tuple(_as_read(row, last_and_next[row.job.job_id]) for row in found.items), found.next)

    def keep(found: Listed) -> bool:
        """Whether it fits as it is shown, which the store need not know: what was planned meanwhile, for instance."""
        snap, last = found
        return (
            status in (None, snap.job.status)
            and last_status in (None, None if last is None else views.status(last, now))
            and _is_in_window(query, snap)
        )

    narrowed = {"status", "last_status", *_WINDOW} & wanted.filters.keys()
    found = await filled_page(read, wanted, keep if narrowed else None)
    classes = await api.classes_of(*(last for _, last in found.items if last is not None))
    owners = {uid: await api.owner_of(uid, caller) for uid in {snap.job.uid for snap, _ in found.items}}

    def shown(found: Listed) -> dict[str, Any]:
        snap, last = found
        return views.job(snap, owners[snap.job.uid], None if last is None else views.run(last, classes, now))

    return answer(page("jobs", found, shown, wanted))


async def _job_query(api: Api, caller: Caller, filters: dict[str, Any]) -> JobQuery:
    uid = caller.sees
    if "user_id" in filters:
        numbers = {key.user_id: key.uid for key in await api.engine.accounts.keys()}
        uid = numbers.get(filters["user_id"], NOBODY)  # whoever owns something had a key once
    next_from, next_until = window(filters)
    asked = {name: filters[name] for name in ("status", "task", "name", "tag", "queue") if name in filters}
    return JobQuery(uid, next_from=next_from, next_until=next_until, **asked)


def _is_in_window(query: JobQuery, snap: Snapshot) -> bool:
    if query.next_from is None and query.next_until is None:
        return True
    next_at = views.next_run_at(snap)
    return next_at is not None and (query.next_from or next_at) <= next_at < (query.next_until or NEVER)


def _as_read(row: JobRow, near: LastAndNext) -> Listed:
    """As much of a job as showing it needs."""
    job, waiting = row.job, tuple[WaitingRun, ...]()
    if near.next_at is not None:
        waiting = (WaitingRun(RunId(job.job_id), near.next_at, None, scheduled=True),)
    cursor = Cursor(NEVER if row.next_at is None else row.next_at, NEVER) if job.spec.schedule.recurring else None
    return Snapshot(job, ClassId(0), cursor, waiting), near.last


async def runs(api: Api, request: Request, caller: Caller) -> Response:
    """Live runs first, then ended ones, newest end first; a window is on when they were wanted."""
    wanted = wanted_page(request, caller, RUN_FILTERS)
    status, now = wanted.filters.get("status"), api.clock.now()
    wanted_from, wanted_until = window(wanted.filters)
    asked = {name: wanted.filters[name] for name in ("job_id", "task", "queue") if name in wanted.filters}
    states = None if status is None else frozenset({_STATES[status]})
    query = RunQuery(caller.sees, states=states, wanted_from=wanted_from, wanted_until=wanted_until, **asked)

    async def read(limit: int, after: str | None) -> Page[RunView]:
        return await api.engine.history.runs(replace(query, limit=limit, after=after))

    found = await filled_page(read, wanted, lambda run: status in (None, views.status(run, now)))
    classes = await api.classes_of(*found.items)
    return answer(page("runs", found, lambda run: views.run(run, classes, now), wanted))
