"""`scale`: the same drain with one, two and four workers on one database, and where the processor time goes.

`counting`: what metrics cost a worker, by the same drain with and without them.

`fleet`: what many workers on one PostgreSQL cost, idle and at a steady trickle, and how late they start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from typing import Any

import msgspec

from oncue.domain.instants import SECOND, Duration, Instant
from oncue.engines.sql import statements
from oncue.testing.postgres_binaries import find_binaries
from oncue_bench import measures, procfs
from oncue_bench.measures import Measure, Options, Row, Step
from oncue_bench.processes import BenchFailed, Processes
from oncue_bench.stand import POLL_INTERVAL, PROGRESS_TIMEOUT, WORK, Stand, placed, reached, single_now
from oncue_bench.usual_parts import SPREAD_CONNECTIONS, drained

# ---------------------------------------------------------------------------------------------------------------- scale

WARM_UP = 2_000  # runs per worker


class Spent(msgspec.Struct, frozen=True):
    """Processor time, in seconds."""

    workers: float
    store: float
    rest: float


@asynccontextmanager
async def roles_apart(engine: str, _: Options) -> AsyncIterator[Stand]:
    """Run `oncue api`, `oncue scheduler` and one `oncue worker` in this block, each in its own process."""
    with placed(engine) as (store, folder), Processes(store.url, folder) as processes:
        async with reached(store, processes, processes.start("api", "--port", "0"), folder) as stand:
            processes.start("scheduler")
            await staffed(stand, 1, lambda *_: None)
            yield stand


async def scale(stand: Stand, options: Options, step: Step) -> list[Row]:
    rows: list[Row] = []
    before: list[Spent] = []
    alone = 0.0
    for count in options.workers:
        await staffed(stand, count, step)
        await drained(stand, WARM_UP * count, step)
        found = await drained(stand, options.runs, step, lambda: before.append(_spent(stand)))
        note = f"{count} workers" if count > 1 else "1 worker"
        rows.append(Row(measures.SCALE, found.rate, note, started=found.started))
        if alone:
            rows.append(Row(measures.SCALE_RATIO, 100 * found.rate / alone, note))
        alone = alone or found.rate
        rows += _processor(before[-1], _spent(stand), options.runs, note)
    return rows


async def staffed(stand: Stand, count: int, step: Step) -> None:
    """Wait until this many workers are registered."""
    for _ in range(count - len(stand.processes.of("worker"))):
        stand.processes.start("worker", *WORK)
    before, since = 0, stand.clock.monotonic()
    while (there := len(await stand.client.workers.list())) < count:
        step("starting workers", there, count)
        stand.processes.check()
        if there > before:
            before, since = there, stand.clock.monotonic()
        if stand.clock.monotonic() - since > PROGRESS_TIMEOUT:
            raise stand.processes.failure(f"{there} of {count} workers are there, and no other for a minute")
        await stand.clock.sleep(Duration(5 * POLL_INTERVAL))


def _spent(stand: Stand) -> Spent:
    if not procfs.readable():
        return Spent(0, 0, 0)
    workers, rest = (
        sum(procfs.busy_seconds(process.pid) for process in stand.processes.of(*roles))
        for roles in (("worker",), ("api", "scheduler"))
    )
    return Spent(workers, procfs.busy_seconds(stand.store.pid) if stand.store.pid else 0.0, rest)


def _processor(before: Spent, after: Spent, runs: int, note: str) -> list[Row]:
    """Measure from the resume of the queue to the last settled run."""
    if not procfs.readable():
        return []
    return [
        Row(measures.SCALE_WORKERS, 1e6 * (after.workers - before.workers) / runs, note),
        Row(measures.SCALE_STORE, 1e6 * (after.store - before.store) / runs, note),
        Row(measures.SCALE_REST, 1e6 * (after.rest - before.rest) / runs, note),
    ]


# ------------------------------------------------------------------------------------------------------------- counting

COUNTING_ROUNDS = 9


async def counting(stand: Stand, options: Options, step: Step) -> list[Row]:
    if not procfs.readable():
        raise BenchFailed("counting needs /proc, to read the processor time of a worker")
    for worker in stand.processes.of("worker"):  # each round has its own
        stand.processes.stop(worker)
    spent: dict[bool, list[float]] = {True: [], False: []}
    rounds = options.rounds or COUNTING_ROUNDS
    for number in range(rounds):
        for counts in (True, False) if number % 2 else (False, True):  # neither always goes first
            spent[counts].append(await _counted(stand, options, step, counts))
    with_it, without = median(spent[True]), median(spent[False])
    note = f"median of {rounds} rounds, {options.runs:,} runs each"
    return [
        Row(measures.COUNTING, with_it, note),
        Row(measures.NOT_COUNTING, without, note),
        Row(measures.COUNTING_COST, 100 * (with_it / without - 1), f"{with_it - without:+.2f} µs/run"),
    ]


async def _counted(stand: Stand, options: Options, step: Step, counts: bool) -> float:
    """Return the processor time of a new worker, in microseconds per run."""
    worker = stand.processes.start("worker", *WORK, "--counting" if counts else "--no-counting")
    await staffed(stand, 1, step)
    await drained(stand, WARM_UP, step)
    before: list[float] = []
    await drained(stand, options.runs, step, lambda: before.append(procfs.busy_seconds(worker.pid)))
    spent = procfs.busy_seconds(worker.pid) - before[0]
    stand.processes.stop(worker)
    return 1e6 * spent / options.runs


# ---------------------------------------------------------------------------------------------------------------- fleet

FLEET_ROUNDS = 3
SETTLE_TIME = Duration(4 * SECOND)  # after a start, before measuring: more than a heartbeat
COUNTER = "pg_stat_statements"
CONNECTIONS = 800  # that the server allows
FLEET_WARM_UP = 20  # runs for each worker

_SQL = statements("oncue_bench")

Case = tuple[int, int]  # workers, and runs a second


class Reading(msgspec.Struct, frozen=True):
    """What has been used so far."""

    at: Instant
    statements: int
    workers: float
    store: float


class Found(msgspec.Struct, frozen=True):
    """What one case took, by measure."""

    values: Mapping[Measure, float]


@asynccontextmanager
async def fleet_stand(engine: str, options: Options) -> AsyncIterator[Stand]:
    """Run `oncue api` and `oncue scheduler` in this block, with one `oncue worker` to begin with."""
    async with _stand(engine, None) as stand:
        await staffed(stand, 1, lambda *_: None)
        yield stand


@asynccontextmanager
async def _stand(engine: str, source: str | None) -> AsyncIterator[Stand]:
    counted = {"shared_preload_libraries": COUNTER, "pg_stat_statements.max": 10_000} if _has_counter() else {}
    settings = {"max_connections": CONNECTIONS, **counted}
    with placed(engine, settings) as (store, folder), Processes(store.url, folder, source) as processes:
        async with reached(store, processes, processes.start("api", "--port", "0"), folder) as stand:
            processes.start("scheduler")
            yield stand


def _has_counter() -> bool:
    binaries = find_binaries(os.environ.get("ONCUE_TEST_POSTGRES", ""))
    return binaries is not None and any(binaries.folder.parent.rglob(f"{COUNTER}.so"))


async def fleet(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Measure each case of each version once in every round, one right after the other."""
    if not procfs.readable():
        raise BenchFailed("fleet needs /proc, to read the processor time of workers")
    stand.processes.stop(*stand.processes.of("worker"))
    found: dict[tuple[Case, str | None], list[Found]] = {}
    async with AsyncExitStack() as others:
        stands: dict[str | None, Stand] = {None: stand}
        if options.beside:
            stands[options.beside] = await others.enter_async_context(_stand("postgres", options.beside))
        for number in range(options.rounds or FLEET_ROUNDS):
            for source in (stands, reversed(stands))[number % 2]:  # neither always goes first
                for case, one in (await _round(stands[source], options, step)).items():
                    found.setdefault((case, source), []).append(one)
    return [row for case in dict(found) if case[1] is None for row in _rows(case[0], options.beside, found)]


async def _round(stand: Stand, options: Options, step: Step) -> dict[Case, Found]:
    """Start workers until there are as many as the largest case has; measure at each number; stop all."""
    found: dict[Case, Found] = {}
    connection = await _connected(stand)
    try:
        for workers in options.fleet:
            await staffed(stand, workers, step)
            await _load(stand, FLEET_WARM_UP * workers, 100, f"{workers} workers: warming up", step)
            for rate in options.fleet_rates:
                what = f"{workers} workers, {rate}/s"
                await stand.until(Instant(stand.clock.now() + SETTLE_TIME), what, step)
                found[workers, rate] = await _case(stand, connection, rate, options.fleet_seconds, what, step)
    finally:
        await connection.close()
        stand.processes.stop(*stand.processes.of("worker"))
    return found


async def _connected(stand: Stand) -> Any:
    import asyncpg

    connection = await asyncpg.connect(stand.store.url)
    if _has_counter():
        await connection.execute(f"create extension if not exists {COUNTER}")
    return connection


async def _case(stand: Stand, connection: Any, rate: int, seconds: int, what: str, step: Step) -> Found:
    before = await _read(stand, connection)
    if rate:
        await _send(stand, rate * seconds, rate)
    else:
        await stand.until(Instant(stand.clock.now() + seconds * SECOND), what, step)
    after, there = await _read(stand, connection), await connection.fetchval(_SQL["postgres_connections"])
    passed = (after.at - before.at) / SECOND
    values = {
        measures.FLEET_STATEMENTS: (after.statements - before.statements) / passed,
        measures.FLEET_WORKERS: 100 * (after.workers - before.workers) / passed,
        measures.FLEET_STORE: 100 * (after.store - before.store) / passed,
        measures.FLEET_CONNECTIONS: float(there),
    }
    if rate:
        noted = await stand.started(rate * seconds, what, step)
        values |= {measures.FLEET_LAGS.p50: noted.lag(0.5), measures.FLEET_LAGS.p99: noted.lag(0.99)}
    return Found(values)


async def _load(stand: Stand, count: int, rate: int, what: str, step: Step) -> None:
    await asyncio.gather(_send(stand, count, rate), stand.started(count, what, step))


async def _send(stand: Stand, count: int, rate: int) -> None:
    """Create so many jobs that are due at once, each by a request of its own."""
    begin = stand.clock.now()
    requests = [(Instant(begin + n * SECOND // rate), single_now(stand)) for n in range(count)]
    await stand.send_on_time(requests, SPREAD_CONNECTIONS)


async def _read(stand: Stand, connection: Any) -> Reading:
    counted: int = await connection.fetchval(_SQL["postgres_calls" if _has_counter() else "postgres_transactions"])
    pids = [process.pid for process in stand.processes.of("worker")]
    assert stand.store.pid is not None
    spent = procfs.busy_seconds(*pids), procfs.busy_seconds(stand.store.pid)
    return Reading(stand.clock.monotonic(), counted, *spent)


def _rows(case: Case, beside: str | None, found: Mapping[tuple[Case, str | None], list[Found]]) -> list[Row]:
    """Return the medians of a case, each with that of the other version."""
    workers, rate = case
    note = f"{workers} {'worker' if workers == 1 else 'workers'}, {f'{rate}/s' if rate else 'idle'}"
    rows = []
    for measure in found[case, None][0].values:
        value = median(one.values[measure] for one in found[case, None])
        told = note
        if measure is measures.FLEET_STATEMENTS and not _has_counter():
            told += "; transactions, as the server does not count statements"
        if beside:
            other = median(one.values[measure] for one in found[case, beside])
            told += f"; beside {other:,.1f}: {100 * value / other if other else 0:.0f} %"
        rows.append(Row(measure, value, told))
    return rows
