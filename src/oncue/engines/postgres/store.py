"""Connections: two pools, a time limit on every call, and a fresh connection in place of a doubtful one.

Claims, settles and beats have connections of their own, so that no listing can keep a worker from saying it lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute
from asyncpg.pool import PoolConnectionProxy

from oncue.domain.errors import Invalid, StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.settings import Settings

if TYPE_CHECKING:
    Connection = PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]
else:
    Connection = PoolConnectionProxy
    Pool = asyncpg.Pool

T = TypeVar("T")

# Every table here is read through an index. A planner whose statistics are a minute old believes otherwise (a table
# that was empty then has a million rows now), and one sequential scan for a thousand keys costs half a second.
PLANNING = {"enable_seqscan": "off", "jit": "off"}

HOT_CONNECTIONS = 3
TRIES = 5

# The connection, or the server behind it, is of no more use: drop it, and let the caller repeat on another.
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,
    asyncpg.TargetServerAttributeNotMatched,
)
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


class Store:
    """Runs work on a connection, in a transaction, within the time limit; turns every outage into StoreUnavailable."""

    def __init__(self, url: str, pool: Pool, hot: Pool, timeout: Duration, *, bounced: bool) -> None:
        self.url = url
        self._bounced = bounced
        self._pool = pool
        self._hot = hot
        self._timeout = timeout

    @classmethod
    async def connect(cls, settings: Settings) -> Store:
        url, prepared = _split(settings.engine)
        with away_as_unavailable():
            async with asyncio.timeout(settings.store_timeout / SECOND):
                pool = await _pool(url, settings, settings.pool_size, prepared)
                hot = await _pool(url, settings, HOT_CONNECTIONS, prepared, plan_cache_mode="force_generic_plan")
        return cls(url, pool, hot, settings.store_timeout, bounced=not prepared)

    async def close(self) -> None:
        for pool in (self._pool, self._hot):
            try:
                async with asyncio.timeout(2):
                    await pool.close()
            except (TimeoutError, asyncpg.InterfaceError, OSError):
                pool.terminate()

    async def write(
        self, work: Callable[[Connection], Awaitable[T]], *, hot: bool = False, timeout: Duration | None = None
    ) -> T:
        """One transaction. It is repeated when the server undid it to resolve a deadlock: `work` must not mind."""
        for attempt in range(TRIES):
            try:
                async with self.connection(hot=hot, timeout=timeout) as connection, connection.transaction():
                    if self._bounced:
                        await connection.execute("; ".join(f"set local {key} = {to}" for key, to in PLANNING.items()))
                    return await work(connection)
            except _AGAIN:
                if attempt == TRIES - 1:
                    raise StoreUnavailable("the store is too busy; the call can be repeated") from None
        raise AssertionError("unreachable")

    async def fetch(self, statement: str, *args: Any, hot: bool = False) -> list[asyncpg.Record]:
        """One statement: a transaction of its own, with nothing to begin or commit."""
        if self._bounced:  # where each half of it could go to another server
            return await self.write(lambda connection: connection.fetch(statement, *args), hot=hot)
        async with self.connection(hot=hot) as connection:
            return await connection.fetch(statement, *args)

    @asynccontextmanager
    async def connection(self, *, hot: bool = False, timeout: Duration | None = None) -> AsyncIterator[Connection]:
        pool = self._hot if hot else self._pool
        with away_as_unavailable():
            async with asyncio.timeout((timeout or self._timeout) / SECOND):
                connection = await pool.acquire()
                try:
                    yield connection
                except _AWAY:
                    connection.terminate()
                    raise
                except asyncio.CancelledError:
                    connection.terminate()  # half-way through a conversation: nobody can know where
                    raise
                finally:
                    await pool.release(connection)


@contextmanager
def away_as_unavailable() -> Iterator[None]:
    try:
        yield
    except _AWAY as away:
        raise StoreUnavailable(
            f"PostgreSQL is away ({type(away).__name__}: {str(away)[:200]}); the call can be repeated"
        ) from away


async def _leave_as_it_is(connection: object) -> None:
    """We leave nothing behind on a connection, and the usual reset costs a round trip at every use."""


async def _pool(url: str, settings: Settings, size: int, prepared: bool, **server: str) -> Pool:
    """Behind PgBouncer (`?prepared_statements=off`) nothing may outlive a transaction: no settings, no statements."""
    limit = str(settings.store_timeout // 1000)
    session = {"statement_timeout": limit, "idle_in_transaction_session_timeout": limit, **PLANNING, **server}
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=size,
        max_inactive_connection_lifetime=0,
        reset=_leave_as_it_is,
        command_timeout=settings.store_timeout / SECOND,
        statement_cache_size=200 if prepared else 0,
        server_settings={"application_name": "oncue", **(session if prepared else {})},
        target_session_attrs=SessionAttribute.read_write,
    )


def _split(url: str) -> tuple[str, bool]:
    """Our own parameter out of the URL, the rest for the driver."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    choice = options.pop("prepared_statements", "on")
    if choice not in ("on", "off"):
        raise Invalid.of("engine", "bad_engine", f"prepared_statements is on or off, not {choice[:20]!r}")
    return urlunsplit(parts._replace(query=urlencode(options))), choice == "on"
