"""Enqueue a job in your own transaction: it exists if and when the transaction commits. PostgreSQL only.

    async with connection.transaction():
        await connection.execute("insert into users …")
        job_id = await oncue.enqueue(connection, welcome, user=7)

The function `enqueue` in the database does the work; this is a way to call it that any driver understands. Nothing of
oncue's server is imported, and no driver either.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from typing import Any, ParamSpec, Protocol, TypeAlias, TypedDict, Unpack, overload
from uuid import UUID

import msgspec

P = ParamSpec("P")

SCHEMA = "oncue"  # where the database of the application has oncue's tables

_NAMES = ("task", "payload", "options", "idempotency_key", "require_task")
_PLACES = {
    "asyncpg": ("$1", "$2", "$3", "$4", "$5"),
    "named": tuple(f":{name}" for name in _NAMES),
    "percent": ("%s",) * 5,
}


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
    """Enqueues by the function in this schema of the database."""

    def __init__(self, schema: str = SCHEMA) -> None:
        quoted = '"' + schema.replace('"', '""') + '"'
        self._calls = {
            style: f"select {quoted}.enqueue(cast({task} as text), cast(cast({payload} as text) as jsonb), "
            f"cast(cast({options} as text) as jsonb), cast({key} as text), cast({require} as boolean))"
            for style, (task, payload, options, key, require) in _PLACES.items()
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
        return self._call(connection, values)

    def _call(self, connection: Any, values: Values) -> Awaitable[UUID] | UUID:
        if hasattr(connection, "fetchval"):
            if hasattr(connection, "acquire"):
                raise TypeError("a pool has no transaction; acquire a connection, and enqueue with that")
            return _awaited(connection.fetchval(self._calls["asyncpg"], *values))
        if hasattr(connection, "scalar"):
            from sqlalchemy import text  # whoever has such a connection has it

            found = connection.scalar(text(self._calls["named"]), dict(zip(_NAMES, values, strict=True)))
            return _awaited(found) if inspect.isawaitable(found) else _id(found)
        if inspect.iscoroutinefunction(getattr(connection, "execute", None)):
            return _fetched(connection, self._calls["percent"], values)
        if hasattr(connection, "cursor"):
            with connection.cursor() as cursor:
                cursor.execute(self._calls["percent"], values)
                return _id(_first(cursor.fetchone()))
        kind = type(connection).__name__
        raise TypeError(f"cannot enqueue with {kind}: pass a connection of asyncpg, psycopg, SQLAlchemy or Django")


def _named(
    task: str,
    *,
    payload: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    require_task: bool = True,
) -> Values:
    return task, _json(payload or {}), _json(options or {}), idempotency_key, require_task


def _handled(task: Handle[...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Values:
    """The code has the task, so a worker that has it may be deployed later."""
    fields = task.job(args, kwargs)
    name, payload = fields.pop("task"), fields.pop("payload", {})
    return name, _json(payload), _json(fields), task.options.get("idempotency_key"), False


def _json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()


async def _awaited(found: Awaitable[Any]) -> UUID:
    return _id(await found)


async def _fetched(connection: Any, call: str, values: Values) -> UUID:
    cursor = await connection.execute(call, values)
    return _id(_first(await cursor.fetchone()))


def _first(row: Any) -> Any:
    """Return the only value of a row, whatever kind of rows the connection makes."""
    return next(iter(row.values())) if isinstance(row, Mapping) else row[0]


def _id(found: Any) -> UUID:
    return UUID(str(found))


enqueue = Outbox().enqueue
