"""SQL stays SQL: files of statements, one per noun, each statement with its name above it. Read once, at import."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache  # every module of an engine calls this
def statements(package: str) -> dict[str, str]:
    """Return the statements of `<package>/sql/*.sql` by their names, which are unique over all files."""
    found: dict[str, str] = {}
    for entry in files(package).joinpath("sql").iterdir():
        nameless, *parts = _NAME.split(entry.read_text("utf-8"))
        if nameless.strip():
            raise ValueError(f"{package}: a statement in {entry.name} has no name")
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"{package}: two statements are called {name}")
            found[name] = text.strip("\n") + "\n"
    return found


@cache  # asked for at every opening
def migrations(package: str) -> tuple[tuple[int, str], ...]:
    """Return the numbered migrations of `<package>/migrations/NNNN_name.sql`, in order."""
    folder = files(package).joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return tuple(sorted((int(entry.name.split("_")[0]), entry.read_text("utf-8")) for entry in found))


def tables(package: str) -> set[str]:
    """Return the names of the tables that the migrations create."""
    return {name for _, script in migrations(package) for name in re.findall(r"create table (\w+)", script)}
