"""From a meter's grants and its waiting runs to new grants: what all engines share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from oncue.domain.instants import MILLISECOND, NEVER, Duration, Instant
from oncue.domain.lane import RateBucket
from oncue.domain.meter import Given, starts

Id = TypeVar("Id")

# A start that no worker has used by then is taken back, with all later ones, and they are granted again. Otherwise
# every run that got a start while no worker was there would start at once when a worker is back.
UNUSED_AFTER = Duration(500 * MILLISECOND)


def most_starts(meter: RateBucket, length: Duration) -> int:
    """Return how many starts a time range of this length allows at most: more runs need not be read."""
    return meter.limit * (length // meter.per + 1)


def remembered_since(meter: RateBucket, now: Instant) -> Instant:
    """Return the instant up to which starts no longer count and are known to be used or unused."""
    return Instant(now - max(meter.per, UNUSED_AFTER))


def unchecked_since(check_at: Instant) -> Instant:
    """Return the instant before which starts were used, or taken back at the last check, UNUSED_AFTER before this."""
    return Instant(check_at - 2 * UNUSED_AFTER)


def next_check(check_at: Instant, last: Instant, now: Instant) -> Instant:
    """Return when to check next whether starts were used, after a check done or put off now; NEVER if none is new."""
    if now < check_at < NEVER:
        return check_at
    return Instant(now + UNUSED_AFTER) if last > now - UNUSED_AFTER else NEVER


class Start(msgspec.Struct, Generic[Id], frozen=True):
    """A run, the instant at which its meter lets it start, and its new due.

    A late run can start now and keeps its due, so it keeps its rank among all due runs.
    """

    run_id: Id
    token: int
    at: Instant
    due: Instant
    was_due: Instant


def give_starts(
    meter: RateBucket, before: Given, waiting: Sequence[tuple[Id, Instant, int]], until: Instant, now: Instant
) -> tuple[list[Start[Id]], Instant]:
    """Return which waiting runs, in order of their dues, may start until then; and when the next one may."""
    given: list[Start[Id]] = []
    found = starts(meter.limit, meter.per, before, [*(max(due, now) for _, due, _ in waiting), now])
    for (run_id, due, token), at in zip(waiting, found, strict=False):
        if at > until:
            return given, at
        given.append(Start(run_id, token, at, at if at > now else due, due))
    return given, next(found)
