"""The runs to come of many jobs: in order of time, and how many come in each step, in all and by groups such as tasks.

For the order, occurrences of their schedules are computed one after the other.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace, merge
from itertools import chain, islice

import msgspec

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MICROSECOND, NEVER, Instant
from oncue.domain.job import Spec
from oncue.domain.schedule import Schedule, next_occurrence

AT_ONCE = 50  # instants that are computed in one step: others may have a turn between two steps
MOST_SKIPPED = 1_000  # occurrences of a job with max_runs that are counted to know when it ends


_Turn = tuple[Instant, JobId, int, Iterator[Instant] | None]


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


class Computed(msgspec.Struct, frozen=True, gc=False):
    """Some instants of the schedule with this number. `more`: none, but further ones follow that are not computed."""

    schedule: int
    at: list[Instant]
    more: bool = False


def upcoming(jobs: Sequence[Recurring], once: Iterable[Coming], since: Instant, until: Instant) -> Iterator[Coming]:
    """Yield what comes in [since, until) in order, without an end if there is none. `once` is in order already."""
    return merge(_of_jobs(jobs, since, until), once, key=lambda one: one.place)


def _of_jobs(jobs: Sequence[Recurring], since: Instant, until: Instant) -> Iterator[Coming]:
    """Merge what recurs. The occurrences of a job are computed when the jobs before it have had their turn, if ever."""
    line: list[_Turn] = [(job.next_at, job.job_id, number, None) for number, job in enumerate(jobs)]
    heapify(line)
    while line:
        at, job_id, number, rest = line[0]
        if rest is None:
            rest = _instants(jobs[number], since, until)
        else:
            yield Coming(at, job_id, jobs[number].spec)
        following = next(rest, None)
        if following is None:
            heappop(line)
        else:
            heapreplace(line, (following, job_id, number, rest))


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
    going = [(number, _instants(job, since, until)) for number, job in enumerate(jobs)]
    while going:
        each = max(1, most // len(going))
        turn, going = going, []
        for number, rest in turn:
            left = each
            while left and (found := list(islice(rest, min(left, AT_ONCE)))):
                yield Computed(number, found)
                left -= len(found)
            most -= each - left
            if not left:
                going.append((number, rest))
        if most < len(going):
            break
    for number, rest in going:
        if next(rest, None) is not None:
            yield Computed(number, [], more=True)


def _instants(job: Recurring, since: Instant, until: Instant) -> Iterator[Instant]:
    schedule, next_at = job.spec.schedule, job.next_at
    if schedule.max_runs is None:
        first = next_at if next_at >= since else next_occurrence(schedule, Instant(since - MICROSECOND))
        return _from(schedule, first, until)
    left = islice(_from(schedule, next_at, until), max(0, schedule.max_runs - job.planned))
    return _since(left, since)


def _since(instants: Iterator[Instant], since: Instant) -> Iterator[Instant]:
    for number, at in enumerate(instants):
        if at >= since:
            yield at
        elif number >= MOST_SKIPPED:
            return


def _from(schedule: Schedule, first: Instant | None, until: Instant) -> Iterator[Instant]:
    if first is None or first >= min(until, NEVER):
        return iter(())
    if schedule.every is None:
        return _one_by_one(schedule, first, until)
    end = min(until, NEVER, NEVER if schedule.end_at is None else schedule.end_at + MICROSECOND)
    second = next_occurrence(schedule, first)
    rest = range(0) if second is None else range(second, end, schedule.every)
    return chain((first,), map(Instant, rest))


def _one_by_one(schedule: Schedule, at: Instant | None, until: Instant) -> Iterator[Instant]:
    while at is not None and at < min(until, NEVER):
        yield at
        at = next_occurrence(schedule, at)


Group = tuple[str, ...]


class Part(msgspec.Struct, frozen=True):
    """Runs that come at the same steps: `groups` says how many of each group come every time that `steps` counts.

    `reached`: there may be more from then on; None: all were counted.
    """

    steps: Mapping[Instant, int]
    groups: Mapping[Group, int]
    reached: Instant | None = None


class Density(msgspec.Struct, frozen=True):
    steps: Mapping[Instant, int]
    reached: Instant | None = None


def in_all(parts: Iterable[Part], reached: Instant | None = None) -> Density:
    """Add up all parts. `reached` is that of what is in no part."""
    return _sum(((part, sum(part.groups.values())) for part in parts), reached)


def largest(parts: Iterable[Part], most: int, reached: Instant | None = None) -> tuple[dict[Group, Density], int]:
    """Add up each of the groups with the most runs, in this order; also return how many groups are left out."""
    of: defaultdict[Group, list[tuple[Part, int]]] = defaultdict(list)
    sizes: Tally[Group] = Tally()
    for part in parts:
        times = sum(part.steps.values())
        for group, n in part.groups.items():
            of[group].append((part, n))
            sizes[group] += n * times
    some = [group for group, n in sizes.items() if n]
    chosen = sorted(some, key=lambda group: (-sizes[group], group))[:most]
    return {group: _sum(of[group], reached) for group in chosen}, len(some) - len(chosen)


def _sum(parts: Iterable[tuple[Part, int]], reached: Instant | None) -> Density:
    steps: dict[Instant, int] = {}
    ends: list[Instant] = [] if reached is None else [reached]
    for part, n in parts:
        for at, times in part.steps.items():
            steps[at] = steps.get(at, 0) + n * times
        if part.reached is not None:
            ends.append(part.reached)
    return Density(dict(sorted(steps.items())), min(ends, default=None))


def counted(at: Iterable[Instant], step: int) -> dict[Instant, int]:
    """Count instants by step."""
    steps: dict[Instant, int] = {}  # a Counter takes longer to make than the few instants of a schedule to count
    for one in at:
        start = Instant(one - one % step)
        steps[start] = steps.get(start, 0) + 1
    return steps
