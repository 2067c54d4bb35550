"""`GET /metrics/cluster`: the state of the whole cluster, read from the database when somebody asks.

An answer is shared for a second and not longer: behind a load balancer an older answer of another process would look
like a counter that was reset.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from oncue.api.scaling import Scaling
from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.domain.placement import read_offer
from oncue.domain.self_audit import TURN, Check, read_progress
from oncue.engines.outbox_values import OutboxState
from oncue.engines.port import Count, Engine, Gauges, QueueGauge
from oncue.metrics import cluster_table as table
from oncue.metrics.exposition import exposition
from oncue.metrics.metric import OTHER, Metric
from oncue.metrics.numbers import Bounds, Series

SHARED_FOR = Duration(SECOND)
READ_WITHIN = 2.0  # seconds
SIZES_INTERVAL = Duration(5 * MINUTE)
MOST_QUEUES = 100  # that workers take runs from; the others are one

ENDINGS = (Count.SUCCEEDED, Count.DEAD, Count.CANCELLED, Count.EXPIRED, Count.WITHDRAWN)
WITHOUT_RUN = (Count.SKIPPED, Count.COALESCED, Count.MISSED)


class ClusterMetrics:
    """Requests at the same time share one read."""

    def __init__(self, engine: Engine, clock: Clock, retention: Duration, partition_span: Duration) -> None:
        self._engine = engine
        self._clock = clock
        self._retention = retention
        self._partition_span = partition_span
        self._bounds = Bounds()
        self._queues: dict[str, None] = {}  # that workers take runs from, or took
        self._reading: asyncio.Task[bytes] | None = None
        self._read_at: Instant | None = None  # by the monotonic clock
        self._sizes: Mapping[str, int] = {}
        self._sizes_at = clock.monotonic()

    async def text(self) -> bytes:
        now = self._clock.monotonic()
        if self._reading is None or (self._reading.done() and not self._is_fresh(now)):
            self._read_at = now
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(self._reading)

    def _is_fresh(self, now: Instant) -> bool:
        return self._read_at is not None and now - self._read_at < SHARED_FOR

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout(READ_WITHIN):
                gauges = await self._engine.history.gauges(self._clock.now())
                outbox = await self._engine.outbox.state()
                await self._read_sizes()
        except (StoreUnavailable, TimeoutError):
            self._read_at = None  # it may be available again any moment
            return exposition(table.CLUSTER_METRICS, [_one(table.UP, 0)])
        return exposition(table.CLUSTER_METRICS, self._series(gauges, outbox))

    async def _read_sizes(self) -> None:
        if self._clock.monotonic() >= self._sizes_at:
            self._sizes = await self._engine.history.sizes()
            self._sizes_at = Instant(self._clock.monotonic() + SIZES_INTERVAL)

    def _series(self, gauges: Gauges, outbox: OutboxState) -> Iterator[Series]:
        yield _one(table.UP, 1)
        yield _one(table.READ_AT, gauges.at / SECOND)
        yield from self._runs(gauges)
        yield from self._of_queues(gauges)
        yield from _planning(gauges)
        yield from _fleet(gauges)
        yield from _audit(gauges)
        yield from _notices(gauges)
        if self._engine.capabilities.outbox:
            yield from _outbox(outbox, gauges.at)
        yield from _database(gauges)
        yield _one(table.HISTORY_KEEP, self._retention / SECOND)
        yield _one(table.HISTORY_WIDTH, self._partition_span / SECOND)
        yield from (_one(table.STORE_BYTES, n, name) for name, n in sorted(self._sizes.items()))

    def _runs(self, gauges: Gauges) -> Iterator[Series]:
        """The sums of the database's counters, by task."""
        sums: Counter[tuple[str, str]] = Counter()
        for task, what in sorted(gauges.counts):
            sums[self._task(task), what] += gauges.counts[task, what]
        letters: Counter[str] = Counter()
        for task, n in sorted(gauges.dead_letters.items()):
            letters[self._task(task)] += n
        for task in sorted({task for task, _ in sums}):
            yield _one(table.CREATED, sums[task, Count.CREATED], task)
            yield from (_one(table.ENDED, sums[task, ending], task, ending) for ending in ENDINGS)
            yield _one(table.RETRIED, sums[task, Count.RETRIED], task)
            yield _one(table.LOST, sums[task, Count.LOST], task)
            yield _one(table.DEAD_LETTERS, letters[task], task)
        for outcome in WITHOUT_RUN:
            yield _one(table.OCCURRENCES, sum(n for (_, what), n in sums.items() if what == outcome), outcome)

    def _task(self, name: str) -> str:
        return self._bounds.fit(table.CREATED, (name,))[0]

    def _of_queues(self, gauges: Gauges) -> Iterator[Series]:
        """Those that workers take runs from have a label each: users may name any number of others."""
        offers = [read_offer(worker.info) for worker in gauges.live_workers]
        for queue in sorted({queue for offer in offers if offer is not None for queue in offer.queues}):
            if len(self._queues) < MOST_QUEUES:
                self._queues[queue] = None
        found, scaling = {one.queue: one for one in gauges.queues}, Scaling(gauges)
        for name in self._queues:
            yield from _queue(name, [found[name]] if name in found else [])
            yield _one(table.DESIRED, scaling.of(name)["desired"], name)
        if others := [one for name, one in found.items() if name not in self._queues]:
            yield from _queue(OTHER, others)


def _one(metric: Metric, value: float, *labels: str) -> Series:
    return Series(metric.name, labels, (value,))


def _queue(name: str, found: Sequence[QueueGauge]) -> Iterator[Series]:
    yield _one(table.QUEUE_OPEN, sum(one.open for one in found), name)
    yield _one(table.QUEUE_DUE, sum(one.due for one in found), name)
    yield _one(table.QUEUE_DUE_MORE, any(one.more for one in found), name)
    yield _one(table.QUEUE_OLDEST, max((one.oldest_due for one in found), default=0) / SECOND, name)
    yield _one(table.QUEUE_PAUSED, bool(found) and all(one.paused for one in found), name)


def _planning(gauges: Gauges) -> Iterator[Series]:
    yield _one(table.PLANNER_LAG, gauges.planner_lag / SECOND)
    yield _one(table.HELD_OLDEST, gauges.held_oldest / SECOND)
    yield _one(table.ORPHANS, gauges.orphans)
    yield _one(table.WITHOUT_WORKER, len(gauges.tasks_without_worker))


def _fleet(gauges: Gauges) -> Iterator[Series]:
    yield from (_one(table.PROCESSES, n, *labels) for labels, n in sorted(gauges.processes.items()))
    yield from (_one(table.WORKERS, n, state) for state, n in gauges.worker_states.items())


def _audit(gauges: Gauges) -> Iterator[Series]:
    yield from (_one(table.FINDINGS, gauges.findings.get(check, 0), check) for check in Check)
    turn = gauges.turns.get(TURN)
    if turn is not None:
        progress = read_progress(turn.position)
        yield from (_one(table.AUDIT_CHECKED, n, check) for check, n in sorted(progress.checked.items()))
        if progress.passed_at is not None:
            yield _one(table.AUDIT_PASS, progress.passed_at / SECOND)


def _notices(gauges: Gauges) -> Iterator[Series]:
    waiting, oldest = gauges.notices
    yield _one(table.NOTICES_WAITING, waiting)
    yield _one(table.NOTICES_OLDEST, oldest / SECOND)


def _outbox(outbox: OutboxState, now: Instant) -> Iterator[Series]:
    yield _one(table.OUTBOX_ROWS, outbox.waiting, "waiting")
    yield _one(table.OUTBOX_ROWS, outbox.refused, "refused")
    yield _one(table.OUTBOX_OLDEST, 0 if outbox.oldest is None else max(0, now - outbox.oldest) / SECOND)


def _database(gauges: Gauges) -> Iterator[Series]:
    if gauges.oldest_transaction is not None:
        yield _one(table.OLDEST_TRANSACTION, gauges.oldest_transaction / SECOND)
    if gauges.history_from is not None:
        yield _one(table.HISTORY_OLDEST, gauges.history_from / SECOND)
