"""From a meter's grants and the runs that wait for it to new grants: what every engine does alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from oncue.domain.instants import MILLISECOND, NEVER, Duration, Instant
from oncue.domain.lane import Meter
from oncue.domain.meter import starts

Id = TypeVar("Id")

# A start that nobody has made use of by then counts as of now, for it may be used any moment. Else all that was given
# one while no worker was there would start at once, and together with what is given one after.
UNUSED_AFTER = Duration(500 * MILLISECOND)


def most_starts(meter: Meter, length: Duration) -> int:
    """More than so many never start in a stretch of this length: no more runs need to be read."""
    return meter.limit * (length // meter.per + 1)


def remembered_since(meter: Meter, now: Instant) -> Instant:
    """Starts given until then count no longer, and whether they were made use of has been seen."""
    return Instant(now - max(meter.per, UNUSED_AFTER))


def next_check(check_at: Instant, granted: Iterable[Instant], now: Instant) -> Instant:
    """When to see whether starts were made use of, after it was seen or put off now: as long as there are any new."""
    if now < check_at < NEVER:
        return check_at
    return Instant(now + UNUSED_AFTER) if max(granted, default=0) > now - UNUSED_AFTER else NEVER


def give_starts(
    meter: Meter, granted: Sequence[Instant], waiting: Iterable[tuple[Id, Instant]], until: Instant, now: Instant
) -> tuple[list[tuple[Id, Instant]], Instant]:
    """Which of the waiting, in order of their dues, may start until then, and when; and from when on the next one may.

    What is late can start now at the earliest: its due instant is no start any more.
    """
    runs = list(waiting)
    given: list[tuple[Id, Instant]] = []
    dues = (max(due, now) for _, due in runs)
    for (run_id, _), start in zip(runs, starts(meter.limit, meter.per, granted, dues), strict=True):
        if start > until:
            break
        given.append((run_id, start))
    free_at = next(starts(meter.limit, meter.per, [*granted, *(start for _, start in given)], [Instant(0)]))
    return given, free_at
