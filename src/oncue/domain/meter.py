"""Rate limits: at most `limit` starts in any window of length `per`, decided ahead as instants."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from oncue.domain.instants import Duration, Instant


class Given(msgspec.Struct, frozen=True):
    """The starts given before: how many count, the earliest of the last `limit` of them, and the last of all.

    `earliest` needs only as many entries as new starts are requested: a limit of a hundred thousand a day does not
    require reading them all.
    """

    count: int = 0
    earliest: Sequence[Instant] = ()
    last: Instant = Instant(0)


def starts(limit: int, per: Duration, given: Given, due: Iterable[Instant]) -> Iterator[Instant]:
    """Yield the first instant at which each run may start, for runs due at these instants, in order.

    A start is at or after its run's due instant, and at least `per` after the start that was `limit` before it.
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
