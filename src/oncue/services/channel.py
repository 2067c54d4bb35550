"""Words between a keeper and the worker process it keeps: lines of JSON over a socket that both inherit."""

from __future__ import annotations

import asyncio
import socket
from typing import TypeVar

import msgspec

from oncue.domain.ids import ClassId, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.run import Claimed
from oncue.services.capacity import Left
from oncue.settings import Settings

Known = tuple[Left, Instant]  # and until when, by the monotonic clock, which all processes of a host share

LONGEST_LINE = 64 * 1024 * 1024


class Start(msgspec.Struct, tag="start", frozen=True):
    """To the worker: who it is, and how it is set up."""

    worker_id: WorkerId
    settings: Settings
    known_for_it: tuple[Known, ...] = ()  # who wore out workers before it


class Beaten(msgspec.Struct, tag="beaten", frozen=True):
    """To the worker: a beat that was asked for at this instant (monotonic) has arrived, and where it stands."""

    asked_at: Instant
    place: int = 0
    peers: int = 1


class Drain(msgspec.Struct, tag="drain", frozen=True):
    """To the worker: finish what you have, take nothing new. `at_once`: do not wait, hand everything back.

    `replaced`: another has taken its place, so that there is no hurry. What runs may take the time it takes.
    """

    at_once: bool = False
    replaced: bool = False


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """From the worker: it is registered, beat for it; and again whenever what it can run has changed."""

    classes: tuple[ClassId, ...]


class Alive(msgspec.Struct, tag="alive", frozen=True):
    """From the worker: its loop still turns."""


class Worn(msgspec.Struct, tag="worn", frozen=True):
    """From the worker: another should take its place. Too much goes on here that cannot be stopped, left by these."""

    left_by: tuple[Left, ...]


class Unusable(msgspec.Struct, tag="unusable", frozen=True):
    """From the worker: it cannot start like this, and starting it again will not help."""

    problem: str


class Unstopped(msgspec.Struct, tag="unstopped", frozen=True):
    """From the worker, its last words: runs it could not stop; once it is gone they can be handed back."""

    runs: tuple[Claimed, ...]


ToWorker = Start | Beaten | Drain
FromWorker = Ready | Alive | Worn | Unusable | Unstopped
Said = TypeVar("Said")


class Channel:
    """One end. Receiving ends with None when the other side is gone; so does sending, silently."""

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
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        said: ToWorker | FromWorker = self._decode(line)
        return said

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (ConnectionError, BrokenPipeError):
            return
