"""What a soak samples repeatedly."""

from __future__ import annotations

from typing import Any

from oncue.bench import procfs
from oncue.bench.minutes import Sample, StoreState, Table
from oncue.bench.notes import BINS, Histogram, Noted
from oncue.clock import Clock
from oncue.domain.instants import SECOND, Instant
from oncue.engines.sql import statements

FINER = 10  # bins of a sample for each bin of a plot: percentiles within 3 %
NOTHING = Noted([], []).histogram(BINS * FINER)

_SQL = statements("oncue.bench")


class Sampling:
    """`add` takes runs; `sample` closes an interval of them."""

    def __init__(self, connection: Any, pid: int, clock: Clock, before: StoreState, first: Instant) -> None:
        self.samples: list[Sample] = []
        self._connection = connection
        self._pid = pid
        self._clock = clock
        self._store = before
        self.first = first
        self._since = first
        self._runs, self._lags, self._longest = 0, NOTHING, 0.0

    @classmethod
    async def begun(cls, connection: Any, pid: int, clock: Clock, first: Instant) -> Sampling:
        return cls(connection, pid, clock, await _store_state(connection), first)

    def add(self, noted: Noted) -> None:
        if noted:
            self._runs += len(noted)
            self._lags = Histogram.together([self._lags, noted.histogram(BINS * FINER)])
            self._longest = max(self._longest, noted.lag(1))

    async def sample(self) -> None:
        now, store = self._clock.now(), await _store_state(self._connection)
        self.samples.append(
            Sample(
                (now - self.first) / SECOND,
                (now - self._since) / SECOND,
                self._runs,
                self._lags,
                self._longest,
                _memory(self._pid),
                store,
                store.wal - self._store.wal,
            )
        )
        self._store, self._since = store, now
        self._runs, self._lags, self._longest = 0, NOTHING, 0.0


def _memory(pid: int) -> dict[str, float]:
    if not procfs.readable():
        return {}
    own, others = procfs.own_and_others(pid)
    return {"up": round(own, 2), "worker": round(others, 2)}


async def _store_state(connection: Any) -> StoreState:
    found = await connection.fetchrow(_SQL["postgres_state"])
    waiting, running = (
        Table(found[name], found[f"{name}_dead"], found[f"{name}_vacuums"], found[f"{name}_ago"])
        for name in ("waiting", "running")
    )
    return StoreState(waiting, running, found["history"], found["pieces"], found["database"], found["wal"])
