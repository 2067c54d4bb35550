"""`soak`: a steady load for long, with history growing and retention dropping it. All measures have to stay flat.

Whether a soak was flat: compares its last quarter with its second. The first is for warming up.

What a soak samples repeatedly.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from oncue.client import Finding
from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant, show_duration
from oncue.domain.self_audit import TURN, read_progress
from oncue.engines.sql import statements
from oncue_bench import measures, procfs
from oncue_bench.measures import Options, Row, Step
from oncue_bench.minutes import MEGABYTE, SAMPLES_A_MINUTE, Sample, StoreState, Table, minute, minutes
from oncue_bench.notes import BINS, Histogram, Noted, Series
from oncue_bench.processes import Processes
from oncue_bench.stand import AHEAD, PROGRESS_TIMEOUT, WORK, Stand, batch_due, placed, reached, steady
from oncue_bench.usual_parts import BATCH_CONNECTIONS

SAMPLES = 40  # at least
SAMPLE_INTERVAL = Duration(10 * SECOND)  # between two samples, at most
READS_PER_SAMPLE = 10  # reads of the notes
DEFAULT_VACUUM_FROM = 10_000  # runs between two samples: with more, tables keep their default vacuum settings


class Open:
    """Runs that were created and have not started yet, by their due instant."""

    def __init__(self) -> None:
        self._runs: Counter[int] = Counter()
        self.created = 0

    def create(self, dues: Sequence[int]) -> None:
        self._runs.update(dues)
        self.created += len(dues)

    def start(self, dues: Sequence[int]) -> None:
        self._runs.subtract(dues)
        for due in set(dues):
            if not self._runs[due]:
                del self._runs[due]

    @property
    def left(self) -> int:
        return sum(count for count in self._runs.values() if count > 0)

    @property
    def again(self) -> int:
        """Return how many starts were of runs that had started before."""
        return -sum(count for count in self._runs.values() if count < 0)


@asynccontextmanager
async def narrow_history(engine: str, options: Options) -> AsyncIterator[Stand]:
    """Run `oncue up` with history kept for a fifth of the soak, in partitions a quarter as wide; maintained sooner if
    short.
    """
    length = _length(options)
    keep, every = max(SECOND, length // 5), max(1, min(60, length // SECOND // 30))
    width = max(SECOND, keep // 4)
    with (
        placed(engine, {"autovacuum_naptime": f"{every}s"}) as (store, folder),
        Processes(store.url, folder) as processes,
    ):
        history = ["--retention", f"{keep // MILLISECOND}ms", "--partition-span", f"{width // MILLISECOND}ms"]
        if options.history == "keep":
            history = []
        elif options.history == "archive":
            history += ["--archive", (folder / "archive").as_uri()]
        async with reached(store, processes, processes.start("up", "--port", "0", *history, *WORK), folder) as stand:
            yield stand


async def soak(stand: Stand, options: Options, step: Step) -> list[Row]:
    import asyncpg

    length, open_ = _length(options), Open()
    first = Instant((stand.clock.now() + AHEAD + SECOND) // MILLISECOND * MILLISECOND)
    connection = await asyncpg.connect(stand.store.url)
    try:
        await _tidy_sooner(connection, options)
        sampling = await Sampling.begun(connection, stand.door.pid, stand.clock, first)
        requests = _requests(stand, open_, first, options.rate, length // SECOND)
        sending = asyncio.create_task(stand.send_on_time(requests, BATCH_CONNECTIONS))
        try:
            await _watch(stand, sampling, open_, sending, length, step)
            await _rest(stand, open_, sending, step)
            audited = await _audited(stand, connection)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    finally:
        await connection.close()
    stand.again += open_.again
    return [*_rows(sampling, open_, options, length), audited]


def _length(options: Options) -> Duration:
    """Round to whole seconds."""
    return Duration(round(options.minutes * 60) * SECOND)


async def _tidy_sooner(connection: Any, options: Options) -> None:
    """Vacuum small loads sooner: it would be long before the first vacuum of a table, and until then it grows."""
    runs = options.rate * _length(options) // SECOND // SAMPLES
    if runs < DEFAULT_VACUUM_FROM:
        for table in ("waiting", "running"):
            await connection.execute(f"alter table {table} set (autovacuum_vacuum_threshold = {runs})")


def _requests(stand: Stand, open_: Open, first: Instant, rate: int, seconds: int) -> Iterator[tuple[Instant, bytes]]:
    """Encode each batch when the one before it was sent. A batch that cannot be sent in time is not sent at all."""
    for at, dues in steady(first, rate, seconds):
        if stand.clock.now() > first + seconds * SECOND:
            return
        open_.create(dues)
        yield at, batch_due(stand, dues)


async def _watch(
    stand: Stand, sampling: Sampling, open_: Open, sending: asyncio.Task[Any], length: Duration, step: Step
) -> None:
    """Sample from the due instant of the first run to that of the last."""
    every = min(SAMPLE_INTERVAL, length // SAMPLES)
    begin, count = sampling.first, length // every
    await stand.until(begin, "soak", step)
    moved = stand.clock.monotonic()
    for look in range(1, count * READS_PER_SAMPLE + 1):
        await stand.clock.sleep(Duration(max(0, begin + look * every // READS_PER_SAMPLE - stand.clock.now())))
        stand.processes.check()
        if sending.done():
            sending.result()  # raises why it ended, unless all was sent
        noted = stand.take()
        open_.start(noted.due)
        sampling.add(noted)
        if noted:
            moved = stand.clock.monotonic()
        elif stand.clock.monotonic() - moved > PROGRESS_TIMEOUT:
            raise stand.processes.failure(f"{open_.left:,} runs are waiting, and none has started for a minute")
        if look % READS_PER_SAMPLE == 0:
            await sampling.sample()
        step(f"soak: {_figures(sampling)}", stand.clock.now() - begin, length)


async def _rest(stand: Stand, open_: Open, sending: asyncio.Task[Any], step: Step) -> None:
    """Wait until every run has started, or none has for PROGRESS_TIMEOUT."""
    await sending
    moved = stand.clock.monotonic()
    while open_.left and stand.clock.monotonic() - moved < PROGRESS_TIMEOUT:
        step("waiting for the last runs", open_.created - open_.left, open_.created)
        stand.processes.check()
        await stand.clock.sleep(Duration(SECOND // 10))
        noted = stand.take()
        if noted:
            open_.start(noted.due)
            moved = stand.clock.monotonic()
    if not open_.left:
        await stand.settled(step)
        open_.start(stand.take().due)


async def _audited(stand: Stand, connection: Any) -> Row:
    position = await connection.fetchval("select position from turns where name = $1", TURN)
    findings = [one async for one in stand.client.findings()]
    return audited(findings, sum(read_progress(position or b"").checked.values()))


def audited(findings: Sequence[Finding], checked: int) -> Row:
    """Judge what the self-audit has found, also what holds again: there must be nothing."""
    each = ", ".join(f"{n:,} of {check}" for check, n in sorted(Counter(one.check for one in findings).items()))
    return Row(measures.SOAK_FINDINGS, len(findings), f"{each or 'none'}, {checked:,} objects checked")


def _figures(sampling: Sampling) -> str:
    """Summarise the minute that has begun, or just ended."""
    samples = sampling.samples
    if not samples:
        return "beginning"
    whole = (len(samples) - 1) // SAMPLES_A_MINUTE
    now = minute(samples[whole * SAMPLES_A_MINUTE :])
    return (
        f"minute {whole + 1}, {now.runs_per_second:,.0f} runs/s, p99 {now.lag_p99_ms:,.0f} ms, "
        f"{sum(now.memory_mb.values()):.0f} MB, waiting {now.store.waiting.size / MEGABYTE:.0f} MB"
    )


def _rows(sampling: Sampling, open_: Open, options: Options, length: Duration) -> list[Row]:
    samples = sampling.samples
    lags, whole = Histogram.together([one.lags for one in samples]), minute(samples)
    asked, long = f"{options.rate:,}/s asked for", f"for {show_duration(length)}"
    each = round(1_000 * samples[0].seconds)
    started = Series(each, tuple(one.runs for one in samples))
    return [
        Row(measures.SOAK_RATE, whole.runs_per_second, asked, minutes=minutes(samples)),
        Row(measures.SOAK.p50, whole.lag_p50_ms, long),
        Row(measures.SOAK.p99, whole.lag_p99_ms, long, lags=lags.coarse(FINER), started=started),
        Row(measures.SOAK.longest, whole.lag_max_ms, long),
        *judged(samples, open_.left),
    ]


# ------------------------------------------------------------------------------------------------------------- flatness

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


# -------------------------------------------------------------------------------------------------------------- samples

FINER = 10  # bins of a sample for each bin of a plot: percentiles within 3 %
NOTHING = Noted([], []).histogram(BINS * FINER)

_SQL = statements("oncue_bench")


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
                _memory_of(self._pid),
                store,
                store.wal - self._store.wal,
            )
        )
        self._store, self._since = store, now
        self._runs, self._lags, self._longest = 0, NOTHING, 0.0


def _memory_of(pid: int) -> dict[str, float]:
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
