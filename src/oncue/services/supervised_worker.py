"""A worker process as its supervisor sees it: started, told to stop, killed."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from contextlib import suppress

from oncue.clock import Clock
from oncue.domain.ids import ClassId, WorkerId, uuid7
from oncue.domain.instants import Instant
from oncue.domain.load import Load
from oncue.executors.environment import only_secrets, without_ours
from oncue.services.capacity import Left
from oncue.services.channel import (
    Channel,
    Drain,
    FromWorker,
    Known,
    Start,
    Unstopped,
)
from oncue.settings import Settings


class SupervisedWorker:
    """One worker process, from its start to its end."""

    def __init__(
        self, worker_id: WorkerId, process: asyncio.subprocess.Process, channel: Channel, now: Instant
    ) -> None:
        self.worker_id = worker_id
        self.process = process
        self.channel = channel
        self.started_at = self.alive_at = self.beaten_at = now  # monotonic
        self.classes: tuple[ClassId, ...] = ()
        self.stored_classes: tuple[ClassId, ...] | None = None  # as the database has them
        self.load: Load | None = None
        self.ready = asyncio.Event()  # it is registered
        self.told = asyncio.Event()  # to end
        self.worn = asyncio.Event()  # another worker should replace it
        self.worn_by: tuple[Left, ...] = ()
        self.replaced = self.buried = False
        self.active = 0  # runs, by its last word
        self.unstopped = Unstopped(())
        self.problem: str | None = None
        self.why = "exit"  # another replaces it, as a label of a metric

    @classmethod
    async def start(
        cls,
        clock: Clock,
        settings: Settings,
        known_for_it: tuple[Known, ...] = (),
        drain_at: Instant | None = None,
    ) -> SupervisedWorker:
        """OSError: it cannot be started now, and nothing is left of the attempt."""
        worker_id = WorkerId(uuid7(clock.now(), secrets.token_bytes(8)))
        ours, theirs = socket.socketpair()
        with theirs:
            channel = await Channel.on(ours, FromWorker)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *("-P", "-m", "oncue.app", "worker", str(theirs.fileno()), str(os.getpid())),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    env=without_ours(os.environ),  # we send its settings; tasks could read the environment
                    start_new_session=True,  # we handle the terminal's Ctrl-C, and tell the worker
                )
            except BaseException:
                await channel.close()
                raise
        channel.send(Start(worker_id, settings, known_for_it, drain_at, only_secrets(os.environ)))
        return cls(worker_id, process, channel, clock.monotonic())

    def drain(self, *, at_once: bool, by_ctrl_c: bool = False) -> None:
        """Tell it to end: when its runs are finished, or at once."""
        self.told.set()
        self.channel.send(Drain(at_once=at_once, by_ctrl_c=by_ctrl_c))

    def kill(self) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def sweep(self) -> None:
        """Kill whatever tasks in its threads left in its process group; call it right after the worker has ended."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill it; it is gone when this returns."""
        self.kill()
        await self.process.wait()
        await self.channel.close()
