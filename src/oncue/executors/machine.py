"""The machine's resources for this process: a worker's default offer, and the limit for its runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MEGABYTE = 1024 * 1024
ROOT = Path("/")


def memory_mb(root: Path = ROOT) -> int:
    """The memory of the machine, or of its control group if that is less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_cgroup_limits(root)]) // MEGABYTE


def cpu_milli() -> int:
    """The processors this process may use, perhaps fewer than the machine has."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1_000 * count


def _cgroup_limits(root: Path) -> list[int]:
    """The limits of our group and all groups around it, in both versions of cgroups. An unreadable limit is none."""
    found: list[int] = []
    cgroups = root / "sys/fs/cgroup"
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            inside = Path(path.lstrip("/"))
            for group in (inside, *inside.parents):
                if not controllers:
                    found += _number_in(cgroups / group / "memory.max")
                elif "memory" in controllers.split(","):
                    found += _number_in(cgroups / "memory" / group / "memory.limit_in_bytes")
    return found


def _number_in(file: Path) -> list[int]:
    with suppress(OSError, ValueError):
        return [int(file.read_text())]
    return []
