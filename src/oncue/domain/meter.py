"""Rates: at most `limit` starts in any stretch of `per`, decided ahead as instants."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from oncue.domain.instants import Duration, Instant


class Given(msgspec.Struct, frozen=True):
    """The starts given before: how many count, the earliest of the last `limit` of them, and the last of all.

    As many of the earliest as starts are to be given: a rate of a hundred thousand a day is no reason to read them all.
    """

    count: int = 0
    earliest: Sequence[Instant] = ()
    last: Instant = Instant(0)


def starts(limit: int, per: Duration, given: Given, due: Iterable[Instant]) -> Iterator[Instant]:
    """For runs due at these instants, in order, the first instant at which each may start.

    A start is never before its run is due, and never less than `per` after the start that was `limit` before it.
    """
    free, before, last = limit - given.count, deque(given.earliest), given.last
    for at in due:
        if free > 0:
            free -= 1
            last = max(at, last)
        else:
            last = max(at, last, Instant(before.popleft() + per))
        before.append(last)
        yield last
