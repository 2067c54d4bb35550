"""From a meter's grants and the runs that wait for it to new grants: what every engine does alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from oncue.domain.instants import MILLISECOND, NEVER, Duration, Instant
from oncue.domain.lane import Meter
from oncue.domain.meter import Given, starts

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


def unchecked_since(check_at: Instant) -> Instant:
    """Of earlier starts it was seen at the last check, UNUSED_AFTER before this one, whether they were made use of."""
    return Instant(check_at - 2 * UNUSED_AFTER)


def next_check(check_at: Instant, last: Instant, now: Instant) -> Instant:
    """When to see whether starts were made use of, after it was seen or put off now: as long as there are any new."""
    if now < check_at < NEVER:
        return check_at
    return Instant(now + UNUSED_AFTER) if last > now - UNUSED_AFTER else NEVER


def give_starts(
    meter: Meter, before: Given, waiting: Iterable[tuple[Id, Instant]], until: Instant, now: Instant
) -> tuple[list[tuple[Id, Instant]], Instant]:
    """Which of the waiting, in order of their dues, may start until then, and when; and from when on the next one may.

    What is late can start now at the earliest: its due instant is no start any more.
    """
    runs = list(waiting)
    given: list[tuple[Id, Instant]] = []
    found = starts(meter.limit, meter.per, before, [*(max(due, now) for _, due in runs), now])
    for (run_id, _), start in zip(runs, found, strict=False):
        if start > until:
            return given, start
        given.append((run_id, start))
    return given, next(found)
