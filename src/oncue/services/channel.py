"""Messages between a supervisor and its worker process: lines of JSON over a socket that both inherit."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TypeVar

import msgspec

from oncue.domain.ids import ClassId, WorkerId
from oncue.domain.instants import NEVER, Instant
from oncue.domain.load import Load
from oncue.domain.run import Claimed, Settlement
from oncue.metrics.numbers import Series
from oncue.services.capacity import Left
from oncue.services.taken_queues import TakenQueues
from oncue.settings import Settings
from oncue.tasks.schedules import DeclaredSet

Known = tuple[Left, Instant]  # and until when, by the monotonic clock, which all processes of a host share

LONGEST_LINE = 64 * 1024 * 1024  # bytes


class Start(msgspec.Struct, tag="start", frozen=True):
    """To the worker: its id and its settings."""

    worker_id: WorkerId
    settings: Settings
    known_for_it: tuple[Known, ...] = ()  # users who wore out earlier workers
    drain_at: Instant | None = None  # since when the worker that it replaces was drained on request
    secrets: dict[str, str] = {}  # variables of our environment that tasks must not find in theirs


class Beaten(msgspec.Struct, tag="beaten", frozen=True):
    """To the worker: the heartbeat sent at this instant (monotonic) has arrived; and its position among its peers.

    `drained`: an administrator has drained the worker. It takes no new runs until a heartbeat says otherwise.
    """

    asked_at: Instant
    place: int = 0
    peers: int = 1
    drained: bool = False
    alike_before: int = 0
    alike: int = 1
    beat_at: Instant = Instant(0)  # as it is stored


class Drain(msgspec.Struct, tag="drain", frozen=True):
    """To the worker: finish active runs, take no new ones. `at_once`: do not wait, return all runs to the queue.

    `replaced`: another worker has taken over, so there is no hurry. Active runs may take as long as they need.
    `by_ctrl_c`: somebody watches, who can press it again.
    """

    at_once: bool = False
    replaced: bool = False
    by_ctrl_c: bool = False


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """From the worker: it is registered, send heartbeats for it; and again whenever the classes it can run change."""

    classes: tuple[ClassId, ...]
    tasks: tuple[str, ...] = ()  # that it has, in its first message
    declared: tuple[DeclaredSet, ...] = ()  # the schedules that its code declares, in its first message
    queues: TakenQueues = TakenQueues()  # in its first message
    asked_at: Instant = NEVER  # when it asked to be registered (monotonic), in its first message


class Alive(msgspec.Struct, tag="alive", frozen=True):
    """From the worker: its event loop is not blocked; how many runs are active; about once a second, how busy it is."""

    active: int = 0
    load: Load | None = None


class Worn(msgspec.Struct, tag="worn", frozen=True):
    """From the worker: replace it. Too many attempts run here that cannot be stopped, left by these users."""

    left_by: tuple[Left, ...]


class Unusable(msgspec.Struct, tag="unusable", frozen=True):
    """From the worker: it cannot start with this configuration, and a restart will not help."""

    problem: str


class Unstopped(msgspec.Struct, tag="unstopped", frozen=True):
    """From the worker, its last message: runs it could not stop; once it has exited they can return to the queue.

    `ended`: the outcomes of those that had been told to stop before, and were waited for.
    """

    runs: tuple[Claimed, ...]
    ended: tuple[Settlement, ...] = ()


class Counted(msgspec.Struct, tag="counted", frozen=True):
    """From the worker, once a second and before it ends: all it has counted since its start, and its gauges."""

    series: tuple[Series, ...]


ToWorker = Start | Beaten | Drain
FromWorker = Ready | Alive | Worn | Unusable | Unstopped | Counted
Said = TypeVar("Said")


class Channel:
    """One end of the channel. Receiving returns None when the other side is gone; sending then does nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kinds: object) -> None:
        self._reader = reader
        self._writer = writer
        self._decode = msgspec.json.Decoder(kinds).decode
        self._encode = msgspec.json.Encoder().encode

    @classmethod
    async def on(cls, end: socket.socket, kinds: object) -> Channel:
        reader, writer = await asyncio.open_unix_connection(sock=end, limit=LONGEST_LINE)
        return cls(reader, writer, kinds)

    def send(self, said: ToWorker | FromWorker) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._encode(said) + b"\n")

    async def receive(self) -> ToWorker | FromWorker | None:
        """Return the next message; None: the other end is closed. Messages of a newer version are passed over."""
        while True:
            try:
                line = await self._reader.readline()
            except (ConnectionError, ValueError):
                return None
            if not line.endswith(b"\n"):
                return None
            with suppress(msgspec.ValidationError):
                said: ToWorker | FromWorker = self._decode(line)
                return said

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (ConnectionError, BrokenPipeError):
            return
