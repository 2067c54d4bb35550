"""`idle`: what `oncue up` and all the processes it started use while there is nothing to do."""

from __future__ import annotations

from oncue.bench import measures, procfs
from oncue.bench.measures import Measure, Row, Step
from oncue.bench.options import Options
from oncue.bench.running import drained
from oncue.bench.stand import Stand
from oncue.domain.instants import SECOND, Duration, Instant

SETTLE_TIME = Duration(2 * SECOND)  # after a start, or after work, before measuring


async def idle(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Measure a fresh process the first time; later, compare with that, and whether more runs leave it unchanged."""
    if not procfs.readable():
        return []
    pid, when = stand.door.pid, "fresh" if stand.fresh_memory is None else f"after {stand.noted:,} runs"
    await stand.until(Instant(stand.clock.now() + SETTLE_TIME), "idle", step)
    before, began = procfs.busy_seconds(pid), stand.clock.monotonic()
    await stand.until(Instant(stand.clock.now() + options.idle_seconds * SECOND), "idle", step)
    busy, ended = procfs.busy_seconds(pid) - before, stand.clock.monotonic()
    share, memory = 100 * busy * SECOND / (ended - began), procfs.megabytes(pid)
    rows = [Row(measures.IDLE_PROCESSOR, share, when), Row(measures.IDLE_MEMORY, memory, when)]
    if stand.fresh_memory is None:
        stand.fresh_memory = memory
        return rows
    rows.append(_grown(measures.IDLE_GROWTH, stand.fresh_memory, memory, when))
    await drained(stand, options.more, step)
    await stand.until(Instant(stand.clock.now() + SETTLE_TIME), "idle", step)
    more = f"after {options.more:,} runs more"
    return [*rows, _grown(measures.IDLE_GOING_ON, memory, procfs.megabytes(pid), more)]


def _grown(measure: Measure, before: float, after: float, when: str) -> Row:
    return Row(measure, 100 * (after / before - 1), f"{when}; 5 % is none")
