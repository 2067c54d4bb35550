"""Enqueue a job in your own transaction: it exists if and when the transaction commits.

    async with connection.transaction():
        await connection.execute("insert into users …")
        job_id = await oncue.enqueue(connection, welcome, user=7)

On PostgreSQL with oncue's tables the function `enqueue` in the database does the work; this is a way to call it that
any driver understands. In other databases a row of the table `oncue_outbox` waits for `oncue relay`. Nothing of oncue's
server is imported, and no driver either.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeAlias, TypedDict, Unpack, overload
from uuid import UUID

import msgspec

from oncue.clock import SystemClock
from oncue.domain.ids import uuid7
from oncue.domain.plain_json import is_not_finite

P = ParamSpec("P")

SCHEMA = "oncue"  # where the database of the application has oncue's tables

TABLE = "oncue_outbox"  # in databases of applications that oncue's tables are not in
DDL = f"""\
create table {TABLE} (
  id text not null primary key,       -- the Idempotency-Key of the request, unless the row has its own
  task text not null,
  payload text not null,              -- JSON
  options text not null,              -- JSON: the other fields of the job
  idempotency_key text unique,
  at bigint not null,                 -- microseconds since 1970
  retry_at bigint not null default 0,
  why text);                          -- why it was refused
create index {TABLE}_next on {TABLE} (retry_at, id);
"""

_NAMES = ("task", "payload", "options", "idempotency_key", "require_task")
_COLUMNS = ("id", "task", "payload", "options", "idempotency_key", "at")
_KEY = re.compile("[ -~]{1,255}")


class Handle(Protocol[P]):
    """A task as code knows it (`oncue.tasks.handle`): arguments are checked before they are sent."""

    @property
    def options(self) -> Mapping[str, Any]: ...
    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], /) -> dict[str, Any]:
        """Return the fields of the job of a call, in JSON values. TypeError, Invalid: the arguments do not fit."""
        ...


class Named(TypedDict, total=False):
    """What is sent with the name of a task."""

    payload: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    idempotency_key: str | None
    require_task: bool


class AsyncpgConnection(Protocol):
    def fetchval(self, query: str, /, *args: Any) -> Awaitable[Any]: ...


class AsyncConnection(Protocol):
    """Of psycopg or SQLAlchemy, also its session."""

    def execute(self, statement: Any, parameters: Any = ..., /) -> Awaitable[Any]: ...


class CursorConnection(Protocol):
    """Of psycopg, of Django, or of any other driver that follows PEP 249."""

    def cursor(self) -> Any: ...


class ScalarConnection(Protocol):
    """Of SQLAlchemy, also its session."""

    def scalar(self, statement: Any, parameters: Any = ..., /) -> Any: ...


Asynchronous: TypeAlias = AsyncpgConnection | AsyncConnection
Synchronous: TypeAlias = CursorConnection | ScalarConnection
Values: TypeAlias = tuple[str, str, str, str | None, bool]  # of the parameters of the function


class Outbox:
    """Enqueues by the function in this schema of the database. With `table`, and in SQLite, by a row of that table,
    which `oncue relay` turns into a job; then the id is the row's."""

    def __init__(self, schema: str = SCHEMA, *, table: str | None = None) -> None:
        self._by_row = table is not None
        self._calls = {style: _calling(_quoted(schema), *places) for style, places in _places(_NAMES).items()}
        self._inserts = {
            style: _inserting(_quoted(table or TABLE), *places) for style, places in _places(_COLUMNS).items()
        }

    # A connection with an awaitable `execute` may have a `cursor` and a `scalar`, too: the first that fits decides.
    @overload
    def enqueue(self, connection: Asynchronous, task: str, /, **given: Unpack[Named]) -> Awaitable[UUID]: ...
    @overload
    def enqueue(
        self, connection: Asynchronous, task: Handle[P], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[UUID]: ...
    @overload
    def enqueue(self, connection: Synchronous, task: str, /, **given: Unpack[Named]) -> UUID: ...
    @overload
    def enqueue(self, connection: Synchronous, task: Handle[P], /, *args: P.args, **kwargs: P.kwargs) -> UUID: ...
    def enqueue(self, connection: Any, task: str | Handle[...], /, *args: Any, **given: Any) -> Awaitable[UUID] | UUID:
        """Enqueue one run of a task in the current transaction of a connection; return the id of its job.

        `task` is a task of your code, with its arguments; `task.using(…)` has options. Or it is a name, with `payload`,
        `options` (the other fields of a job), `idempotency_key` and `require_task`: False, if a worker that has the
        task may be deployed later. An async connection returns the id when it is awaited.
        """
        values = _named(task, *args, **given) if isinstance(task, str) else _handled(task, args, given)
        if self._by_row or _is_sqlite(connection):
            return _ask(connection, self._inserts, _COLUMNS, _row(*values))
        return _ask(connection, self._calls, _NAMES, values)


def _ask(
    connection: Any, statements: Mapping[str, str], names: Sequence[str], values: tuple[Any, ...]
) -> Awaitable[UUID] | UUID:
    """Run the statement on any kind of connection; return the id that it returns."""
    if hasattr(connection, "fetchval"):
        if hasattr(connection, "acquire"):
            raise TypeError("a pool has no transaction; acquire a connection, and enqueue with that")
        return _awaited(connection.fetchval(statements["asyncpg"], *values))
    if hasattr(connection, "scalar"):
        from sqlalchemy import text  # whoever has such a connection has it

        found = connection.scalar(text(statements["named"]), dict(zip(names, values, strict=True)))
        return _awaited(found) if inspect.isawaitable(found) else _id(found)
    if inspect.iscoroutinefunction(getattr(connection, "execute", None)):
        return _fetched(connection, statements["percent"], values)
    if _is_sqlite3(connection):
        return _id(_first(next(iter(connection.execute(statements["question"], values).fetchall()), None)))
    if hasattr(connection, "cursor"):
        with connection.cursor() as cursor:
            cursor.execute(statements["percent"], values)
            return _id(_first(cursor.fetchone()))
    kind = type(connection).__name__
    raise TypeError(f"cannot enqueue with {kind}: pass a connection of asyncpg, psycopg, SQLAlchemy, Django or sqlite3")


def _is_sqlite(connection: Any) -> bool:
    if _is_sqlite3(connection) or getattr(connection, "vendor", None) == "sqlite":  # Django's
        return True
    bound = connection.get_bind() if hasattr(connection, "get_bind") else connection  # a session of SQLAlchemy
    return getattr(getattr(bound, "dialect", None), "name", None) == "sqlite"


def _is_sqlite3(connection: Any) -> bool:
    """Whether it is a connection of the standard library, which is imported then."""
    module = sys.modules.get("sqlite3")
    return module is not None and isinstance(connection, module.Connection)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _places(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the places of values, as each kind of driver writes them."""
    return {
        "asyncpg": tuple(f"${place}" for place, _ in enumerate(names, 1)),
        "named": tuple(f":{name}" for name in names),
        "percent": ("%s",) * len(names),
        "question": ("?",) * len(names),
    }


def _calling(schema: str, task: str, payload: str, options: str, key: str, require: str) -> str:
    return (
        f"select {schema}.enqueue(cast({task} as text), cast(cast({payload} as text) as jsonb), "
        f"cast(cast({options} as text) as jsonb), cast({key} as text), cast({require} as boolean))"
    )


def _inserting(table: str, *places: str) -> str:
    """The same key with the same job returns the row that has it, and with another job nothing."""
    same = " and ".join(f"o.{name} = excluded.{name}" for name in ("task", "payload", "options"))
    return (
        f"insert into {table} as o ({', '.join(_COLUMNS)}) values ({', '.join(places)}) "
        f"on conflict (idempotency_key) do update set at = o.at where {same} returning id"
    )


def _row(task: str, payload: str, options: str, key: str | None, _: bool) -> tuple[str, str, str, str, str | None, int]:
    """Return the columns of a row. Whether the task is registered is known to the server alone, which sees it later."""
    if key is not None and not _KEY.fullmatch(key):
        raise ValueError("idempotency_key must be 1 to 255 printable ASCII characters")
    at = SystemClock().now()
    return str(uuid7(at, os.urandom(8))), task, payload, options, key, at


def _named(
    task: str,
    *,
    payload: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    require_task: bool = True,
) -> Values:
    return (
        task,
        _json({} if payload is None else payload),
        _json({} if options is None else options),
        idempotency_key,
        require_task,
    )


def _handled(task: Handle[...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Values:
    """The code has the task, so a worker that has it may be deployed later."""
    fields = task.job(args, kwargs)
    name, payload = fields.pop("task"), fields.pop("payload", {})
    return name, _json(payload), _json(fields), task.options.get("idempotency_key"), False


def _json(value: Mapping[str, Any]) -> str:
    stored = msgspec.json.encode(value)
    if not isinstance(value, Mapping):
        raise TypeError(f"payload and options must be dictionaries, not {type(value).__name__}")
    if b"null" in stored and is_not_finite(value):
        raise ValueError("a number is NaN or infinite, which JSON does not have; send None or a text instead")
    return stored.decode()


async def _awaited(found: Awaitable[Any]) -> UUID:
    return _id(await found)


async def _fetched(connection: Any, call: str, values: Values) -> UUID:
    cursor = await connection.execute(call, values)
    return _id(_first(await cursor.fetchone()))


def _first(row: Any) -> Any:
    """Return the only value of a row, whatever kind of rows the connection makes."""
    if row is None:
        return None
    return next(iter(row.values())) if isinstance(row, Mapping) else row[0]


def _id(found: Any) -> UUID:
    if found is None:
        raise ValueError("this idempotency_key was already used with another task, payload or options; use a new key")
    return UUID(str(found))


enqueue = Outbox().enqueue
