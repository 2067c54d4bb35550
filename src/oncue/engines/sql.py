"""SQL stays SQL: one file per verb, read once when the engine's module is imported."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache  # every module of an engine calls this
def statements(package: str) -> dict[str, str]:
    """Return the statements of `<package>/sql/*.sql`, by file name."""
    folder = files(package).joinpath("sql")
    return {
        entry.name.removesuffix(".sql"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


@cache  # asked for at every opening
def migrations(package: str) -> tuple[tuple[int, str], ...]:
    """Return the numbered migrations of `<package>/migrations/NNNN_name.sql`, in order."""
    folder = files(package).joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return tuple(sorted((int(entry.name.split("_")[0]), entry.read_text("utf-8")) for entry in found))


def tables(package: str) -> set[str]:
    """Return the names of the tables that the migrations create."""
    return {name for _, script in migrations(package) for name in re.findall(r"create table (\w+)", script)}
