"""Start a program under a warden, and stop it with all its descendants."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from oncue.domain.instants import SECOND, Duration
from oncue.executors.families import MARK, end_descendants, end_marked
from oncue.executors.limits import Limits
from oncue.executors.machine import MEGABYTE

WARDEN = str(Path(__file__).with_name("warden.py"))
WARDEN_TIMEOUT = 2.0  # seconds after the grace for the warden; then we do its work
KILL_TIMEOUT = 8.0  # seconds after that; a process that is not gone by then hangs in the kernel


class How(StrEnum):
    """The first word of a warden's report."""

    EXIT = "exit"
    SIGNAL = "signal"
    NO_LIMITS = "limits"
    NO_FOLDER = "folder"
    NO_PROGRAM = "program"


class Ending(msgspec.Struct, frozen=True):
    """How a program ended; `number` is its exit code, the signal, or the errno of a start that failed."""

    how: How
    number: int

    @classmethod
    def parse(cls, report: str) -> Ending:
        how, number = report.split()
        return cls(How(how), int(number))

    def describe(self) -> str:
        match self.how:
            case How.EXIT:
                return f"ended with exit code {self.number}"
            case How.SIGNAL:
                why = ": out of memory, or killed by another process" if self.number == signal.SIGKILL else ""
                return f"ended with signal {self.number} ({_signal_name(self.number)}){why}"
            case How.NO_LIMITS | How.NO_FOLDER | How.NO_PROGRAM:
                return f"could not start: {os.strerror(self.number)}"


class Contained:
    """A program under its warden. `stop` or `ended` must be awaited to the end, or descriptors are left open."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, report: int, grace: Duration) -> None:
        self._process = process
        self._mark = mark
        self._report = report
        self._grace = grace / SECOND
        self._watching = asyncio.ensure_future(self._watch())

    @property
    def pid(self) -> int:
        """The pid of the warden."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return not self._watching.done()

    async def ended(self) -> Ending:
        """Wait until the program and all its descendants are gone."""
        return await asyncio.shield(self._watching)

    async def stop(self) -> None:
        """Send TERM to all processes, and KILL to those left after the grace. None of them runs when this returns."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)  # the program may have stopped its warden
        await asyncio.wait((self._watching,), timeout=self._grace + WARDEN_TIMEOUT)
        if self.running:
            self._end_without_warden()
            await asyncio.wait((self._watching,), timeout=KILL_TIMEOUT)

    def _end_without_warden(self) -> None:
        """Kill the descendants, then the warden: while the warden exists, stopped or not, no descendant can escape."""
        end_descendants(self._process.pid)
        with suppress(ProcessLookupError):
            self._process.kill()

    async def _watch(self) -> Ending:
        code = await self._process.wait()
        report = os.read(self._report, 100).decode()
        os.close(self._report)
        if report:
            return Ending.parse(report)
        end_marked(self._mark)  # the warden was killed, and may have left any processes
        return Ending(How.SIGNAL, -code) if code < 0 else Ending(How.EXIT, code)


async def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    limits: Limits,
    grace: Duration,
    cwd: str = "",
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int,
    stderr: int,
    fds: Sequence[int] = (),
    hidden: int | None = None,
) -> Contained:
    """Start a program; `ended` tells if there is no such program. OSError: arguments or environment are too long.

    The program gets its three streams and `fds`, no other descriptor. `hidden`: a pipe with more of its environment.
    """
    mark = secrets.token_hex(8)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    orders = [os.getpid(), grace / SECOND, writing, ",".join(map(str, fds)), "" if hidden is None else hidden]
    inherited = (writing, *fds) if hidden is None else (writing, *fds, hidden)
    bounds = [limits.cpu_seconds, limits.memory_mb * MEGABYTE, limits.open_files]
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", WARDEN, *map(str, orders), *map(str, bounds), cwd, *argv),
            env={**env, MARK: mark},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=inherited,
            start_new_session=True,  # the worker handles Ctrl-C
        )
    )
    # If the start were cancelled half-way, asyncio would kill the warden and so release what the warden had started.
    cancelled = await outlast(starting)
    os.close(writing)
    if starting.exception():
        os.close(reading)
    contained = Contained(starting.result(), mark, reading, grace)
    if cancelled:
        await outlast(asyncio.ensure_future(contained.stop()))
        raise cancelled
    return contained


async def outlast(task: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until the task is done, however often we are cancelled meanwhile. The caller raises what is returned."""
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as told:
            cancelled = told
    return cancelled


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return "unknown"
