"""Collect orphaned processes that became children of this one: otherwise they stay as zombies for ever.

Process 1 of a container inherits every orphan, such as the wardens of a killed worker. Children that this process
started itself are left to the event loop, which collects them the moment they end: only a child that is still a zombie
a whole pass later is an orphan.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from oncue.domain.instants import SECOND, Duration
from oncue.executors.parentage import adopt_orphans

INTERVAL = Duration(SECOND)
ANY_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Orphans:
    name = "orphans"

    def __init__(self, *, adopt: bool) -> None:
        """`adopt`: become the parent of orphaned descendants, as process 1 always is."""
        self._seen: frozenset[int] = frozenset()
        if adopt:
            adopt_orphans()

    async def run_once(self) -> Duration:
        zombies = _zombies()
        _collect(zombies & self._seen)
        self._seen = zombies - self._seen
        return INTERVAL


def _collect(pids: frozenset[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _zombies() -> frozenset[int]:
    """Return the children that have ended and were not collected yet. Nearly always there are none: one system call."""
    try:
        if os.waitid(os.P_ALL, 0, ANY_ENDED) is None:
            return frozenset()
    except ChildProcessError:  # no children at all
        return frozenset()
    return frozenset(pid for pid in _children() if _has_ended(pid))


def _children() -> list[int]:
    """Each thread has its own list: a child belongs to the thread that started it, an orphan to any."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found += map(int, (thread / "children").read_bytes().split())
    return found


def _has_ended(pid: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, ANY_ENDED) is not None
    return False
