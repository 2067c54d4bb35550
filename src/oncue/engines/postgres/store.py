"""Connections: three pools, a time limit on every call, and a new connection in place of a doubtful one.

Claims, settles and heartbeats have their own connections, so that no list delays a worker's heartbeat. So does the
ping: large batches that take all other connections do not mean that the server is unavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg

from oncue.clock import Clock, SystemClock
from oncue.domain.errors import OldPrimary, OncueError, StoreForbidden, StoreFull, StoreRefused, StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.engines.patience import within
from oncue.engines.postgres.connecting import (
    PINNED,
    PLANNING,
    Address,
    Apart,
    Place,
    limits,
    options,
    read_address,
    unreadable_as_invalid,
)
from oncue.engines.postgres.dialling import Dialling
from oncue.engines.postgres.hosts import Answer, name_of, understood
from oncue.engines.postgres.lookout import Lookout
from oncue.engines.postgres.pooling import Pool
from oncue.engines.postgres.reasons import reason
from oncue.engines.postgres.silence import Silences
from oncue.engines.postgres.standstill import PostgresStandstill
from oncue.engines.sql import statements
from oncue.settings import Settings

Connection = Apart
T = TypeVar("T")
Fetch = Callable[..., Awaitable[Sequence[asyncpg.Record]]]  # of the store, or within a transaction

POOL_SIZE = 8  # unless the role or the setting says otherwise
HOT_CONNECTIONS = 3
PING_CONNECTIONS = 2  # for pings, and for a small write that may wait for a replica meanwhile
IDLE_LIFETIME = Duration(10 * SECOND)  # then a connection is closed, so that bursts do not keep what others need
ASK_TIMEOUT = Duration(2 * SECOND)  # for a host that is not in use
TRIES = 5
CONNECTION_RETRY_DELAY = Duration(SECOND // 10)  # between two tries to get a connection, when the server has none left
CONNECTION_TRIES = 30

# The connection, or its server, is unusable: drop the connection, and let the caller retry on another.
CONNECTION_ERRORS = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,
)
# The exchange was interrupted at an unknown point: not even a rollback can be requested.
_DOUBTFUL = (*CONNECTION_ERRORS, asyncio.CancelledError)
# The server rolled back: because of a deadlock, or because a table was altered under a prepared statement.
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.InvalidCachedStatementError)

# The server answers, but refuses the data: a text with a NUL, a number out of range, a key that is too long.
_REFUSED = (asyncpg.DataError, asyncpg.ProgramLimitExceededError, UnicodeEncodeError, OverflowError)

_SQL = statements("oncue.engines.postgres")

# The driver's message for a connection that the server closed while it was idle: nothing was sent; use another.
_NOT_SENT = "cannot switch to state"


class Store:
    """Runs work on a connection, in a transaction, within the time limit; turns every outage into StoreUnavailable, and
    data that can never be written into StoreRefused.
    """

    def __init__(
        self,
        address: Address,
        dialling: Dialling,
        place: Place,
        pools: tuple[Pool, Pool, Pool],
        timeout: Duration,
        clock: Clock,
        name: str,
    ) -> None:
        self.clock = clock
        self.address = address
        self._dialling = dialling
        self.place = place
        self._name = name
        self._bounced = address.bounced
        self._pool, self._hot, self._asking = pools
        self._timeout = timeout
        self.standstill = PostgresStandstill(self.ask, clock)
        connect = partial(self._connect_outside_pools, address.url, name)
        self.silences = Silences(connect, clock, self._drop_idle, self.standstill)
        self.lookout = Lookout(
            dialling, address.url, self._ask_host, self._review_server, clock, notes=not address.bounced
        )

    @classmethod
    async def connect(cls, settings: Settings, clock: Clock | None = None, name: str = "oncue") -> Store:
        """Open a store whose connections have this name at the server. StoreFull: there is none left for it."""
        address, limit = read_address(settings.engine), settings.store_timeout
        url, bounced = address.url, address.bounced
        clock = clock or SystemClock()
        dialling, place = Dialling(clock), Place(address.schema)

        def connect(**session: str) -> Callable[[], Awaitable[Apart]]:
            given = {**PLANNING, **limits(limit), **session}
            return lambda: dialling.connect(url, **options(limit, bounced, name, given | place.session))

        pool = Pool(connect(), clock, settings.pool_size or POOL_SIZE, IDLE_LIFETIME)
        hot = Pool(connect(plan_cache_mode="force_generic_plan"), clock, HOT_CONNECTIONS, IDLE_LIFETIME, kept=1)
        asking = Pool(connect(), clock, PING_CONNECTIONS, IDLE_LIFETIME)
        store = cls(address, dialling, place, (pool, hot, asking), limit, clock, name)
        try:
            with unavailable_at_start(url), unreadable_as_invalid():
                async with asyncio.timeout(limit / SECOND):
                    await store._check_database()
        except BaseException:
            await store.close()
            raise
        store.lookout.start()
        return store

    async def _check_database(self) -> None:
        """Find our schema. OncueError: this database cannot store our data, or not where our queries would find it."""
        for wanted in (self._hot, self._pool):
            pool, connection = await self._acquire(wanted)
            row = await connection.fetchrow(_SQL["place"])
            assert row is not None, "a row of constants"
            encoding, there = row
            if encoding != "UTF8":
                raise OncueError(
                    f"the encoding of this database is {encoding}, which cannot store every text: create a UTF8 "
                    "database (create database oncue encoding 'UTF8' template template0)"
                )
            if self.place.schema is None:
                if there is None:
                    raise OncueError(
                        "the search_path of this user names no existing schema: create the schema, correct the "
                        "search_path (alter role … set search_path = public), or name one in the URL (?schema=oncue)"
                    )
                self.place.schema = there
                if not self._bounced:
                    await connection.execute(f"set search_path = {self.place.quoted}")
            await pool.release(connection)

    def _drop_idle(self) -> None:
        for pool in (self._pool, self._hot, self._asking):
            pool.drop_idle()

    async def close(self) -> None:
        self.silences.close()
        self.standstill.close()
        self.lookout.close()
        for pool in (self._pool, self._hot, self._asking):
            try:
                async with asyncio.timeout(2):
                    await pool.close()
            except CONNECTION_ERRORS:
                pool.terminate()
        await self._dialling.close()

    @property
    def server(self) -> tuple[str, int | None]:
        """Return the host and port of the server that is used, and its timeline, if it says so."""
        chosen = self._dialling.chosen(self.address.url)
        if chosen is None:
            return "no server", None
        return name_of(chosen.host), None if chosen.identity is None else chosen.identity.timeline

    def pools(self) -> dict[str, tuple[int, int]]:
        """Return how many connections are open, and how many in use."""
        apart = {"hot": (self._hot,), "other": (self._pool, self._asking)}
        return {
            name: (sum(one.get_size() for one in some), sum(one.get_size() - one.get_idle_size() for one in some))
            for name, some in apart.items()
        }

    async def write(
        self, work: Callable[[Connection], Awaitable[T]], *, hot: bool = False, timeout: Duration | None = None
    ) -> T:
        """Run one transaction. It is repeated after a deadlock: `work` must be repeatable."""
        pool = self._hot if hot else self._pool

        async def once() -> T:
            if self.standstill.why is not None:
                await self.standstill.over()
            return await self._transaction(work, pool, timeout=timeout)

        return await self._repeated(once, timeout)

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Read from one snapshot, in any number of statements."""
        begin = "begin isolation level repeatable read read only"
        return await self._repeated(lambda: self._transaction(work, self._pool, begin=begin))

    async def fetch(self, statement: str, *args: Any, hot: bool = False) -> list[asyncpg.Record]:
        """Run one statement in an implicit transaction, without begin and commit."""
        return await self._fetch(self._hot if hot else self._pool, statement, *args)

    async def ask(self, statement: str) -> list[asyncpg.Record]:
        """Run a statement on connections reserved for pings: it waits for none of our calls."""
        return await self._fetch(self._asking, statement)

    async def _fetch(self, pool: Pool, statement: str, *args: Any) -> list[asyncpg.Record]:
        async def fetch() -> list[asyncpg.Record]:
            if self._bounced:  # each half of it could go to another server
                return await self._transaction(lambda connection: connection.fetch(statement, *args), pool)
            async with self._borrowed(pool) as connection:
                return await connection.fetch(statement, *args)

        return await self._repeated(fetch)

    async def alone(self, statement: str, timeout: Duration | None = None) -> None:
        """Run a statement that cannot be part of a transaction."""
        with as_unavailable(), _denied_as_forbidden():
            async with within(timeout or self._timeout):
                connection = await self._connect_outside_pools(self.address.url, self._name, timeout)
                try:
                    await connection.execute(statement)
                    await connection.close()
                finally:
                    connection.terminate()

    async def connect_listener(self) -> Apart:
        """Return a connection for hints, past PgBouncer if the URL says how; the caller closes it."""
        return await self._connect_outside_pools(self.address.listen_url or self.address.url, f"{self._name} signals")

    async def _connect_outside_pools(self, url: str, name: str, timeout: Duration | None = None) -> Apart:
        limit = timeout or self._timeout
        bounced = self._bounced and url == self.address.url
        given = options(limit, bounced, name, limits(limit) | self.place.session)
        with as_unavailable(asyncpg.PostgresError):
            return await self._dialling.connect(url, command_timeout=limit / SECOND, **given)

    async def _ask_host(self, host: str) -> Answer:
        return await self._dialling.ask(host, options(ASK_TIMEOUT, self._bounced, self._name, limits(ASK_TIMEOUT)))

    async def _review_server(self) -> None:
        [row] = await self.fetch(_SQL["identity"], hot=True)
        self._dialling.review(self.address.url, *understood(row))

    async def _repeated(self, once: Callable[[], Awaitable[T]], timeout: Duration | None = None) -> T:
        with self.naming_old_primary(), as_unavailable(), _unstorable_as_refused(), _denied_as_forbidden():
            async with within(timeout or self._timeout):
                for _ in range(TRIES):
                    try:
                        return await once()
                    except _AGAIN:
                        continue
                    except asyncpg.InternalClientError as refused:
                        if not str(refused).startswith(_NOT_SENT):
                            raise
        raise StoreUnavailable("too many other transactions change the same rows; retry the call")

    @contextmanager
    def naming_old_primary(self) -> Iterator[None]:
        """Say of an outage that an old primary was refused meanwhile: that is what an operator can mend."""
        try:
            yield
        except StoreUnavailable as away:
            if type(away) is StoreUnavailable and (no := self._dialling.refused) is not None:
                raise OldPrimary(str(no)) from away
            raise

    async def _transaction(
        self,
        work: Callable[[Connection], Awaitable[T]],
        pool: Pool,
        *,
        timeout: Duration | None = None,
        begin: str = "begin isolation level read committed",
    ) -> T:
        async with self._borrowed(pool) as connection:
            try:
                await connection.execute("; ".join([begin, *self._within(timeout)]))
                answer = await work(connection)
            except _DOUBTFUL:
                raise
            except BaseException:
                await connection.execute("rollback")
                raise
            await connection.execute("commit")
            return answer

    def _within(self, timeout: Duration | None) -> list[str]:
        """Return what sets the options of one transaction. They are sent with its begin, in one round trip."""
        local = limits(timeout) if timeout else {}
        if self._bounced:
            local = {**PINNED, **PLANNING, **limits(timeout or self._timeout)}
        path = [f"set local search_path = {self.place.quoted}"] if self._bounced else []
        return [f"set local {name} = '{value}'" for name, value in local.items()] + path

    @asynccontextmanager
    async def _borrowed(self, wanted: Pool) -> AsyncIterator[Connection]:
        with as_unavailable(asyncpg.PostgresError):  # any error while connecting
            pool, connection = await self._acquire(wanted)
        watching = nullcontext() if self._bounced else self.silences.watching(connection)
        try:
            with watching:
                yield connection
        except _DOUBTFUL:
            connection.terminate()
            raise
        finally:
            await pool.release(connection)

    async def _acquire(self, pool: Pool) -> tuple[Pool, Connection]:
        """Get a connection. If the server has none left, all share those of the hot path, which keeps one."""
        for _ in range(CONNECTION_TRIES):
            try:
                return pool, await pool.acquire()
            except asyncpg.TooManyConnectionsError:
                if pool is self._hot:
                    await self.clock.sleep(CONNECTION_RETRY_DELAY)
                pool = self._hot
        return pool, await pool.acquire()


@contextmanager
def as_unavailable(*also: type[Exception]) -> Iterator[None]:
    kinds: tuple[type[Exception], ...] = (*CONNECTION_ERRORS, *also)
    try:
        yield
    except kinds as away:
        kind = StoreFull if isinstance(away, asyncpg.TooManyConnectionsError) else StoreUnavailable
        raise kind(f"PostgreSQL is unavailable ({reason(away)}); retry the call") from away


@contextmanager
def _unstorable_as_refused() -> Iterator[None]:
    try:
        yield
    except _REFUSED as refused:
        raise StoreRefused(f"PostgreSQL cannot store this ({reason(refused)})") from refused


@contextmanager
def _denied_as_forbidden() -> Iterator[None]:
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as denied:
        raise StoreForbidden(
            f"this database user has too few rights ({denied}); grant those that ops/postgres/roles.sql lists"
        ) from denied


@contextmanager
def unavailable_at_start(url: str) -> Iterator[None]:
    try:
        yield
    except (*CONNECTION_ERRORS, asyncpg.PostgresError) as away:
        where = urlsplit(url).netloc.rpartition("@")[2] or "this machine"
        if isinstance(away, asyncpg.TooManyConnectionsError):
            raise StoreFull(
                f"PostgreSQL at {where} has no free connection: raise max_connections or the limit of this role, or "
                "stop other programs that use it"
            ) from away
        raise StoreUnavailable(
            f"cannot open the database: PostgreSQL at {where} is unavailable ({reason(away)}); "
            "start the server or correct the setting `engine`"
        ) from away
