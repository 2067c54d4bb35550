"""What this process uses of its machine, from /proc when somebody asks. Elsewhere nothing is known."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

import msgspec

SELF = Path("/proc/self")


class Usage(msgspec.Struct, frozen=True):
    cpu_seconds: float
    resident_bytes: int
    open_files: int
    most_files: float
    started_at: float
    """In Unix seconds."""


def usage() -> Usage | None:
    """Return what this process uses. None: this system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        # The name is in brackets and may contain anything, brackets too.
        stat = SELF.joinpath("stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return Usage(
            (int(stat[11]) + int(stat[12])) / ticks,
            int(stat[21]) * os.sysconf("SC_PAGE_SIZE"),
            len(os.listdir(SELF / "fd")),  # noqa: PTH208  # a path for each descriptor would cost ten times as much
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            _booted_at() + int(stat[19]) / ticks,
        )
    return None


def _booted_at() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))
