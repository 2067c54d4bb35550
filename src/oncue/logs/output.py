"""Write to standard output and error without raising or blocking.

A disk may be full; the reader of a pipe may be gone, or may have stopped reading. None of these may fail or block the
writer. So a thread writes. Text that it cannot write, or that arrives while too much waits, is dropped and counted; the
count is written as soon as writing works again.
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

Lost = Callable[[int], str]  # formats the line that reports the number of dropped pieces


class Outlet(io.RawIOBase):
    """Writes to a copy of a descriptor: user code that closes its standard streams does not close ours."""

    def __init__(self, descriptor: int, lost: Lost) -> None:
        self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
        self.name = f"<outlet {descriptor}>"
        self._lost = lost
        self._dropped = 0  # counted by the writers
        self._failed = 0  # counted by the thread
        self._told = 0  # how many of both were reported
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Start afresh, also in a forked process, which has none of our threads."""
        self._waiting: SimpleQueue[bytes | Event] = SimpleQueue()  # safe to use anywhere, even in a finalizer
        self._thread: Thread | None = None

    def write(self, data: object) -> int:
        said = memoryview(data).tobytes()  # type: ignore[arg-type]  # what RawIOBase takes: any buffer
        for start in range(0, len(said), LONGEST_PIECE):
            self._put(said[start : start + LONGEST_PIECE])
        return len(said)

    def settle(self, seconds: float) -> bool:
        """Wait until all text so far is written or dropped, at most this long. Returns whether that happened."""
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
        """Do nothing: other writers use this descriptor, too."""


def text(outlet: Outlet) -> io.TextIOWrapper:
    """Wrap for text, line by line; characters that cannot be encoded are escaped."""
    return io.TextIOWrapper(outlet, encoding="utf-8", errors="backslashreplace", line_buffering=True)
