"""Standard output and error as our processes write to them: it never raises and never waits.

A disk may be full, whoever reads a pipe may be gone, or may have stopped reading. None of that is a reason for anybody
who has something to say to fail or to stand still. So a thread writes; what it cannot write, or what comes while too
much waits for it, is dropped and counted, and the count is told as soon as something can be written again.
"""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread

MOST_WAITING = 1_000  # pieces
LONGEST_PIECE = 16 * 1024  # bytes
FIRST_FREE = 3  # behind the standard descriptors

Lost = Callable[[int], str]  # the line that says that so many pieces were dropped


class Outlet(io.RawIOBase):
    """One descriptor, or rather a copy of it: user code that closes its standard streams does not close ours."""

    def __init__(self, descriptor: int, lost: Lost) -> None:
        self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
        self.name = f"<outlet {descriptor}>"
        self._lost = lost
        self._dropped = 0  # counted by those who write to us
        self._failed = 0  # counted by the thread
        self._told = 0  # of both
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Also in a process that was forked off: it has none of our threads."""
        self._waiting: SimpleQueue[bytes | Event] = SimpleQueue()  # which may be put to from anywhere, a finalizer too
        self._thread: Thread | None = None

    def write(self, data: object) -> int:
        said = memoryview(data).tobytes()  # type: ignore[arg-type]  # what RawIOBase takes: any buffer
        for start in range(0, len(said), LONGEST_PIECE):
            self._put(said[start : start + LONGEST_PIECE])
        return len(said)

    def settle(self, seconds: float) -> bool:
        """Wait for what was said until now to be written, but no longer than this. Whether it was, or is lost."""
        done = Event()
        self._waiting.put(done)
        return self._thread is None or done.wait(seconds)

    def _put(self, piece: bytes) -> None:
        if self._waiting.qsize() >= MOST_WAITING:
            self._dropped += 1
            return
        self._waiting.put(piece)
        if self._thread is None:
            self._thread = Thread(target=self._work, args=(self._waiting,), name="oncue outlet", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no thread can be started now: the next piece tries again
                self._thread = None

    def _work(self, waiting: SimpleQueue[bytes | Event]) -> None:
        while True:
            piece = waiting.get()
            if isinstance(piece, Event):
                piece.set()
                continue
            lost = self._dropped + self._failed
            if lost > self._told and self._written(self._lost(lost - self._told).encode()):
                self._told = lost
            if not self._written(piece):
                self._failed += 1

    def _written(self, piece: bytes) -> bool:
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            return False
        return True

    # ------------------------------------------------------------------------------------------ what else a stream is

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def close(self) -> None:
        """It stays open: others write here, too."""


def text(outlet: Outlet) -> io.TextIOWrapper:
    """Line by line, and whatever cannot be encoded is spelt out."""
    return io.TextIOWrapper(outlet, encoding="utf-8", errors="backslashreplace", line_buffering=True)
