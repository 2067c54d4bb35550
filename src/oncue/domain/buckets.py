"""Edges of the histograms, in seconds: what is counted in a bucket took at most its edge.

One list for the whole of oncue, so that what a process measures and what the store keeps can be compared.
LAG has the goals for a start as edges (5, 50 and 250 ms, and 2 s).
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

LAG: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 3600.0)
"""From when a run could start to when it did."""
RUN: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
"""How long an attempt took."""
CALL: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0)
"""How long a call to the database, to storage or to the API took."""


def bucket(edges: tuple[float, ...], seconds: float) -> int:
    """The place of the first edge that is not exceeded; one more than there are edges for what exceeds them all."""
    return bisect_left(edges, seconds)


def quantile(edges: tuple[float, ...], counts: Sequence[int], share: float) -> float | None:
    """Estimate below how many seconds this share of what was counted lies, evenly within its bucket. None: nothing was.

    What exceeds the last edge counts as that edge: it was at least that.
    """
    total = sum(counts)
    reached, wanted = 0, share * total
    for place, n in enumerate(counts):
        if n and reached + n >= wanted and place < len(edges):
            below = edges[place - 1] if place else 0.0
            return below + (edges[place] - below) * max(0.0, wanted - reached) / n
        reached += n
    return edges[-1] if total else None
