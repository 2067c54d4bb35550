"""What a process and its descendants use of the machine, from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def readable() -> bool:
    return PROC.joinpath("self", "stat").exists()


def busy_seconds(*pids: int) -> float:
    """Return the processor time of processes and their descendants, also of ended ones: it counts for their parent."""
    ticks = sum(sum(map(int, stat[11:15])) for stat in family(*pids).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    """Return the resident memory of a process and its descendants. Shared memory counts for each."""
    return sum(_megabytes(stat) for stat in family(pid).values())


def own_and_others(pid: int) -> tuple[float, float]:
    """Return the resident memory of a process in megabytes, and that of its descendants."""
    found = {one: _megabytes(stat) for one, stat in family(pid).items()}
    own = found.pop(pid, 0.0)
    return own, sum(found.values())


def _megabytes(stat: list[str]) -> float:
    return int(stat[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def family(*pids: int) -> dict[int, list[str]]:
    """Return processes and their descendants, each with the fields of /proc/PID/stat after the name: state, …"""
    stats = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                # The name is in brackets and may contain anything, brackets too.
                stats[int(entry.name)] = entry.joinpath("stat").read_text().rpartition(")")[2].split()
    children: dict[int, list[int]] = {}
    for child, stat in stats.items():
        children.setdefault(int(stat[1]), []).append(child)
    found = list(pids)
    for one in found:
        found += children.get(one, [])
    return {one: stats[one] for one in found if one in stats}
