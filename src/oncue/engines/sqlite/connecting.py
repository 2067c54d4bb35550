"""The file itself: which process may write to it, and whether it is still where it was opened."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

from oncue.domain.errors import Invalid
from oncue.domain.plain_text import printable
from oncue.engines.sqlite.reasons import Moved

_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


class FileLock:
    """The turn to write. Fair between processes: one that has just written queues behind those that wait."""

    def __init__(self, path: Path) -> None:
        self._turnstile = open_private(path.with_name(path.name + ".lock-next"))
        self._lock = open_private(path.with_name(path.name + ".lock"))
        _locks.add(self)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        fcntl.flock(self._turnstile, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        if self in _locks:
            _locks.discard(self)
            os.close(self._turnstile)
            os.close(self._lock)


_locks: WeakSet[FileLock] = WeakSet()


def _let_go_in_child() -> None:
    """Close the locks in a forked child: it shares them, and would keep them after this process is killed."""
    for lock in list(_locks):
        lock.close()


os.register_at_fork(after_in_child=_let_go_in_child)


def refuse_what_is_no_file(path: Path) -> None:
    """Raise Invalid for a folder, a pipe or a device. A file that does not exist yet is fine."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # opening it says why
    if not stat.S_ISREG(mode):
        kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "a device")
        raise Invalid.of("engine", "bad_engine", f"{printable(str(path))} is {kind}, not a file: name a database file")


def open_private(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class Place:
    """The opened file, by its name: whether it is still there. Under another name no process would find it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = self._found()

    def check(self) -> None:
        try:
            found = self._found()
        except FileNotFoundError:
            found = None
        if found != self._opened:
            raise Moved

    def _found(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_dev, found.st_ino
