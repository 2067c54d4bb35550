"""Counts and measures over time: what all engines share.

Kept by the minute for two days, then by the hour for a year. A user's own counts are kept by the hour from the start,
and measures not at all: a user with a run a minute would otherwise need more rows for these than for the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncue.domain.buckets import LAG, RUN
from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.engines.values import Count, Measure, Point

MINUTES_KEPT = Duration(2 * DAY)
HOURS_KEPT = Duration(366 * DAY)
MOST_POINTS = 1_500
# In microseconds. One more than an edge, for whoever compares with < instead of <=.
LAG_UNDER = [round(edge * SECOND) + 1 for edge in LAG]
RUN_UNDER = [round(edge * SECOND) + 1 for edge in RUN]
BUCKETS = {Measure.LAG: len(LAG) + 1, Measure.RUN: len(RUN) + 1}


def minute_of(now: Instant) -> Instant:
    return Instant(now - now % MINUTE)


def check_range(what: Count | Measure, since: Instant, until: Instant, step: Duration, uid: UserNumber | None) -> None:
    """ValueError: no such series, no such step, or too many points."""
    if uid is not None and isinstance(what, Measure):
        raise ValueError("a user has series of counts only")
    finest = MINUTE if uid is None else HOUR
    if step <= 0 or step % finest:
        raise ValueError(f"a step is a multiple of {finest // MINUTE} minutes")
    if until - since > MOST_POINTS * step:
        raise ValueError(f"a series has up to {MOST_POINTS} points")


def points(what: Count | Measure, found: Iterable[Sequence[int]]) -> list[Point]:
    """Return points from rows (at, bucket, n), in their order."""
    size = BUCKETS[what] if isinstance(what, Measure) else 1
    by_time: dict[int, list[int]] = {}
    for at, bucket, n in found:
        counts = by_time.setdefault(at, [0] * size)
        if bucket < size:  # a newer oncue may have more
            counts[bucket] += n
    return [Point(Instant(at), tuple(counts)) for at, counts in by_time.items()]
