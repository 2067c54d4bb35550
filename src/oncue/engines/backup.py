"""What backups of both engines share: the file, which is complete or not there, and what a store contains."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import Final

import msgspec

from oncue.domain.errors import OncueError
from oncue.domain.plain_text import printable

Tell = Callable[[str], None]  # what is being done, for people who wait

OF_SQLITE: Final = ("-wal", "-shm", "-journal")  # what it keeps next to a file
BESIDE: Final = (*OF_SQLITE, ".lock", ".lock-next")  # and what we do
_KINDS: Final = {b"SQLite format 3\0": "sqlite", b"PGDMP": "postgres"}
_NAMES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_NO_LINKS: Final = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK)


class Contents(msgspec.Struct, frozen=True):
    """`digest`: of every job, run and key with its state; two stores of one engine with the same have the same."""

    schema_version: int
    jobs: int  # with a schedule: one without is its run
    runs: int
    keys: int
    digest: str

    def differences(self, copy: Contents) -> list[str]:
        """Return what a restored copy has otherwise. Its schema may be newer."""
        counted = [
            f"{getattr(self, name):,} {name} in the backup, {getattr(copy, name):,} in the copy"
            for name in ("jobs", "runs", "keys")
            if getattr(self, name) != getattr(copy, name)
        ]
        if counted or self.digest == copy.digest:
            return counted
        return ["as many jobs, runs and keys, but not the same ones, or in other states"]


class Restored(msgspec.Struct, frozen=True):
    contents: Contents
    from_version: int  # of the schema in the backup


def contents(schema_version: int, counted: Iterable[tuple[str, int, int]]) -> Contents:
    """Add up rows of a kind, how many there are, and the sum of their hashes."""
    numbers = {"jobs": 0, "runs": 0, "keys": 0}
    digest = 0
    for kind, number, hashes in counted:
        if kind in numbers:
            numbers[kind] += number
        digest += hashes
    return Contents(schema_version, digest=f"{digest % 2**64:016x}", **numbers)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a file to write to. When the block ends it is on disk under this name; if it fails, nothing is left."""
    refuse_existing(path)
    with _as_error(path):
        made, name = mkstemp(prefix=f".{path.name[:50]}.", suffix=".part", dir=path.parent)
        os.close(made)
    part = Path(name)
    try:
        yield part
        with _as_error(path):
            _sync(part)
            _name(part, path)
            _sync(path.parent)
    finally:
        for left in _with(part, BESIDE):
            left.unlink(missing_ok=True)


def refuse_existing(path: Path, *beside: str) -> None:
    for one in _with(path, beside):
        if os.path.lexists(one):
            raise OncueError(f"{printable(str(one))} exists: name another file, or move it away")


def remove_files(path: Path) -> None:
    """Remove a restored file, and what SQLite keeps next to it. OncueError: one cannot be removed."""
    for one in _with(path, OF_SQLITE):
        try:
            one.unlink(missing_ok=True)
        except OSError as no:
            raise OncueError(f"cannot remove {printable(str(one))} ({no.strerror}): remove it yourself") from no


def _with(path: Path, beside: Iterable[str]) -> list[Path]:
    return [path, *(path.with_name(path.name + end) for end in beside)]


def refuse_other_kind(file: Path, engine: str) -> None:
    """Raise OncueError unless this is a file that `oncue backup` writes for this engine."""
    shown, beginning = printable(str(file)), b""
    try:
        if not file.is_fifo():  # opening one waits for a writer
            with file.open("rb") as backup:
                beginning = backup.read(16)
    except OSError as no:
        raise OncueError(f"cannot read the backup {shown} ({no.strerror}): check its name") from no
    kind = next((kind for start, kind in _KINDS.items() if beginning.startswith(start)), None)
    if kind is None:
        raise OncueError(f"{shown} is no backup of oncue: name a file that `oncue backup` wrote")
    if kind != engine:
        raise OncueError(
            f"{shown} is a backup of {_NAMES[kind]}, and --engine names {_NAMES[engine]}: name a database of the same "
            "kind; `oncue export` and `oncue apply` move jobs to another"
        )


def _name(part: Path, path: Path) -> None:
    """Give the file its name, unless another file has got it meanwhile."""
    try:
        os.link(part, path)
    except OSError as no:
        if no.errno not in _NO_LINKS:
            raise
        part.rename(path)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def _as_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as no:
        raise OncueError(f"cannot write {printable(str(path))} ({no.strerror}): name another file") from no
