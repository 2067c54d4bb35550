"""From a URL to an engine, its schema up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oncue.clock import Clock, SystemClock
from oncue.domain.errors import Invalid, OncueError
from oncue.domain.plain_text import printable
from oncue.domain.shown_url import shown_url
from oncue.engines.backup import Contents, Restored, Tell, new_file, refuse_other_kind, remove_files
from oncue.engines.port import Engine
from oncue.engines.schema import Pending
from oncue.settings import Settings

if TYPE_CHECKING:  # each engine is imported when it is used: neither needs the other's driver
    from oncue.engines.postgres.engine import PostgresEngine
    from oncue.engines.sqlite.engine import SqliteEngine


SQLITE = "sqlite:///"


async def open_engine(settings: Settings, clock: Clock | None = None, name: str = "oncue") -> Engine:
    """Open the database that `settings.engine` names. Any number of processes may do so at once.

    The engine waits by `clock`; for time it uses the database's own, or the one that callers pass. `name` is what a
    server shows for its connections.
    """
    return await _engine(settings.engine).open(settings, clock or SystemClock(), name)


async def migrate(settings: Settings) -> tuple[int, int]:
    """Bring the schema up to date and do nothing else; return the version before and the version now."""
    return await _engine(settings.engine).migrate(settings)


async def contract(settings: Settings) -> list[int]:
    """Migrate, then apply the contract migrations; return the numbers of these.

    OncueError: there is no database, or processes that are too old for one of them use it.
    """
    if not may_exist(settings.engine):
        raise OncueError(
            f"there is no database at {printable(shown_url(settings.engine))}: correct --engine or --data-dir"
        )
    return await _engine(settings.engine).contract(settings)


async def pending(settings: Settings) -> Pending:
    """Return what `migrate` and `contract` would do. Changes nothing, and creates no database."""
    return await _engine(settings.engine).pending(settings)


async def backup(settings: Settings, file: Path, tell: Tell) -> Contents:
    """Write what the database contains at one instant to a new file, while any number of processes work on it.

    OncueError: it failed, and there is no file.
    """
    _refuse_missing(settings.engine)
    engine = _engine(settings.engine)
    with new_file(file) as part:
        return await engine.backup(settings, part, tell)


async def restore(settings: Settings, file: Path, tell: Tell) -> Restored:
    """Restore a backup to where there is no database yet, or a schema without a store, and migrate it.

    OncueError: it failed, and nothing was restored.
    """
    engine = _engine(settings.engine)
    refuse_other_kind(file, engine.name)
    return await engine.restore(settings, file, tell)


def remove_restored(settings: Settings) -> bool:
    """Remove what `restore` has just made, if that is a file. False: it is not, and stays."""
    if not is_file(settings.engine):
        return False
    remove_files(Path(settings.engine.removeprefix(SQLITE)))
    return True


def is_file(url: str) -> bool:
    """Return whether a database at this URL is a file."""
    return url.startswith(SQLITE)


def may_exist(url: str) -> bool:
    """Return whether there can be a database at this URL: for a file, whether there is one."""
    return not is_file(url) or Path(url.removeprefix(SQLITE)).exists()


async def open_existing(settings: Settings) -> Engine:
    """Open a database for a command that only looks. Invalid: there is none; it is not created."""
    _refuse_missing(settings.engine)
    return await open_engine(settings)


def _refuse_missing(url: str) -> None:
    if not may_exist(url):
        where = f"there is no database here ({shown_url(url)})"
        raise Invalid.of("engine", "no_database", f"{where}: check --engine and --data-dir")


def absolute_url(url: str) -> str:
    """Return a URL of the same database that also works from another folder."""
    file = url.removeprefix(SQLITE)
    return f"{SQLITE}{Path(file).absolute()}" if url.startswith(SQLITE) and file.strip(":") == file != "" else url


def _engine(url: str) -> type[SqliteEngine] | type[PostgresEngine]:
    if url.startswith(SQLITE):
        from oncue.engines.sqlite.engine import SqliteEngine

        return SqliteEngine
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from oncue.engines.postgres.engine import PostgresEngine
        except ModuleNotFoundError as missing:
            raise Invalid.of("engine", "missing_driver", "needs a driver: pip install 'oncue[postgres]'") from missing
        return PostgresEngine
    raise Invalid.of(
        "engine",
        "bad_engine",
        f"{url.split(':')[0][:20]!r} is not a supported engine: write sqlite:///file.db or postgresql://user@host/database",
    )
