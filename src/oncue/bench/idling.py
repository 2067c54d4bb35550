"""`idle`: what `oncue up` takes while there is nothing to do: it and all it started."""

from __future__ import annotations

from oncue.bench import measures, procfs
from oncue.bench.measures import Row, Step
from oncue.bench.options import Options
from oncue.bench.running import drained
from oncue.bench.stand import Stand
from oncue.domain.instants import SECOND, Duration, Instant

CALM = Duration(2 * SECOND)  # after a start, or after work


async def idle(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Fresh when it is asked for the first time; later, whether more runs leave it as it is."""
    if not procfs.readable():
        return []
    pid, when = stand.door.pid, f"after {stand.noted:,} runs" if stand.noted else "fresh"
    await stand.until(Instant(stand.clock.now() + CALM), "idle", step)
    before, began = procfs.busy_seconds(pid), stand.clock.monotonic()
    await stand.until(Instant(stand.clock.now() + options.idle_seconds * SECOND), "idle", step)
    busy, ended = procfs.busy_seconds(pid) - before, stand.clock.monotonic()
    share, memory = 100 * busy * SECOND / (ended - began), procfs.megabytes(pid)
    rows = [Row(measures.IDLE_PROCESSOR, share, when), Row(measures.IDLE_MEMORY, memory, when)]
    if not stand.noted:
        return rows
    await drained(stand, options.more, step)
    await stand.until(Instant(stand.clock.now() + CALM), "idle", step)
    grown = 100 * (procfs.megabytes(pid) / memory - 1)
    return [*rows, Row(measures.IDLE_GROWTH, grown, f"after {options.more:,} runs more; 5 % is none")]
