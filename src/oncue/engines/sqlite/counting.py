"""Counts are plain rows: there is one writer, so none of them is contended. Series are folded from what is appended."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable

from oncue.domain.instants import Instant
from oncue.domain.run import Settlement
from oncue.engines.port import Count, Measure
from oncue.engines.series import LAG_UNDER, RUN_UNDER, minute_of
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, fetch

_SQL = statements("oncue.engines.sqlite")
Counted = Tally[tuple[int, int, Count]]
Line = tuple[int, int, str, int, int]  # user, class, what, bucket, how many


def count(db: Connection, tally: Counted, now: Instant | None) -> None:
    """Count what happened `now`. None: at a time that no series tells of."""
    if tally:
        db.executemany(_SQL["count"], [(*what, n) for what, n in tally.items()])
        if now is not None:
            append(db, [(*what, 0, n) for what, n in tally.items()], now)


def append(db: Connection, lines: Iterable[Line], now: Instant) -> None:
    at = minute_of(now)
    db.executemany(_SQL["append"], [(*line, at) for line in lines])


def measured(settlements: Iterable[Settlement]) -> list[Line]:
    """Return how late attempts began and how long they took. By sorting: that costs less than a look-up for each."""
    by_class: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for settled in settlements:
        started = settled.started_at
        if started is not None:
            run = settled.run
            due, free_at = run.due, run.free_at
            lags, took = by_class[run.uid, run.class_id]
            lags.append(started - (due if free_at is None or free_at < due else free_at))
            took.append(settled.ended_at - started)
    lines: list[Line] = []
    for (uid, class_id), (lags, took) in by_class.items():
        for what, values, under in ((Measure.LAG, lags, LAG_UNDER), (Measure.RUN, took, RUN_UNDER)):
            lines += [(uid, class_id, what, i, n) for i, n in enumerate(_histogram(values, under)) if n]
    return lines


def _histogram(values: list[int], under: list[int]) -> Iterable[int]:
    values.sort()
    before = 0
    for edge in under:
        reached = bisect_left(values, edge, before)
        yield reached - before
        before = reached
        if reached == len(values):
            return
    yield len(values) - before


def fold(db: Connection, limit: int) -> int:
    """Add appended counts to the series; return how many."""
    [(first, last, n)] = fetch(db, _SQL["fold_range"], (limit,))
    if n:
        for statement in ("fold", "fold_by_user"):
            db.execute(_SQL[statement], (first, last))
        db.execute("delete from tally where rowid between ? and ?", (first, last))
    return int(n)
