"""Kill processes where no warden does: those of a stopped or killed warden, and a worker's own at its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from oncue.executors.warden import LINUX, descendants, kill

MARK = "ONCUE_WARDEN"  # a variable of every program under a warden, inherited by its descendants
MOST_ROUNDS = 1_000  # against a fork bomb that is faster than we

Members = list[tuple[int, int]]  # process and group numbers


def end_descendants(of: int = 0) -> None:
    """Kill the descendants of this process or another. An orphan must become a child of `of`, or it is not found."""
    _end(lambda: descendants(of))


def end_marked(mark: str) -> None:
    """Kill every process that has this mark in its environment, whatever its parent is by now."""
    _end(lambda: _marked(f"{MARK}={mark}".encode()))


def _end(find: Callable[[], Members]) -> None:
    """Kill until no new process is found: a killed one cannot fork, and those it forked before are found next."""
    killed: set[tuple[int, int]] = set()
    for _ in range(MOST_ROUNDS if LINUX else 0):
        members = find()
        if killed.issuperset(members):
            return
        kill(members)
        killed.update(members)


def _marked(mark: bytes) -> Members:
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(folder.name)
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((pid, int((folder / "stat").read_bytes().rpartition(b")")[2].split()[2])))
    return found
