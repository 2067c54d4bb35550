"""The runs to come over all jobs, in order of time, and how many come when."""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_job_id
from oncue.api.listing import Wanted, instant, page, read_query, wanted_page
from oncue.api.problems import open_runs
from oncue.api.series import STEPS
from oncue.api.shared.context import Api
from oncue.domain.cron.text import Skipped
from oncue.domain.errors import Invalid
from oncue.domain.fields import Reader, choice, duration, text
from oncue.domain.ids import ClassId, JobId, RunId
from oncue.domain.instants import DAY, LONG_AGO, MICROSECOND, NEVER, SECOND, Duration, Instant, rfc3339, show_duration
from oncue.domain.job import JobStatus, Spec
from oncue.domain.placement import NOTICE_CLASS, ClassKey
from oncue.domain.preview import occurrence_at, skipped_in
from oncue.domain.upcoming import (
    Coming,
    Density,
    Group,
    Part,
    Recurring,
    alike,
    counted,
    in_all,
    instants,
    largest,
    upcoming,
)
from oncue.engines.marks import mark, unmark
from oncue.engines.port import CursorRow, JobQuery, Page
from oncue.engines.series import MOST_POINTS

MOST_CURSORS = 1_000  # recurring jobs that one answer looks at, and at most as many that a filter leaves out
MOST_COMPUTED = 5_000  # occurrences that one density computes
MOST_COUNTED = 20_000  # waiting runs that it counts, of everybody's
MOST_OF_USER = 10_000  # the same of a user's, which no index alone can count
MOST_GROUPS = 50
MOST_STEPS_OF_GROUPS = 300
USUAL_BUCKETS = 200
MOST_SKIPPED = 100  # occurrences that daylight saving drops, listed
LONGEST_WINDOW = Duration(366 * DAY)  # of these
LONGEST = 200  # characters of a filter: every name is shorter

_TEXT = text(LONGEST)
FILTERS: Mapping[str, Reader] = {
    "from": instant,
    "to": instant,
    "task": _TEXT,
    "queue": _TEXT,
    "job_id": read_job_id,
}
BY = {"task": ("task",), "queue": ("queue",), "task,queue": ("task", "queue")}
DENSITY: Mapping[str, Reader] = {**FILTERS, "step": duration(SECOND), "by": choice(BY)}
Place = tuple[Instant, JobId]


class _Known(msgspec.Struct, frozen=True):
    """What was read: everything up to `reached` is among it; None: all there is."""

    recurring: tuple[Recurring, ...] = ()
    once: tuple[Coming, ...] = ()
    reached: Place | None = None


class _Asked(msgspec.Struct, frozen=True):
    since: Instant
    until: Instant
    task: str | None = None
    queue: str | None = None
    job_id: JobId | None = None

    def fits(self, spec: Spec) -> bool:
        return self.task in (None, spec.task) and self.queue in (None, spec.queue)


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """List the runs to come. The first N come from at most N recurring jobs and N that run once."""
    wanted, now = wanted_page(request, caller, FILTERS), api.clock.now()
    asked = _asked(wanted.filters, now, NEVER)
    after: Place | None = None
    if wanted.after is not None:
        at, job_id = unmark(wanted.after, tuple[int, UUID])
        after = Instant(at), JobId(job_id)
        asked = msgspec.structs.replace(asked, since=max(asked.since, after[0]))
    known = await _read(api, caller, asked, wanted.limit + 1)
    coming = upcoming(known.recurring, known.once, asked.since, asked.until)
    later = (one for one in coming if after is None or one.place > after)
    with api.watchdog.aside():
        found, cut_off = await api.previews.first(caller, islice(later, wanted.limit + 1))
    paused = await api.engine.fleet.paused_queues()
    return answer(_page(found, wanted, known, cut_off=cut_off, show=lambda one: _shown(one, paused, now)))


def _asked(filters: Mapping[str, Any], now: Instant, end: int) -> _Asked:
    since = max(filters.get("from", now), now)
    until = filters.get("to", Instant(min(end, NEVER)))
    if until <= since:
        raise Invalid.of("to", "bad_window", f"must be later than from, and than now ({rfc3339(now)})")
    return _Asked(since, until, filters.get("task"), filters.get("queue"), filters.get("job_id"))


def _page(
    found: Sequence[Coming],
    wanted: Wanted,
    known: _Known,
    *,
    cut_off: bool,
    show: Callable[[Coming], Any],
) -> dict[str, Any]:
    shown = tuple(found[: wanted.limit])
    more = cut_off or len(found) > wanted.limit
    next_ = mark(shown[-1].place) if more and shown else None
    beyond = known.reached is not None and (not more or not shown or shown[-1].place > known.reached)
    exact = None if known.reached is None or not beyond else known.reached[0]
    listed = page("upcoming", Page(shown, next_), show, wanted)
    return {
        "upcoming": listed["upcoming"],
        "next_page_token": listed["next_page_token"],
        "exact_until": None if exact is None else rfc3339(exact),
    }


def _shown(one: Coming, paused: Mapping[str, Instant], now: Instant) -> dict[str, Any]:
    told = occurrence_at(one.spec.schedule, one.at, now)
    jitter = one.spec.schedule.jitter if one.spec.schedule.recurring else 0
    notes = (
        told.note,
        f"starts up to {show_duration(Duration(jitter))} later" if jitter else None,
        "its queue is paused" if one.spec.queue in paused else None,
    )
    return {
        "at": told.at,
        "local": told.local,
        "timezone": one.spec.schedule.timezone,
        "job_id": one.job_id,
        "job_name": one.spec.name,
        "task": one.spec.task,
        "queue": one.spec.queue,
        "run_id": one.run_id,
        "note": "; ".join(note for note in notes if note) or None,
    }


async def skipped(api: Api, request: Request, caller: Caller) -> Response:
    """List what daylight saving drops, of the recurring jobs that run next, however far from the window that is."""
    filters, now = read_query(request, FILTERS), api.clock.now()
    asked = _asked(filters, now, max(filters.get("from", now), now) + DAY)
    if asked.until - asked.since > LONGEST_WINDOW:
        raise Invalid.of("to", "bad_window", "must be at most 366 days later than from, or than now")
    ever = msgspec.structs.replace(asked, until=NEVER)
    known = await _of_job(api, caller, ever) if asked.job_id else await _cursors(api, caller, ever)
    after, until = Instant(asked.since - MICROSECOND), Instant(asked.until - MICROSECOND)
    found = sorted(
        ((gone, job) for job in known.recurring for gone in skipped_in(job.spec.schedule, after, until)),
        key=lambda one: (one[0].at, one[1].job_id),
    )
    more = known.reached is not None or len(found) > MOST_SKIPPED
    return answer({"skipped": [_left_out(*one) for one in found[:MOST_SKIPPED]], "more": more})


def _left_out(gone: Skipped, job: Recurring) -> dict[str, Any]:
    return {
        "at": rfc3339(gone.at),
        "timezone": job.spec.schedule.timezone,
        "job_id": job.job_id,
        "job_name": job.spec.name,
        "task": job.spec.task,
        "queue": job.spec.queue,
        "count": gone.count,
        "note": gone.note,
    }


# ----------------------------------------------------------------------------------------------------------- reading


async def _read(api: Api, caller: Caller, asked: _Asked, limit: int) -> _Known:
    if asked.job_id is not None:
        return await _of_job(api, caller, asked)
    (recurring, first), (once, second) = await asyncio.gather(
        _recurring(api, caller, asked, limit), _once(api, caller, asked, limit)
    )
    reached = min((place for place in (first, second) if place is not None), default=None)
    return _Known(recurring, once, reached)


async def _of_job(api: Api, caller: Caller, asked: _Asked) -> _Known:
    """Read one job; what is no job of the caller has nothing to come."""
    assert asked.job_id is not None
    snap = await api.engine.jobs.read(caller.sees, asked.job_id)
    if snap is None or snap.job.status is not JobStatus.ACTIVE or not asked.fits(snap.job.spec):
        return _Known()
    job = snap.job
    waiting = sorted((run.wanted, run.run_id) for run in snap.waiting if asked.since <= run.wanted < asked.until)
    cursor = snap.cursor
    known = cursor is not None and job.spec.schedule.recurring  # else a newer version wrote it
    recurring = (
        () if cursor is None or not known else (Recurring(job.job_id, job.spec, cursor.next_at, cursor.planned),)
    )
    return _Known(recurring, tuple(Coming(at, job.job_id, job.spec, run_id) for at, run_id in waiting))


async def _recurring(api: Api, caller: Caller, asked: _Asked, limit: int) -> tuple[tuple[Recurring, ...], Place | None]:
    """Read recurring jobs in the order of their next occurrence, until `limit` of these are later than `since`."""
    found: list[Recurring] = []
    after, read, later = None, 0, 0
    while True:
        size = MOST_CURSORS if read else limit  # nearly always the first jobs are enough
        page = await api.engine.ahead.cursors(caller.sees, LONG_AGO, asked.until, size, after)
        read += len(page.items)
        fitting = [row for row in page.items if asked.fits(row.spec) and row.spec.schedule.recurring]
        found += [Recurring(row.job_id, row.spec, row.next_at, row.planned) for row in fitting]
        later += sum(row.next_at >= asked.since for row in fitting)
        after = page.next
        if after is None or later >= limit or read >= MOST_CURSORS:
            return tuple(found), None if after is None else _place(page.items[-1])


def _place(row: CursorRow) -> Place:
    return row.next_at, row.job_id


async def _once(api: Api, caller: Caller, asked: _Asked, limit: int) -> tuple[tuple[Coming, ...], Place | None]:
    """Read the jobs that run once. The list has recurring ones, too, as many as come before them."""
    query = JobQuery(
        caller.sees,
        statuses=frozenset({JobStatus.ACTIVE}),
        task=asked.task,
        queue=asked.queue,
        next_from=asked.since,
        next_until=asked.until,
        limit=limit,
    )
    found = await api.engine.lists.jobs(query)
    jobs = [(row.next_at, row.job) for row in found.items if row.next_at is not None]
    once = tuple(
        Coming(at, job.job_id, job.spec, RunId(job.job_id)) for at, job in jobs if not job.spec.schedule.recurring
    )
    if found.next is None:
        return once, None
    return once, (jobs[-1][0], jobs[-1][1].job_id) if jobs else (asked.since, JobId(UUID(int=0)))


# ----------------------------------------------------------------------------------------------------------- density


async def density(api: Api, request: Request, caller: Caller) -> Response:
    """Count the runs to come in steps: occurrences of schedules, and waiting runs that nothing holds."""
    filters, now = read_query(request, DENSITY), api.clock.now()
    asked = _asked(filters, now, max(filters.get("from", now), now) + DAY)
    by: Group = filters.get("by", ())
    length = Duration(asked.until - asked.since)
    step = step_for(filters.get("step"), length, MOST_STEPS_OF_GROUPS if by else MOST_POINTS)
    if asked.job_id is None:
        known, waiting = await asyncio.gather(_cursors(api, caller, asked), _waiting(api, caller, asked, step, by))
    else:
        known = await _of_job(api, caller, asked)
        waiting = [Part(counted([one.at], step), {_group(by, one.spec): 1}) for one in known.once]
    recurring, cut_off = await _occurrences(api, caller, asked, known.recurring, step, by)
    unknown = asked.since if cut_off else None if known.reached is None else known.reached[0]
    parts = [*recurring, *waiting]
    groups, left_out = largest(parts, MOST_GROUPS, unknown) if by else ({}, 0)
    return answer(
        {
            "start_time": rfc3339(Instant(asked.since - asked.since % step)),
            "end_time": rfc3339(asked.until),
            "step": show_duration(step),
            **_counts(in_all(parts, unknown), step),
            "by": ",".join(by) or None,
            "groups": [
                {"task": None, "queue": None, **dict(zip(by, group, strict=True)), **_counts(found, step)}
                for group, found in groups.items()
            ],
            "more_groups": left_out,
        }
    )


def _group(by: Group, of: Spec | ClassKey) -> Group:
    return tuple(of.task if name == "task" else of.queue for name in by)


def _groups(by: Group, jobs: Sequence[Recurring]) -> Mapping[Group, int]:
    return Tally(_group(by, job.spec) for job in jobs) if by else {(): len(jobs)}


def _counts(found: Density, step: Duration) -> dict[str, Any]:
    end = found.reached
    return {
        "exact_until": None if end is None else rfc3339(end),
        "buckets": [
            {"at": rfc3339(at), "n": n, "at_least": end is not None and at + step > end}
            for at, n in found.steps.items()
        ],
    }


def step_for(asked: Duration | None, length: Duration, most: int = MOST_POINTS) -> Duration:
    longest = Duration(-(-length // ((most - 1) * DAY)) * DAY)  # in which decades fit
    step = asked or next((step for step in STEPS if length <= USUAL_BUCKETS * step), longest)
    if length > (most - 1) * step:
        least = show_duration(Duration(-(-length // ((most - 1) * SECOND)) * SECOND))
        raise Invalid.of("step", "too_many", f"gives more than {most:,} steps in this window; use {least} or more")
    return step


async def _cursors(api: Api, caller: Caller, asked: _Asked) -> _Known:
    recurring, reached = await _recurring(api, caller, asked, MOST_CURSORS)
    return _Known(recurring, (), reached)


async def _occurrences(
    api: Api, caller: Caller, asked: _Asked, jobs: Iterable[Recurring], step: Duration, by: Group
) -> tuple[list[Part], bool]:
    """Count the occurrences of each schedule. True: computing was cut off, and those of some schedules are unknown."""
    schedules = alike(jobs)
    computing = instants([same[0] for same in schedules], asked.since, asked.until, MOST_COMPUTED)
    with api.watchdog.aside():
        found, cut_off = await api.previews.first(caller, computing)
    of: defaultdict[int, list[Instant]] = defaultdict(list)
    reached: dict[int, Instant] = {}
    for one in found:
        of[one.schedule] += one.at
        if one.more:
            reached[one.schedule] = of[one.schedule][-1] if of[one.schedule] else asked.since
    parts = [
        Part(counted(of[number], step), _groups(by, same), reached.get(number)) for number, same in enumerate(schedules)
    ]
    return parts, cut_off


async def _waiting(api: Api, caller: Caller, asked: _Asked, step: Duration, by: Group) -> list[Part]:
    """Count waiting runs of the classes that have open ones."""
    if caller.sees is None:
        classes = {one.class_id: one.key for one in (await api.gauges.read()).classes}
    else:
        own = open_runs(await api.engine.history.counters(caller.sees))
        known = await api.classes()
        classes = {class_id: known[class_id] for class_id, n in own.items() if n > 0 and class_id in known}
    chosen: list[ClassId] = [
        class_id
        for class_id, key in classes.items()
        if key != NOTICE_CLASS and asked.task in (None, key.task) and asked.queue in (None, key.queue)
    ]
    window = (asked.since, asked.until, step)
    most = MOST_COUNTED if caller.sees is None else MOST_OF_USER
    found = await api.engine.ahead.due_counts(caller.sees, chosen, *window, most)
    return [Part(one.counts, {_group(by, classes[i]): 1}, one.reached) for i, one in found.items()]
