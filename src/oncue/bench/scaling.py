"""`scale`: the same drain with one, two and four workers on one database, and where the processor time goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from oncue.bench import measures, procfs
from oncue.bench.measures import Row, Step
from oncue.bench.options import Options
from oncue.bench.processes import Processes
from oncue.bench.running import drained
from oncue.bench.stand import POLL_INTERVAL, PROGRESS_TIMEOUT, WORK, Stand, placed, reached
from oncue.domain.instants import Duration

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
