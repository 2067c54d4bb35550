"""How much a process of its own may use."""

from __future__ import annotations

import msgspec

from oncue.domain.instants import SECOND, Duration
from oncue.domain.placement import Resources
from oncue.executors import machine
from oncue.settings import Settings


class Limits(msgspec.Struct, frozen=True):
    """Limits for each process of a tree, not for their sum. 0: no limit."""

    memory_mb: int = 0
    open_files: int = 0
    cpu_seconds: int = 0


def limits_for(settings: Settings, resources: Resources, timeout: Duration | None = None) -> Limits:
    """The job's limits, else the worker's. With a timeout, no more processor time than fits into it."""
    cpus = max(1_000, resources.cpu_milli or machine.cpu_milli())
    return Limits(
        memory_mb=resources.memory_mb or settings.process_memory_mb or machine.memory_mb() // 2,
        open_files=settings.process_open_files,
        cpu_seconds=0 if timeout is None else -(-timeout * cpus // (1_000 * SECOND)),
    )
