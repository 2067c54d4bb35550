"""Counts are plain rows: there is one writer, so none of them is contended."""

from __future__ import annotations

from collections import Counter as Tally

from oncue.engines.port import Count
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection

_SQL = statements("oncue.engines.sqlite")
Counted = Tally[tuple[int, int, Count]]


def count(db: Connection, tally: Counted) -> None:
    if tally:
        db.executemany(_SQL["count"], [(*what, n) for what, n in tally.items()])
