"""What a process and all that it started take of the machine, from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def readable() -> bool:
    return PROC.joinpath("self", "stat").exists()


def busy_seconds(pid: int) -> float:
    """Processor time of a process and its descendants, also of those that have ended: then it is their parent's."""
    ticks = sum(sum(map(int, stat[11:15])) for stat in family(pid).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    """Resident memory of a process and its descendants. What they share is counted for each."""
    return sum(_megabytes(stat) for stat in family(pid).values())


def own_and_others(pid: int) -> tuple[float, float]:
    """Resident memory of a process in megabytes, and that of its descendants."""
    found = {one: _megabytes(stat) for one, stat in family(pid).items()}
    own = found.pop(pid, 0.0)
    return own, sum(found.values())


def _megabytes(stat: list[str]) -> float:
    return int(stat[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


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
