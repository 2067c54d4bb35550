"""How much a process of its own may use, and how much there is to give."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from oncue.domain.instants import SECOND, Duration
from oncue.domain.placement import Resources
from oncue.settings import Settings

MEGABYTE = 1024 * 1024
CGROUPS = Path("/sys/fs/cgroup")


class Limits(msgspec.Struct, frozen=True):
    """For each process of a tree, not for their sum. 0: no limit."""

    memory_mb: int = 0
    open_files: int = 0
    cpu_seconds: int = 0


def limits_for(settings: Settings, resources: Resources, timeout: Duration | None = None) -> Limits:
    """What the job asked for, else what the worker gives. With a timeout, no more processor time than fits into it."""
    cpus = max(1_000, resources.cpu_milli or 1_000 * (os.cpu_count() or 1))
    return Limits(
        memory_mb=resources.memory_mb or settings.memory_limit_mb or machine_memory_mb() // 2,
        open_files=settings.open_files_limit,
        cpu_seconds=0 if timeout is None else -(-timeout * cpus // (1_000 * SECOND)),
    )


def machine_memory_mb() -> int:
    """What the machine has, or less where a control group gives less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_cgroup_limits()]) // MEGABYTE


def _cgroup_limits() -> list[int]:
    """Of our group and all around it, in both versions of cgroups. What cannot be read is no limit."""
    found: list[int] = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            inside = Path(path.lstrip("/"))
            for group in (inside, *inside.parents):
                if not controllers:
                    found += _number_in(CGROUPS / group / "memory.max")
                elif "memory" in controllers.split(","):
                    found += _number_in(CGROUPS / "memory" / group / "memory.limit_in_bytes")
    return found


def _number_in(file: Path) -> list[int]:
    with suppress(OSError, ValueError):
        return [int(file.read_text())]
    return []
