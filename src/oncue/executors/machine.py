"""What the machine has for this process: what a worker offers when it is not told, and what its runs may take."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MEGABYTE = 1024 * 1024
ROOT = Path("/")


def memory_mb(root: Path = ROOT) -> int:
    """What the machine has, or less where a control group gives less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_cgroup_limits(root)]) // MEGABYTE


def cpu_milli() -> int:
    """The processors this process may use, which may be fewer than the machine has."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1_000 * count


def _cgroup_limits(root: Path) -> list[int]:
    """Of our group and all around it, in both versions of cgroups. What cannot be read is no limit."""
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
