"""The runs to come of many jobs, in order of time: occurrences of their schedules are computed one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice, takewhile

import msgspec

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MICROSECOND, NEVER, Instant
from oncue.domain.job import Spec
from oncue.domain.schedule import Schedule, next_occurrence

MOST_SKIPPED = 1_000  # occurrences of a job with max_runs that are counted to know when it ends


class Coming(msgspec.Struct, frozen=True):
    """A run to come: at which instant, of which job; `run_id` if it exists."""

    at: Instant
    job_id: JobId
    spec: Spec
    run_id: RunId | None = None

    @property
    def place(self) -> tuple[Instant, JobId]:
        return self.at, self.job_id


class Recurring(msgspec.Struct, frozen=True):
    """A recurring job: its first occurrence that is not planned, and how many runs it was planned before."""

    job_id: JobId
    spec: Spec
    next_at: Instant
    planned: int = 0


class Counted(msgspec.Struct, frozen=True):
    """How many runs come at an instant. `more`: further ones follow that are not counted."""

    at: Instant
    n: int
    more: bool = False


def upcoming(jobs: Iterable[Recurring], once: Iterable[Coming], since: Instant, until: Instant) -> Iterator[Coming]:
    """Yield what comes in [since, until) in order, without an end if there is none. `once` is in order already."""
    return merge(*(_of_job(job, since, until) for job in jobs), once, key=lambda one: one.place)


def density(jobs: Iterable[Recurring], since: Instant, until: Instant, most: int) -> Iterator[Counted]:
    """Yield how many runs come at which instants in [since, until): up to `most` instants, the first of each schedule.

    Jobs with the same schedule count together, so that a thousand jobs of every hour cost as much as one.
    """
    alike: defaultdict[tuple[bytes, Instant, int], list[Recurring]] = defaultdict(list)
    for job in jobs:
        alike[msgspec.json.encode(job.spec.schedule), job.next_at, job.planned].append(job)
    each = max(1, most // max(1, len(alike)))
    for same in alike.values():
        instants = _instants_until(same[0], since, until)
        last: Instant | None = None
        for last in islice(instants, each):
            yield Counted(last, len(same))
        if last is not None and next(instants, None) is not None:
            yield Counted(last, 0, more=True)


def _of_job(job: Recurring, since: Instant, until: Instant) -> Iterator[Coming]:
    return (Coming(at, job.job_id, job.spec) for at in _instants_until(job, since, until))


def _instants_until(job: Recurring, since: Instant, until: Instant) -> Iterator[Instant]:
    return takewhile(lambda at: at < until, _instants(job.spec.schedule, job.next_at, job.planned, since))


def _instants(schedule: Schedule, next_at: Instant, planned: int, since: Instant) -> Iterator[Instant]:
    if schedule.max_runs is None:
        first = next_at if next_at >= since else next_occurrence(schedule, Instant(since - MICROSECOND))
        yield from _from(schedule, first)
        return
    for number, at in enumerate(islice(_from(schedule, next_at), max(0, schedule.max_runs - planned))):
        if at >= since:
            yield at
        elif number >= MOST_SKIPPED:
            return


def _from(schedule: Schedule, at: Instant | None) -> Iterator[Instant]:
    while at is not None and at < NEVER:
        yield at
        at = next_occurrence(schedule, at)
