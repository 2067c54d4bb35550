"""Counts up to a limit: sums over the rows that were looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from oncue.domain.job import JobStatus
from oncue.domain.run import State, Status
from oncue.engines.listed import Counts

ENDED = frozenset(Status[state.name] for state in State if state.final)


def counts_of(found: Iterable[tuple[str, str, int]], most: int) -> Counts:
    """`found`: of a kind (job, run, letter), in a status, so many; the same may come more than once."""
    sums = Counter[tuple[str, str]]()
    for kind, status, n in found:
        sums[kind, status] += n
    return Counts(
        {status: min(sums["job", status], most) for status in JobStatus},
        {status: min(sums["run", status], most) for status in Status},
        min(sums["letter", ""], most),
        sum(sums["run", status] for status in Status if status not in ENDED) < most,
        sum(sums["run", status] for status in ENDED) < most,
    )
