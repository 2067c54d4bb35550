"""Outboxes in applications' databases: SQLite files, and PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote, unquote

import msgspec

from oncue.domain.errors import OldPrimary, OncueError
from oncue.domain.instants import Instant

if TYPE_CHECKING:
    from oncue.engines.postgres.dialling import Dialling

LOCKED_FOR = 30.0  # seconds that an application's transaction may keep a SQLite file locked
CONNECTED_WITHIN = 10.0  # seconds, and so long may a statement take

T = TypeVar("T")


class Row(msgspec.Struct, frozen=True):
    """A job that an application wants. `why`: it was refused, and is tried again from `retry_at` on.

    SQLite stores whatever it is given: its columns may hold other types than these.
    """

    id: str
    task: str
    payload: str  # JSON
    options: str  # JSON: the other fields of the job
    idempotency_key: str | None
    at: Instant
    retry_at: Instant
    why: str | None


class Refusal(msgspec.Struct, frozen=True):
    why: str
    retry_at: Instant
    id: str


class SourceUnavailable(OncueError):
    """The application's database does not answer."""


class Source(Protocol):
    async def next(self, now: Instant, limit: int) -> list[Row]:
        """Return rows that wait: those never tried first, in their order."""
        ...

    async def listed(self, limit: int) -> list[Row]: ...

    async def settle(self, done: Sequence[str], refused: Sequence[Refusal]) -> None:
        """Delete rows that became jobs, and note why others did not. Rows that are gone are left out."""
        ...


class Statements:
    """What is asked of a table, with a driver's places for values."""

    def __init__(self, table: str, *places: str) -> None:
        self.table = table
        quoted, (one, two, three) = '"' + table.replace('"', '""') + '"', places
        rows = f"select {', '.join(Row.__struct_fields__)} from {quoted}"
        self.next = f"{rows} where retry_at <= {one} and id is not null order by retry_at, id limit {two}"
        self.listed = f"{rows} order by id limit {one}"
        self.done = f"delete from {quoted} where id = {one}"
        self.refused = f"update {quoted} set why = {one}, retry_at = {two} where id = {three}"

    def missing(self) -> OncueError:
        return OncueError(f"the database has no table {self.table}: create it as `oncue outbox ddl` prints it")


@asynccontextmanager
async def opened(url: str, table: str) -> AsyncIterator[Source]:
    """OncueError: this URL names no database with such a table. SourceUnavailable: it does not answer."""
    if url.startswith("sqlite:///"):
        sql = Statements(table, "?", "?", "?")
        with closing(_open_file(unquote(url.removeprefix("sqlite:///")), sql)) as file:
            yield SqliteSource(file, sql)
    elif url.startswith(("postgresql://", "postgres://")):
        from asyncpg.connect_utils import SessionAttribute

        from oncue.engines.postgres.connecting import unreadable_as_invalid

        sql = Statements(table, "$1", "$2", "$3")
        with _from_postgres(sql), unreadable_as_invalid("--from"):
            connection = await _dialling().connect(
                url,
                timeout=CONNECTED_WITHIN,
                command_timeout=CONNECTED_WITHIN,
                target_session_attrs=SessionAttribute.read_write,
            )
        try:
            yield PostgresSource(connection, sql)
        finally:
            connection.terminate()
    else:
        raise OncueError("name the application's database as sqlite:///app.db or postgresql://user@host/database")


@cache
def _dialling() -> Dialling:
    """Return one for the process: it remembers which server was the newest primary."""
    from oncue.engines.postgres.dialling import Dialling

    return Dialling()


class SqliteSource:
    """The file is used in a thread: an application may have locked it."""

    def __init__(self, connection: sqlite3.Connection, sql: Statements) -> None:
        self._connection = connection
        self._sql = sql

    async def next(self, now: Instant, limit: int) -> list[Row]:
        return await self._rows(self._sql.next, now, limit)

    async def listed(self, limit: int) -> list[Row]:
        return await self._rows(self._sql.listed, limit)

    async def settle(self, done: Sequence[str], refused: Sequence[Refusal]) -> None:
        def settle() -> None:
            with self._connection:
                self._connection.execute("begin immediate")
                self._connection.executemany(self._sql.done, [(one,) for one in done])
                self._connection.executemany(self._sql.refused, [msgspec.structs.astuple(one) for one in refused])

        await self._threaded(settle)

    async def _rows(self, statement: str, *given: int) -> list[Row]:
        found = await self._threaded(lambda: self._connection.execute(statement, given).fetchall())
        return [Row(*row) for row in found]

    async def _threaded(self, work: Callable[[], T]) -> T:
        with _from_sqlite(self._sql):
            return await asyncio.to_thread(work)


def _open_file(path: str, sql: Statements) -> sqlite3.Connection:
    with _from_sqlite(sql):
        try:
            there = Path(path).is_file()
        except OSError as no:  # the name is too long
            raise OncueError(f"{path} cannot be read: {no.strerror}") from None
        if not there:
            raise OncueError(f"there is no file {path}; an absolute path has one / more: sqlite:////srv/app.db")
        where = f"file:{quote(str(Path(path).absolute()))}?mode=rw"
        return sqlite3.connect(where, LOCKED_FOR, uri=True, isolation_level=None, check_same_thread=False)


@contextmanager
def _from_sqlite(sql: Statements) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if "no such table" in str(error):
            raise sql.missing() from error
        raise SourceUnavailable(f"the application's SQLite file cannot be used: {error}") from error


class PostgresSource:
    def __init__(self, connection: Any, sql: Statements) -> None:
        self._connection = connection
        self._sql = sql

    async def next(self, now: Instant, limit: int) -> list[Row]:
        return await self._rows(self._sql.next, now, limit)

    async def listed(self, limit: int) -> list[Row]:
        return await self._rows(self._sql.listed, limit)

    async def settle(self, done: Sequence[str], refused: Sequence[Refusal]) -> None:
        with _from_postgres(self._sql):
            async with self._connection.transaction():
                await self._connection.executemany(self._sql.done, [(one,) for one in sorted(done)])
                given = [msgspec.structs.astuple(one) for one in sorted(refused, key=lambda one: one.id)]
                await self._connection.executemany(self._sql.refused, given)

    async def _rows(self, statement: str, *given: int) -> list[Row]:
        with _from_postgres(self._sql):
            return [Row(*row) for row in await self._connection.fetch(statement, *given)]


@contextmanager
def _from_postgres(sql: Statements) -> Iterator[None]:
    import asyncpg

    try:
        yield
    except asyncpg.UndefinedTableError as error:
        raise sql.missing() from error
    except (OSError, TimeoutError, ValueError, asyncpg.InterfaceError, asyncpg.PostgresError, OldPrimary) as error:
        raise SourceUnavailable(f"the application's PostgreSQL cannot be used: {error}") from error
