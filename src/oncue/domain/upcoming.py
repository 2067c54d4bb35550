"""The runs to come of many jobs, in order of time: occurrences of their schedules are computed one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice, takewhile

import msgspec

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MICROSECOND, NEVER, Instant
from oncue.domain.job import Spec
from oncue.domain.schedule import next_occurrence

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


def upcoming(jobs: Iterable[Recurring], once: Iterable[Coming], since: Instant, until: Instant) -> Iterator[Coming]:
    """Yield what comes in [since, until) in order, without an end if there is none. `once` is in order already."""
    streams = [_of_job(job, since, until) for job in jobs]
    return merge(*streams, once, key=lambda one: one.place)


def _of_job(job: Recurring, since: Instant, until: Instant) -> Iterator[Coming]:
    instants = takewhile(lambda at: at < until, _instants(job, since))
    return (Coming(at, job.job_id, job.spec) for at in instants)


def _instants(job: Recurring, since: Instant) -> Iterator[Instant]:
    schedule = job.spec.schedule
    if schedule.max_runs is None:
        first = job.next_at if job.next_at >= since else next_occurrence(schedule, Instant(since - MICROSECOND))
        yield from _from(job, first)
        return
    for number, at in enumerate(islice(_from(job, job.next_at), schedule.max_runs - job.planned)):
        if at >= since:
            yield at
        elif number >= MOST_SKIPPED:
            return


def _from(job: Recurring, at: Instant | None) -> Iterator[Instant]:
    while at is not None and at < NEVER:
        yield at
        at = next_occurrence(job.spec.schedule, at)
