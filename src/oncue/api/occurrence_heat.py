"""How many occurrences of a job had which outcome when: for a strip or a heat map of its history."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import path_id
from oncue.api.listing import instant, read_query
from oncue.api.occurrences import BY_HAND, when
from oncue.api.shared.context import Api
from oncue.api.upcoming import step_for
from oncue.domain.errors import Invalid, NotFound
from oncue.domain.fields import Reader, duration
from oncue.domain.ids import JobId
from oncue.domain.instants import DAY, MICROSECOND, SECOND, Duration, Instant, rfc3339, show_duration
from oncue.domain.ledger import Entry
from oncue.domain.run import RunView
from oncue.engines.port import Page, RunQuery

MOST_LOOKED_AT, AT_ONCE = 2_000, 500  # runs, and as many time ranges
OUTCOMES = ("started", "late", "waiting", "skipped", "coalesced", "missed")
PARAMETERS: Mapping[str, Reader] = {"from": instant, "to": instant, "step": duration(SECOND)}

T = TypeVar("T")
Counts = dict[Instant, Tally[str]]


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """Count by outcome, beginning with the newest; `looked_back_to` says how far if that is not as far as asked."""
    asked, now = read_query(request, PARAMETERS), api.clock.now()
    until = asked.get("to", Instant(now + MICROSECOND))
    since = asked.get("from", Instant(until - DAY))
    if until <= since:
        raise Invalid.of("to", "bad_window", "must be later than from")
    step = step_for(asked.get("step"), Duration(until - since))
    job_id = JobId(path_id(request))
    if await api.engine.jobs.read(caller.sees, job_id) is None:
        raise NotFound
    counts, looked_back_to = await _counted(api, job_id, since, until, step)
    return answer(
        {
            "start_time": rfc3339(Instant(since - since % step)),
            "end_time": rfc3339(until),
            "step": show_duration(step),
            "looked_back_to": None if looked_back_to is None else rfc3339(looked_back_to),
            "buckets": [
                {"at": rfc3339(at), **{outcome: counts[at][outcome] for outcome in OUTCOMES}} for at in sorted(counts)
            ],
        }
    )


async def _counted(
    api: Api, job_id: JobId, since: Instant, until: Instant, step: Duration
) -> tuple[Counts, Instant | None]:
    """Read runs and time ranges, the newest first, each up to as many. A run that ended before `since` was scheduled
    for before, too."""
    counts: Counts = {}

    def list_runs(after: str | None) -> Awaitable[Page[RunView]]:
        return api.engine.lists.runs(RunQuery(job_id=job_id, limit=AT_ONCE, after=after))

    def list_entries(after: str | None) -> Awaitable[Page[Entry]]:
        return api.engine.lists.ledger(None, job_id, AT_ONCE, after)

    def count(run: RunView) -> None:
        at = when(run)
        if run.trigger not in BY_HAND and since <= at < until:
            counts.setdefault(Instant(at - at % step), Tally())[views.outcome_of(run)] += 1

    runs = await _each(list_runs, lambda run: run.ended_at, since, count)
    entries = await _each(
        list_entries, lambda entry: entry.last, since, lambda entry: _spread(entry, since, until, step, counts)
    )
    return counts, max((at for at in (runs, entries) if at is not None), default=None)


async def _each(
    listing: Callable[[str | None], Awaitable[Page[T]]],
    time_of: Callable[[T], Instant | None],
    since: Instant,
    count: Callable[[T], None],
) -> Instant | None:
    """Count what is listed, back to `since`. Return how far it was counted if that is less; None: to the end."""
    after, at = None, since
    for _ in range(0, MOST_LOOKED_AT, AT_ONCE):
        found = await listing(after)
        for one in found.items:
            count(one)
        at = (time_of(found.items[-1]) if found.items else None) or at
        after = found.next
        if after is None or (found.items and at < since):
            return None
    return max(at, since)


def _spread(entry: Entry, since: Instant, until: Instant, step: Duration, counts: Counts) -> None:
    """Count a time range of occurrences as if they were evenly apart, which those of most schedules are."""
    first, gaps, length = entry.first, entry.count - 1, entry.last - entry.first

    def before(at: int) -> int:
        """How many of them are earlier than this."""
        if at <= first or first == entry.last:
            return entry.count * (at > first)
        return min(entry.count, (at - first - 1) * gaps // length + 1)

    start, end = max(since, first), min(until, entry.last + 1)
    bucket = start - start % step
    while bucket < end:
        n = before(min(bucket + step, end)) - before(max(bucket, start))
        if n:
            counts.setdefault(Instant(bucket), Tally())[entry.outcome.value] += n
        bucket += step
