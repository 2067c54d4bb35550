"""Copies a store to a file and back, while other processes write to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

from oncue.domain.errors import OncueError
from oncue.domain.plain_text import printable
from oncue.engines.backup import OF_SQLITE, Contents, Restored, Tell, contents, new_file, refuse_existing
from oncue.engines.schema import missing
from oncue.engines.sql import migrations, statements
from oncue.engines.sqlite.connecting import refuse_what_is_no_file
from oncue.engines.sqlite.migrate import found_schema, migrate
from oncue.engines.sqlite.partitions import pieces
from oncue.engines.sqlite.reasons import reason
from oncue.engines.sqlite.store import CACHE_READING, Connection, Store, connect, fetch, path_of, stream
from oncue.settings import Settings

PAGES = 2_000  # 8 MB, copied in a few milliseconds
STEPS = 50_000  # of SQLite's machine, between two looks at whether to stop

_SQL = statements("oncue.engines.sqlite")


async def backup(settings: Settings, part: Path, tell: Tell) -> Contents:
    """Copy the store as it is at one instant to an empty file; return what it contains."""
    path = path_of(settings.engine)
    refuse_what_is_no_file(path)
    async with _reading(path) as source:
        version = _version(source, path)
        tell("counting")
        found = _contents(source, version)
        await _copy(source, path, part, tell)
    async with _stoppable(part) as copy:
        copy.execute("pragma journal_mode = delete")  # the file is all there is, also on a disk that is read-only
        _check(copy, path, tell)
    return found


async def restore(settings: Settings, file: Path, tell: Tell) -> Restored:
    """Copy a backup to where there is no database yet, and migrate it before it gets its name."""
    path = path_of(settings.engine)
    refuse_existing(path, *OF_SQLITE)  # an old -wal would be written into the restored file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as no:
        raise OncueError(f"cannot create the folder {printable(str(path.parent))} ({no.strerror})") from no
    with new_file(path) as part:
        async with _reading(file) as source:
            version = _version(source, file)
            await _copy(source, file, part, tell)
        async with _stoppable(part) as copy:
            _check(copy, file, tell)
        tell("migrating")
        store = await Store.open(msgspec.structs.replace(settings, engine=f"sqlite:///{part}"))
        try:
            _, after = await migrate(store, settings.history_timeout)
        finally:
            await store.close()
        tell("counting")
        async with _stoppable(part) as copy:
            copy.execute("pragma journal_mode = wal")
            found = _contents(copy, after)
    return Restored(found, version)


@asynccontextmanager
async def _reading(path: Path) -> AsyncIterator[Connection]:
    """Open one snapshot of a store that other processes may write to, or of a file on a disk that is read-only."""
    async with _stoppable(path) as db:
        db.execute("begin")
        yield db
        db.execute("rollback")


@asynccontextmanager
async def _stoppable(path: Path) -> AsyncIterator[Connection]:
    """Open a connection whose statements end early when the calling task is cancelled."""
    task = asyncio.current_task()
    assert task is not None, "this is a coroutine"
    with _as_error(path):
        try:
            with closing(_connected(path)) as db:
                db.set_progress_handler(lambda: task.cancelling() > 0, STEPS)
                yield db
        except apsw.InterruptError:
            await asyncio.sleep(0)  # raises what stopped it
            raise


def _connected(path: Path) -> Connection:
    try:
        db = connect(path, CACHE_READING)
        db.execute("select 1 from sqlite_master").close()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if path.with_name(f"{path.name}-wal").exists():
            raise
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return Connection(f"file:{quote(str(path.absolute()))}?immutable=1", flags=flags)
    return db


def _version(db: Connection, path: Path) -> int:
    """Return the version of its schema. OncueError: it is another program's, or too new."""
    found = found_schema(db)
    missing(migrations("oncue.engines.sqlite"), found, printable(str(path)))
    if not found.version:
        raise OncueError(f"{printable(str(path))} is empty: it has no tables of oncue")
    return found.version


async def _copy(source: Connection, path: Path, part: Path, tell: Tell) -> None:
    """Copy all pages of what `source` sees. The file is synced when it is complete, and is worth nothing before."""
    with _as_error(path, part.parent), closing(Connection(str(part))) as copy:
        copy.execute("pragma journal_mode = off; pragma synchronous = off")
        with copy.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(PAGES)
                done = copying.page_count - copying.remaining
                tell(f"copied {done * 100 // max(copying.page_count, 1)} %")
                await asyncio.sleep(0)  # Ctrl-C is noticed here


def _check(copy: Connection, source: Path, tell: Tell) -> None:
    tell("checking")
    [first, *_] = fetch(copy, "pragma quick_check(1)")
    if first != ("ok",):
        what = printable(first[0].rpartition("\n")[2])  # after the name of the database
        raise OncueError(f"{printable(str(source))} is damaged ({what}): use an older backup")


def _contents(db: Connection, version: int) -> Contents:
    return contents(version, _hashed(db))


def _hashed(db: Connection) -> Iterator[tuple[str, int, int]]:
    every = [_SQL["contents"], *(_SQL["contents_of_piece"].format(piece=one.name) for one in pieces(db))]
    for statement in every:
        for row in stream(db, statement):
            yield row[0], 1, int.from_bytes(blake2b(repr(row).encode(), digest_size=8).digest())


@contextmanager
def _as_error(path: Path, folder: Path | None = None) -> Iterator[None]:
    try:
        yield
    except (apsw.Error, OSError) as no:
        to = "" if folder is None else f" to the folder {printable(str(folder))}"
        raise OncueError(f"{printable(str(path))} cannot be copied{to} ({reason(no)})") from no
