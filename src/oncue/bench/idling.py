"""`idle`: what `oncue up` takes while there is nothing to do. From /proc, of it and all it started."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from oncue.bench import measures
from oncue.bench.measures import Row, Step
from oncue.bench.options import Options
from oncue.bench.stand import Stand
from oncue.domain.instants import SECOND, Duration, Instant

PROC = Path("/proc")
CALM = Duration(2 * SECOND)  # after a start, or after work


async def idle(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Fresh when it is asked for the first time; later, beside that."""
    if not PROC.joinpath("self", "stat").exists():
        return []
    when = "fresh" if stand.fresh_memory is None else f"after {stand.noted:,} runs"
    await stand.until(Instant(stand.clock.now() + CALM), "idle", step)
    before, began = _ticks(stand.up.pid), stand.clock.monotonic()
    await stand.until(Instant(stand.clock.now() + options.idle_seconds * SECOND), "idle", step)
    after, ended = _ticks(stand.up.pid), stand.clock.monotonic()
    busy = sum(ticks - before.get(pid, 0) for pid, ticks in after.items()) / os.sysconf("SC_CLK_TCK")
    share, memory = 100 * busy * SECOND / (ended - began), _megabytes(stand.up.pid)
    rows = [Row(measures.IDLE_PROCESSOR, share, when), Row(measures.IDLE_MEMORY, memory, when)]
    if stand.fresh_memory is None:
        stand.fresh_memory = memory
        return rows
    grown = 100 * (memory / stand.fresh_memory - 1)
    return [*rows, Row(measures.IDLE_GROWTH, grown, f"{when}; 5 % is none")]


def _ticks(pid: int) -> dict[int, int]:
    """Processor time of a process and of each of its descendants."""
    return {one: sum(map(int, stat[11:13])) for one, stat in family(pid).items()}


def _megabytes(pid: int) -> float:
    """Resident memory of a process and its descendants. What they share is counted for each."""
    return sum(int(stat[21]) for stat in family(pid).values()) * os.sysconf("SC_PAGE_SIZE") / 2**20


def family(pid: int) -> dict[int, list[str]]:
    """A process and its descendants, each with what /proc/PID/stat has after the name: state, parent, …"""
    stats = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended while we looked
                # The name stands in brackets and may hold anything, brackets too.
                stats[int(entry.name)] = entry.joinpath("stat").read_text().rpartition(")")[2].split()
    found = [pid]
    for one in found:
        found += [child for child, stat in stats.items() if int(stat[1]) == one]
    return {one: stats[one] for one in found if one in stats}
