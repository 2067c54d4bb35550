"""From a meter's grants and the runs that wait for it to new grants: what every engine does alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from oncue.domain.instants import MILLISECOND, NEVER, Duration, Instant
from oncue.domain.lane import RateBucket
from oncue.domain.meter import Given, starts

Id = TypeVar("Id")

# A start that nobody has made use of by then is taken back, with all that come after it, and they are given anew. Else
# all that was given one while no worker was there would start at once when one is back.
UNUSED_AFTER = Duration(500 * MILLISECOND)


def most_starts(meter: RateBucket, length: Duration) -> int:
    """More than so many never start in a stretch of this length: no more runs need to be read."""
    return meter.limit * (length // meter.per + 1)


def remembered_since(meter: RateBucket, now: Instant) -> Instant:
    """Starts given until then count no longer, and whether they were made use of has been seen."""
    return Instant(now - max(meter.per, UNUSED_AFTER))


def unchecked_since(check_at: Instant) -> Instant:
    """Earlier starts were made use of, or taken back at the last check, UNUSED_AFTER before this one."""
    return Instant(check_at - 2 * UNUSED_AFTER)


def next_check(check_at: Instant, last: Instant, now: Instant) -> Instant:
    """When to see whether starts were made use of, after it was seen or put off now: as long as there are any new."""
    if now < check_at < NEVER:
        return check_at
    return Instant(now + UNUSED_AFTER) if last > now - UNUSED_AFTER else NEVER


class Start(msgspec.Struct, Generic[Id], frozen=True):
    """A run, the instant at which its meter lets it start, and when it is due from now on.

    What is late can start now, and is due as before: so it keeps its rank among all that is due.
    """

    run_id: Id
    token: int
    at: Instant
    due: Instant
    was_due: Instant


def give_starts(
    meter: RateBucket, before: Given, waiting: Sequence[tuple[Id, Instant, int]], until: Instant, now: Instant
) -> tuple[list[Start[Id]], Instant]:
    """Which of the waiting, in order of their dues, may start until then; and from when on the next one may."""
    given: list[Start[Id]] = []
    found = starts(meter.limit, meter.per, before, [*(max(due, now) for _, due, _ in waiting), now])
    for (run_id, due, token), at in zip(waiting, found, strict=False):
        if at > until:
            return given, at
        given.append(Start(run_id, token, at, at if at > now else due, due))
    return given, next(found)
