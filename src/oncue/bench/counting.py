"""`counting`: what metrics cost a worker, by the same drain with and without them."""

from __future__ import annotations

from statistics import median

from oncue.bench import measures, procfs
from oncue.bench.measures import Row, Step
from oncue.bench.options import Options
from oncue.bench.processes import BenchFailed
from oncue.bench.running import drained
from oncue.bench.scaling import staffed
from oncue.bench.stand import WORK, Stand

WARM_UP = 2_000  # runs of each worker
ROUNDS = 9


async def counting(stand: Stand, options: Options, step: Step) -> list[Row]:
    if not procfs.readable():
        raise BenchFailed("counting needs /proc, to read the processor time of a worker")
    for worker in stand.processes.of("worker"):  # each round has its own
        stand.processes.stop(worker)
    spent: dict[bool, list[float]] = {True: [], False: []}
    rounds = options.rounds or ROUNDS
    for number in range(rounds):
        for counts in (True, False) if number % 2 else (False, True):  # neither always goes first
            spent[counts].append(await _round(stand, options, step, counts))
    with_it, without = median(spent[True]), median(spent[False])
    note = f"median of {rounds} rounds, {options.runs:,} runs each"
    return [
        Row(measures.COUNTING, with_it, note),
        Row(measures.NOT_COUNTING, without, note),
        Row(measures.COUNTING_COST, 100 * (with_it / without - 1), f"{with_it - without:+.2f} µs/run"),
    ]


async def _round(stand: Stand, options: Options, step: Step, counts: bool) -> float:
    """Return the processor time of a new worker, in microseconds per run."""
    worker = stand.processes.start("worker", *WORK, "--counting" if counts else "--no-counting")
    await staffed(stand, 1, step)
    await drained(stand, WARM_UP, step)
    before: list[float] = []
    await drained(stand, options.runs, step, lambda: before.append(procfs.busy_seconds(worker.pid)))
    spent = procfs.busy_seconds(worker.pid) - before[0]
    stand.processes.stop(worker)
    return 1e6 * spent / options.runs
