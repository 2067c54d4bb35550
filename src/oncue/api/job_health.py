"""Which jobs are unwell: read from open dead letters and from late runs, in bounded looks; nothing is stored."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from oncue.api.shared.context import Api
from oncue.domain.ids import UserNumber
from oncue.domain.instants import Instant
from oncue.domain.job import Snapshot
from oncue.domain.lane import Held
from oncue.domain.planning import GRACE
from oncue.domain.run import RunView, State
from oncue.engines.marks import mark, unmark
from oncue.engines.port import JobQuery, JobRow, Page, RunQuery

MOST_LETTERS = 2_000  # open dead letters that are looked at


class Health(StrEnum):
    FAILING = "failing"  # a recurring job whose last run is dead, and still a dead letter
    LATE = "late"  # a run of it should have started more than two seconds ago
    NEVER_RAN = "never_ran"


async def unwell(api: Api, health: Health, query: JobQuery, now: Instant) -> Page[JobRow]:
    """Return a page of the jobs that may be unwell in this way, in the order of what they are found by."""
    if health is Health.FAILING:
        return await _failing(api, query.uid, query.limit, query.after)
    if health is Health.LATE:
        return await _late(api, query.uid, query.limit, query.after, now)
    return await api.engine.lists.jobs(query)


def is_unwell(health: Health, last: RunView | None) -> bool:
    match health:
        case Health.FAILING:
            return last is not None and last.state is State.DEAD
        case Health.LATE:
            return True
        case Health.NEVER_RAN:
            return last is None


def fits(query: JobQuery, snap: Snapshot) -> bool:
    """Whether a job matches the filters that a list of jobs has an index for."""
    spec = snap.job.spec
    return (
        query.task in (None, spec.task)
        and query.queue in (None, spec.queue)
        and query.name in (None, spec.name)
        and (query.tag is None or query.tag in spec.tags)
    )


async def _failing(api: Api, uid: UserNumber | None, limit: int, after: str | None) -> Page[JobRow]:
    """The jobs of the newest open dead letters, the newest death first."""
    found = [(-one.last, one.job_id) for one in await api.engine.lists.dead_by_job(uid, MOST_LETTERS)]
    place = unmark(after, tuple[int, UUID]) if after else None
    rest = sorted(one for one in found if place is None or one > place)
    rows = await api.engine.search.jobs_by_id(uid, [job_id for _, job_id in rest[:limit]])
    looked = [rows[job_id] for _, job_id in rest[:limit] if job_id in rows]
    items = tuple(row for row in looked if row.job.spec.schedule.recurring)  # a one-shot may have been retried
    return Page(items, mark(rest[limit - 1]) if len(rest) > limit else None)


async def _late(api: Api, uid: UserNumber | None, limit: int, after: str | None, now: Instant) -> Page[JobRow]:
    """The jobs of runs that wait although they should have started, the longest late first."""
    late = Instant(now - GRACE)
    asked = RunQuery(uid, states=frozenset({State.WAITING}), wanted_until=late, limit=limit, after=after)
    found = await api.engine.lists.runs(asked)
    job_ids = list(dict.fromkeys(run.job_id for run in found.items if run.due < late and not run.held & Held.PAUSED))
    rows = await api.engine.search.jobs_by_id(uid, job_ids) if job_ids else {}
    return Page(tuple(rows[job_id] for job_id in job_ids if job_id in rows), found.next, found.looked_to)
