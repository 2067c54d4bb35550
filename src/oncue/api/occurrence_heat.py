"""How many occurrences of a job had which outcome when: for a strip or a heat map of its history."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import path_id
from oncue.api.listing import instant, read_query
from oncue.api.occurrences import Occurred, read_page, when
from oncue.api.shared.context import Api
from oncue.api.upcoming import step_for
from oncue.domain.errors import Invalid, NotFound
from oncue.domain.fields import Reader, duration
from oncue.domain.ids import JobId
from oncue.domain.instants import DAY, MICROSECOND, SECOND, Duration, Instant, rfc3339, show_duration
from oncue.domain.ledger import Entry

MOST_LOOKED_AT, AT_ONCE = 5_000, 1_000  # runs and time ranges
OUTCOMES = ("started", "late", "waiting", "skipped", "coalesced", "missed")
PARAMETERS: Mapping[str, Reader] = {"from": instant, "to": instant, "step": duration(SECOND)}

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
    counts: Counts = {}
    after, looked_at, oldest = None, 0, until
    while looked_at < MOST_LOOKED_AT:
        found = await read_page(api.engine.lists, job_id, AT_ONCE, after, since)
        for one in found.items:
            _count(one, since, until, step, counts)
            oldest = min(oldest, when(one))
        looked_at += max(len(found.items), AT_ONCE // 10)  # of those that are no occurrences some were read, too
        after = found.next
        if after is None:
            return counts, None
    return counts, max(oldest, since)


def _count(one: Occurred, since: Instant, until: Instant, step: Duration, counts: Counts) -> None:
    if isinstance(one, Entry):
        _spread(one, since, until, step, counts)
    elif since <= (at := when(one)) < until:
        counts.setdefault(Instant(at - at % step), Tally())[views.occurrence(one)["outcome"]] += 1


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
