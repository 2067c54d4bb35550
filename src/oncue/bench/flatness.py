"""Whether a soak was flat: compares its last quarter with its second. The first is for warming up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from oncue.bench import measures
from oncue.bench.measures import Row
from oncue.bench.minutes import MEGABYTE, Sample
from oncue.bench.notes import Histogram

SMALL = 8 * MEGABYTE  # a smaller table may grow by a tenth of this: by pages, not by much


def judged(samples: Sequence[Sample], lost: int) -> list[Row]:
    """Return rows, each with a bound that it must keep."""
    quarter = len(samples) // 4
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    return [
        Row(measures.SOAK_LOST, lost),
        _lag(second, last),
        *(_memory(name, second, last) for name in last[-1].memory),
        _table("waiting", second, last, lambda one: one.store.waiting.size),
        _table("running", second, last, lambda one: one.store.running.size),
    ]


def _lag(second: Sequence[Sample], last: Sequence[Sample]) -> Row:
    before, after = (Histogram.together([one.lags for one in some]).lag(0.99) for some in (second, last))
    return Row(measures.SOAK_LAG, 100 * after / before if before else 0.0, f"{before:.1f} → {after:.1f} ms")


def _memory(name: str, second: Sequence[Sample], last: Sequence[Sample]) -> Row:
    before, after = (median([one.memory.get(name, 0.0) for one in some]) for some in (second, last))
    note = f"{name}: {before:.1f} → {after:.1f} MB"
    return Row(measures.SOAK_MEMORY, 100 * (after / before - 1) if before else 0.0, note)


def _table(name: str, second: Sequence[Sample], last: Sequence[Sample], size: Callable[[Sample], int]) -> Row:
    before, after = (median([size(one) for one in some]) for some in (second, last))
    note = f"{name}: {before / MEGABYTE:.1f} → {after / MEGABYTE:.1f} MB"
    return Row(measures.SOAK_TABLE, 100 * (after - before) / max(before, SMALL), note)
