"""Pools: connections that calls share, opened on demand and closed when idle."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import asyncpg

from oncue.clock import Clock, Timer
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.engines.postgres.connecting import Apart
from oncue.engines.postgres.reasons import reason
from oncue.log import log

PATIENCE = Duration(5 * MILLISECOND)  # for one of ours to come free: less than opening another takes
FULL_FOR = Duration(5 * SECOND)  # between two tries to open one more, when the server has none left


class Pool:
    """Connections for one purpose: opened when none comes free at once, reused last in, first out. Up to `most`; those
    idle for `lifetime` are closed, all but `kept`.

    A server that has no connection left is no outage for whoever has one: its calls wait for each other's. Whoever is
    refused one more gives one back, so that processes that have none, because they start, find one. The driver's own
    pool tries a place without a connection before one that has it, and so refuses calls while connections are idle.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Apart]], clock: Clock, most: int, lifetime: Duration, kept: int = 0
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._most = most
        self._lifetime = lifetime
        self._kept = kept
        self._open: set[Apart] = set()
        self._opening = 0
        self._left_behind: set[asyncio.Future[Apart]] = set()  # attempts to connect that no caller waits for
        self._idle: dict[Apart, Timer] = {}
        self._waiting: deque[asyncio.Future[Apart | None]] = deque()
        self._full_until = Instant(0)
        self._said_full = False
        self._gives_one_back = False
        self._closed = False

    def get_size(self) -> int:
        return len(self._open)

    def get_idle_size(self) -> int:
        return len(self._idle)

    async def acquire(self) -> Apart:
        """Get a connection. TooManyConnectionsError: the server has none left, and we have none here to wait for."""
        connection = None if self._closed else self._take_idle() or await self._soon_free()
        while connection is None:
            if self._closed:
                raise asyncpg.InterfaceError("the pool is closed")
            connection = self._take_idle()
            if connection is None:
                connection = await (self._another() if self._may_open() else self._released(self._next_try()))
        return connection

    async def release(self, connection: Apart) -> None:
        gives_back = self._gives_one_back and len(self._open) > 1
        if gives_back or connection.is_closed():
            self._gives_one_back = False
            self._end(connection)
            self._hand_on(None)
        else:
            self._hand_on(connection)

    async def close(self) -> None:
        """Close every connection once it is released. Callers that still wait for one are refused."""
        self._closed = True
        for dialling in self._left_behind:
            dialling.cancel()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()
        while len(self._open) > len(self._idle):
            if (released := await self._released(None)) is not None:
                self._rest(released)
        await asyncio.gather(*(connection.close() for connection in self._open))
        self.terminate()

    def drop_idle(self) -> None:
        """Close what is idle, because it may be dead."""
        for connection in list(self._idle):
            self._end(connection)

    def terminate(self) -> None:
        self._closed = True
        for connection in list(self._open):
            self._end(connection)

    # ------------------------------------------------------------------------------------------------------- open, idle

    def _take_idle(self) -> Apart | None:
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if not connection.is_closed():
                return connection
            self._open.discard(connection)
        return None

    async def _soon_free(self) -> Apart | None:
        """Wait a moment for one that is in use: two calls that meet by chance need no second connection."""
        if not self._open or not self._may_open():
            return None
        return await self._released(Instant(self._clock.monotonic() + PATIENCE))

    def _may_open(self) -> bool:
        try_at = self._next_try()
        return try_at is not None and (not self._open or self._clock.monotonic() >= try_at)

    def _next_try(self) -> Instant | None:
        """Return from when on another may be opened; None: not before one of ours is closed."""
        return self._full_until if len(self._open) + self._opening < self._most else None

    async def _another(self) -> Apart | None:
        self._opening += 1
        dialling = asyncio.ensure_future(self._connect())
        try:
            connection = await asyncio.shield(dialling)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and not dialling.cancelled():
                self._left_behind.add(dialling)
                dialling.add_done_callback(self._for_others)
                raise
            self._opening -= 1
            if isinstance(error, asyncpg.TooManyConnectionsError):
                self._full_until = Instant(self._clock.monotonic() + FULL_FOR)
                self._gives_one_back = True
                self._say_full(error)
                if self._open:
                    return None
            self._hand_on(None)
            raise
        self._opening -= 1
        self._open.add(connection)
        self._said_full = False
        if self._closed:
            self._end(connection)
            return None
        return connection

    def _for_others(self, dialled: asyncio.Future[Apart]) -> None:
        """Keep a connection whose caller has given up: where connecting takes long, all others would give up, too."""
        self._left_behind.discard(dialled)
        self._opening -= 1
        if dialled.cancelled() or dialled.exception() is not None:
            self._hand_on(None)
        elif self._closed:
            dialled.result().terminate()
        else:
            self._open.add(dialled.result())
            self._hand_on(dialled.result())

    def _say_full(self, error: BaseException) -> None:
        if not self._said_full:
            log.warning(
                "PostgreSQL has no free connection; retrying. Raise max_connections or the limit of this role, "
                "or lower `pool_size`",
                kind="connections_used_up",
                why=reason(error),
            )
        self._said_full = True

    def _rest(self, connection: Apart) -> None:
        self._idle[connection] = self._clock.call_later(self._lifetime, partial(self._expire, connection))

    def _expire(self, connection: Apart) -> None:
        if connection.is_closed() or len(self._open) > self._kept:
            self._end(connection)
        else:
            self._rest(connection)

    def _end(self, connection: Apart) -> None:
        self._open.discard(connection)
        timer = self._idle.pop(connection, None)
        if timer is not None:
            timer.cancel()
        connection.terminate()

    # ---------------------------------------------------------------------------------------------------------- waiting

    def _hand_on(self, connection: Apart | None) -> None:
        """Give it to whoever has waited longest. None: there may be room to open one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is not None:
            self._rest(connection)

    async def _released(self, until: Instant | None) -> Apart | None:
        """Wait for a connection. None: try again, because there may be room for another."""
        waiter: asyncio.Future[Apart | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        waking = None
        if until is not None:
            left = Duration(max(0, until - self._clock.monotonic()))
            waking = self._clock.call_later(left, partial(_wake, waiter))
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._hand_on(waiter.result())
            raise
        finally:
            if waking is not None:
                waking.cancel()


def _wake(waiter: asyncio.Future[Apart | None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
