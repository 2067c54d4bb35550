"""What tests of executors share: reports that remember, attempts, and a look at which processes are alive."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import msgspec

from oncue.context import RunInfo
from oncue.domain.instants import MINUTE, Duration, Instant
from oncue.domain.placement import Resources
from oncue.executors.port import Work
from oncue.tasks import Task

RUN, JOB = UUID(int=1), UUID(int=2)
SOON = 60.0  # seconds until a wait in a test has failed; nothing waits that long when all is well


class Remembered:
    """Reports that keep everything they are told, of endless text the end."""

    def __init__(self) -> None:
        self.cancelled = False
        self.text = ""
        self.told: list[bytes] = []
        self.saved: list[bytes] = []
        self.submitted: list[bytes] = []

    def write(self, text: str) -> None:
        self.text = (self.text + text)[-1_000_000:]

    def progress(self, stored: bytes) -> None:
        self.told.append(stored)

    async def save(self, stored: bytes) -> None:
        self.saved.append(stored)

    async def submit(self, asked: bytes) -> tuple[UUID, ...]:
        self.submitted.append(asked)
        return tuple(UUID(int=number) for number in range(1, 1 + len(msgspec.json.decode(asked)["jobs"])))


def attempt(
    task: Task,
    payload: bytes | None = None,
    reports: Remembered | None = None,
    *,
    checkpoint: bytes | None = None,
    resources: Resources | None = None,
    timeout: Duration = MINUTE,
) -> Work:
    info = RunInfo(RUN, JOB, task.name, 1, Instant(0), checkpoint)
    return Work(info, task, payload, reports or Remembered(), timeout, resources or Resources())


async def until(condition: Callable[[], object]) -> None:
    """Look again and again until it is so."""
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.005)


def alive_with(mark: str) -> set[int]:
    """Processes that have these words on their command line or in their environment. Zombies have neither."""
    return {pid for pid in _processes() if mark.encode() in _said_by(pid)}


others: set[int] = set()  # children of this process that were there before the test: servers of other tests


def children() -> set[int]:
    """Of this process, zombies too: who is not waited for is left over."""
    return {pid for pid in _processes() if _parent(pid) == os.getpid()} - others


def has_ended(pid: int) -> bool:
    """A zombie has, too: asyncio's thread that waits for it may not have come to it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def open_descriptors() -> set[str]:
    """Compare with `<=`: the garbage collector may close some that tests before left behind."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _said_by(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
