"""Wake-ups between the processes on one file: each listener has a Unix datagram socket in `<file>.signals/`.

A hint goes to every socket there, without waiting: a full one misses it, a dead one is removed.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec

from oncue.clock import Clock, Timer
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, Duration
from oncue.engines.hints import Pending, is_for, reader
from oncue.engines.port import Hint, Topic
from oncue.engines.port.signals import EVERY_TOPIC

SEND_INTERVAL = Duration(5 * MILLISECOND)  # the first hint is sent at once, those that follow within it together
LONGEST_PATH = 100  # bytes; the kernel takes 107 on Linux, 103 on macOS
MOST_AT_ONCE = 200  # hints; well below what a datagram holds

_encode = msgspec.msgpack.Encoder().encode
_decode = reader(msgspec.msgpack.Decoder)


class SqliteSignals:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self.folder = _folder(path)
        self._pending = Pending()
        self._pausing: Timer | None = None
        self._listening: set[Pending] = set()
        self._closed = False
        self.failed = 0  # hints that a listener did not get
        self._mouth = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._mouth.setblocking(False)

    async def send(self, hints: Sequence[Hint]) -> None:
        self._pending.add(hints)
        if self._pausing is None:
            self._flush()

    async def pass_on(self, hint: Hint, by: WorkerId) -> None:
        """Does nothing: every hint goes to everybody."""

    async def listen(
        self, topics: Collection[Topic] = EVERY_TOPIC, worker: WorkerId | None = None
    ) -> AsyncIterator[Hint]:
        heard = Pending()
        heard.add(Hint(topic) for topic in Topic)
        self._listening.add(heard)
        ear = _Ear(self.folder, heard)
        try:
            with suppress(OSError):  # no socket can be created: no hint will arrive, and the listener polls
                ear.open()
            while not self._closed:
                await heard.something.wait()
                for hint in heard.take():
                    if hint.topic in topics and is_for(worker, hint):
                        yield hint
        finally:
            ear.close()
            self._listening.discard(heard)

    async def close(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
            self._flush()
        self._closed = True
        for heard in self._listening:
            heard.something.set()
        self._mouth.close()

    def _flush(self) -> None:
        hints, self._pausing = self._pending.take(), None
        if hints and not self._closed:
            self._pausing = self._clock.call_later(SEND_INTERVAL, self._flush)
            with suppress(OSError):  # no folder: no process ever listened
                for ear in self.folder.iterdir():
                    for i in range(0, len(hints), MOST_AT_ONCE):
                        self._tell(ear, _encode(hints[i : i + MOST_AT_ONCE]))

    def _tell(self, ear: Path, hints: bytes) -> None:
        try:
            self._mouth.sendto(hints, str(ear))
        except ConnectionRefusedError:
            ear.unlink(missing_ok=True)  # its process is gone
        except OSError:
            self.failed += 1  # its buffer is full, or it has just left: it polls


class _Ear:
    """A socket in the folder, and the hints that it receives."""

    def __init__(self, folder: Path, heard: Pending) -> None:
        self._path = folder / uuid4().hex[:12]
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def open(self) -> None:
        folder = self._path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user of this machine")
        self._socket.bind(str(self._path))
        self._loop.add_reader(self._socket, self._receive)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
        self._socket.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                with suppress(msgspec.MsgspecError):
                    self._heard.add(_decode(self._socket.recv(65_536)))


def _folder(path: Path) -> Path:
    """Return a folder next to the file, with the same access; in the temporary folder if the path is too long."""
    folder = path.with_name(path.name + ".signals")
    if len(os.fsencode(folder)) + len("/") + 12 <= LONGEST_PATH:
        return folder
    digest = hashlib.blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"oncue-{os.geteuid()}-{digest}"
