"""Sums over the last runs of a job: how they ended, how long they took, how late they started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


def spread(values: Iterable[int | None]) -> dict[str, int | None]:
    """The median, the 95th percentile and the largest value: each is one of the values."""
    known = sorted(value for value in values if value is not None)
    return {"p50": _share(known, 50), "p95": _share(known, 95), "max": known[-1] if known else None}


def _share(known: Sequence[int], percent: int) -> int | None:
    """The smallest value that so many percent of all do not exceed."""
    return known[-(-len(known) * percent // 100) - 1] if known else None


def outcomes(states: Sequence[str], all_of: Sequence[str]) -> dict[str, Any]:
    """How many runs ended in each way, and the share that succeeded; cancelled runs say nothing of that."""
    counted = Counter(states)
    tried = len(states) - counted["cancelled"]
    return {
        "outcomes": {state: counted[state] for state in all_of},
        "success_rate": round(counted["succeeded"] / tried, 4) if tried else None,
    }
