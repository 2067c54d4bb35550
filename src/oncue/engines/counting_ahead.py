"""Counts of waiting runs by when they are due: what both engines do with the rows that they read."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence

from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant
from oncue.engines.values import DueCounts

# A class, a step of it, how many runs count, the last entry that was read, how many were read.
Row = tuple[ClassId, int, int, int, int]


def due_counts(
    classes: Sequence[ClassId], found: Iterable[Row], most: int, *, together: bool = False
) -> dict[ClassId, DueCounts]:
    """Add up what was read of each class: `most` entries at most, or with `together` so many of all classes."""
    counts: dict[ClassId, Tally[Instant]] = {class_id: Tally() for class_id in classes}
    read: Tally[ClassId | None] = Tally()
    last: dict[ClassId | None, int] = {}
    for class_id, at, n, latest, seen in found:
        if n:
            counts[class_id][Instant(at)] += n
        group = None if together else class_id
        read[group] += seen
        last[group] = max(latest, last.get(group, latest))
    cut = {group: Instant(last[group]) for group, n in read.items() if n >= most}
    return {
        class_id: DueCounts(dict(some), cut.get(None if together else class_id)) for class_id, some in counts.items()
    }
