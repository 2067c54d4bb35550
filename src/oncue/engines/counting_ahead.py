"""Counts of waiting runs by when they are due: what both engines do with the rows that they read."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from oncue.domain.instants import Instant
from oncue.engines.values import DueCounts

# A group whose entries were read together, a step of it, how many count, the last of those read, how many were read.
Row = tuple[int, int, int, int, int]


def due_counts(found: Iterable[Row], most: int) -> DueCounts:
    """Add up what was read of each group, of which `most` entries at most were read."""
    counts: Tally[Instant] = Tally()
    read: Tally[int] = Tally()
    last: dict[int, int] = {}
    for group, at, n, latest, seen in found:
        counts[Instant(at)] += n
        read[group] += seen
        last[group] = max(latest, last.get(group, latest))
    cut = [last[group] for group, n in read.items() if n >= most]
    return DueCounts({at: n for at, n in counts.items() if n}, Instant(min(cut)) if cut else None)
