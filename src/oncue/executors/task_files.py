"""The Python files that tasks are made of, found without importing them: to notice that one has changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from oncue.executors.loading import is_file

SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Stamp = tuple[int, int, int]  # inode, time of the last change, size: a save changes at least one


class TaskFiles:
    """The modules of `sources`, with the Python files beside and below them.

    Only folders with Python files are entered: a task file may lie in a folder with a million other files.
    """

    def __init__(self, sources: Iterable[str]) -> None:
        self.folders = sorted({folder for source in sources for folder in _folders(source.partition(":")[0])})
        self._seen = self._look()

    def __len__(self) -> int:
        return len(self._seen)

    def changed(self) -> set[Path]:
        """Return the files that were written, added or deleted since the last call."""
        before, self._seen = self._seen, self._look()
        return {Path(file) for file, _ in before.items() ^ self._seen.items()}

    def _look(self) -> dict[str, Stamp]:
        return dict(found for folder in self.folders for found in _files(folder))


def _folders(where: str) -> list[Path]:
    if is_file(where):
        return [Path(where).resolve().parent]
    top = where.partition(".")[0]
    try:
        spec = find_spec(top) or PathFinder.find_spec(top, [str(Path.cwd())])
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return []
    inside = spec.submodule_search_locations or [str(Path(spec.origin or ".").parent)]
    return [Path(folder).resolve() for folder in inside]


def _files(folder: Path) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # deleted meanwhile
        return
    python = [one for one in entries if one.name.endswith(".py")]
    if not python or any(one.name == "pyvenv.cfg" for one in entries):
        return
    for one in python:
        with suppress(OSError):
            status = one.stat()
            yield one.path, (status.st_ino, status.st_mtime_ns, status.st_size)
    for one in entries:
        if one.name not in SKIPPED and not one.name.startswith(".") and one.is_dir(follow_symlinks=False):
            yield from _files(Path(one.path))
