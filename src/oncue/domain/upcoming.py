"""The runs to come of many jobs, in order of time: occurrences of their schedules are computed one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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


class Computed(msgspec.Struct, frozen=True):
    """An instant of the schedule with this number. `more`: its last; further ones follow that are not computed."""

    at: Instant
    schedule: int
    more: bool = False


def upcoming(jobs: Iterable[Recurring], once: Iterable[Coming], since: Instant, until: Instant) -> Iterator[Coming]:
    """Yield what comes in [since, until) in order, without an end if there is none. `once` is in order already."""
    return merge(*(_of_job(job, since, until) for job in jobs), once, key=lambda one: one.place)


def alike(jobs: Iterable[Recurring]) -> list[list[Recurring]]:
    """Put jobs with the same schedule together: a thousand jobs of every hour cost as much as one."""
    found: defaultdict[tuple[bytes, Instant, int], list[Recurring]] = defaultdict(list)
    for job in jobs:
        found[msgspec.json.encode(job.spec.schedule), job.next_at, job.planned].append(job)
    return list(found.values())


def instants(jobs: Sequence[Recurring], since: Instant, until: Instant, most: int) -> Iterator[Computed]:
    """Yield the instants of each schedule in [since, until), the first of each: up to `most`, or one of each.

    All get the same number, and what those that run seldom leave goes to the others.
    """
    going = [(number, _instants_until(job, since, until), since) for number, job in enumerate(jobs)]
    while going:
        each = max(1, most // len(going))
        turn, going = going, []
        for number, rest, before in turn:
            n, last = 0, before
            for last in islice(rest, each):
                n += 1
                yield Computed(last, number)
            most -= n
            if n == each:
                going.append((number, rest, last))
        if most < len(going):
            break
    for number, rest, last in going:
        if next(rest, None) is not None:
            yield Computed(last, number, more=True)


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
