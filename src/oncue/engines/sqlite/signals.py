"""Wake-ups between the processes on one file: each listener has a Unix datagram socket in `<file>.signals/`.

A hint goes to every socket there, without waiting: a full one misses it, a dead one is removed.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec

from oncue.engines.port import Hint, Topic

LINGER = 0.005  # seconds to gather hints before they travel together
LONGEST_PATH = 100  # bytes; the kernel takes 107 on Linux, 103 on macOS
MOST_AT_ONCE = 200  # hints; well below what a datagram holds

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Hint]).decode


class SqliteSignals:
    def __init__(self, path: Path) -> None:
        self._folder = _folder(path)
        self._pending: dict[tuple[Topic, str | None], Hint] = {}
        self._flushing: asyncio.TimerHandle | None = None
        self._ears: set[asyncio.Queue[Hint | None]] = set()
        self._closed = False
        self._mouth = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._mouth.setblocking(False)

    async def send(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            key = (hint.topic, hint.target)
            self._pending[key] = _sooner(self._pending.get(key), hint)
        if self._pending and self._flushing is None and not self._closed:
            self._flushing = asyncio.get_running_loop().call_later(LINGER, self._flush)

    async def listen(self) -> AsyncIterator[Hint]:
        heard: asyncio.Queue[Hint | None] = asyncio.Queue()
        with _Ear(self._folder, heard):
            self._ears.add(heard)
            try:
                for topic in Topic:
                    yield Hint(topic)
                while not self._closed and (hint := await heard.get()) is not None:
                    yield hint
            finally:
                self._ears.discard(heard)

    async def close(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flush()
        self._closed = True
        for heard in self._ears:
            heard.put_nowait(None)
        self._mouth.close()

    def _flush(self) -> None:
        hints, self._pending, self._flushing = list(self._pending.values()), {}, None
        with suppress(OSError):  # no folder: nobody ever listened
            for ear in self._folder.iterdir():
                for i in range(0, len(hints), MOST_AT_ONCE):
                    self._tell(ear, _encode(hints[i : i + MOST_AT_ONCE]))

    def _tell(self, ear: Path, hints: bytes) -> None:
        try:
            self._mouth.sendto(hints, str(ear))
        except ConnectionRefusedError:
            ear.unlink(missing_ok=True)  # its process is gone
        except OSError:
            pass  # its ear is full, or it has just left: it polls


class _Ear:
    """A socket in the folder that fills a queue."""

    def __init__(self, folder: Path, heard: asyncio.Queue[Hint | None]) -> None:
        self._path = folder / uuid4().hex[:12]
        self._heard = heard
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def __enter__(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket.setblocking(False)
        self._socket.bind(str(self._path))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._hear)

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._socket)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            while True:
                with suppress(msgspec.MsgspecError):
                    for hint in _decode(self._socket.recv(65_536)):
                        self._heard.put_nowait(hint)


def _folder(path: Path) -> Path:
    """Beside the file, so that whoever may use it may hear; in the temporary folder if that makes a path too long."""
    folder = path.with_name(path.name + ".signals")
    if len(os.fsencode(folder)) + 13 <= LONGEST_PATH:
        return folder
    digest = hashlib.blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"oncue-{os.getuid()}-{digest}"


def _sooner(one: Hint | None, other: Hint) -> Hint:
    """Two hints about the same thing as one. Without a due it means: look now, at everything."""
    if one is None or other.due is None:
        return other
    return one if one.due is None or one.due <= other.due else other
