"""From a meter's grants and the runs that wait for it to new grants: what every engine does alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from oncue.domain.instants import Duration, Instant
from oncue.domain.lane import Meter
from oncue.domain.meter import starts

Id = TypeVar("Id")


def most_starts(meter: Meter, length: Duration) -> int:
    """More than so many never start in a stretch of this length: no more runs need to be read."""
    return meter.limit * (length // meter.per + 1)


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
