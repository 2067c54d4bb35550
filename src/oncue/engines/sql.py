"""SQL stays SQL: one file per verb, read once when the engine's module is imported."""

from __future__ import annotations

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


def newest_migration(package: str) -> int:
    """Return the number of the newest migration."""
    names = (entry.name for entry in files(package).joinpath("migrations").iterdir())
    return max(int(name.split("_")[0]) for name in names if name.endswith(".sql"))


def migrations(package: str) -> list[tuple[int, str]]:
    """Return the numbered migrations of `<package>/migrations/NNNN_name.sql`, in order."""
    folder = files(package).joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(entry.name.split("_")[0]), entry.read_text("utf-8")) for entry in found)
