"""Rates: at most `limit` starts in any stretch of `per`, decided ahead as instants."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from oncue.domain.instants import Duration, Instant


def starts(limit: int, per: Duration, granted: Iterable[Instant], due: Iterable[Instant]) -> Iterator[Instant]:
    """For runs due at these instants, in order, the first instant at which each may start.

    `granted` are the starts given before, in order; only the last `limit` of them matter. A start is never before its
    run is due, and never less than `per` after the start that was `limit` before it.
    """
    last = deque(granted, maxlen=limit)
    for at in due:
        start = at if len(last) < limit else max(at, Instant(last[0] + per))
        start = max(start, last[-1]) if last else start
        last.append(start)
        yield start
