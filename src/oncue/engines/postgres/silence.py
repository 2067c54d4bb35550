"""Calls without an answer: whether the server still works on them, asked over a new connection.

A firewall or a proxy can forget a connection without a word. Then each call on it would wait for its whole time limit
although the server is well, and a worker whose heartbeats wait so long is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import asyncpg

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.engines.postgres.connecting import Apart
from oncue.engines.postgres.standstill import PostgresStandstill
from oncue.log import log

SILENT_AFTER = Duration(SECOND)  # without an answer: then the server is asked
ASK_AGAIN = Duration(SECOND // 2)
LISTENER_CHECK = Duration(15 * SECOND)  # a listener has nothing to wait for, so it has to ask
LISTENER_TIMEOUT = Duration(3 * SECOND)

# Ours, and at work. The state of a session that another role opened is null, and its row counts as at work.
AT_WORK = "select pid from pg_stat_activity where pid = any($1::int[]) and state is distinct from 'idle'"


class _Call:
    """A call without an answer, and the process of the server that should give it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid


class Silences:
    """Watches calls. A connection is dead if the server has no session for it, or an idle one, which waits for a call:
    what was sent, or its answer, is lost. It is closed, and whoever waits for it gets an error now.

    A session within a transaction may be idle between two statements, so it is left to its time limit.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Apart]],
        clock: Clock,
        drop_idle: Callable[[], None],
        standstill: PostgresStandstill,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._drop_idle = drop_idle
        self._standstill = standstill
        self._silent: dict[Apart, _Call] = {}
        self._asking: asyncio.Task[None] | None = None
        self.alarms: set[asyncio.Event] = set()  # of those whose connections may be dead, too

    @contextmanager
    def watching(self, connection: Apart) -> Iterator[None]:
        """Watch one call, in this block."""
        timer = self._clock.call_later(SILENT_AFTER, partial(self._suspect, connection))
        try:
            yield
        finally:
            timer.cancel()
            self._silent.pop(connection, None)

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def _suspect(self, connection: Apart) -> None:
        if connection.is_closed():
            return
        self._silent[connection] = _Call(connection.get_server_pid())
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        while self._silent:
            suspects, began = self._silent.copy(), self._clock.monotonic()
            with suppress(StoreUnavailable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                at_work = await self._at_work([call.pid for call in suspects.values()])
                took = self._clock.monotonic() - began
                await self._clock.sleep(Duration(2 * took))  # an answer that was on its way has arrived
                self._end({one: call for one, call in suspects.items() if call.pid not in at_work})
                if at_work:
                    await self._standstill.check(ASK_AGAIN)
            await self._clock.sleep(ASK_AGAIN)

    async def _at_work(self, pids: list[int]) -> set[int]:
        connection = await self._connect()
        try:
            return {row["pid"] for row in await connection.fetch(AT_WORK, pids)}
        finally:
            connection.terminate()

    def _end(self, idle: dict[Apart, _Call]) -> None:
        dead = [one for one, call in idle.items() if self._silent.get(one) is call]
        if not dead:
            return
        log.warning(
            "Connections to PostgreSQL were dead, though the server answers; new ones replace them",
            kind="connections_dead",
            count=len(dead),
        )
        for connection in dead:
            connection.terminate()
        self._drop_idle()
        for alarm in self.alarms:
            alarm.set()


async def attend(connection: Apart, silences: Silences, clock: Clock, *ends: asyncio.Event) -> None:
    """Wait for one of the events with a connection on which only the server speaks. Raises, when it is dead."""
    alarm = asyncio.Event()
    silences.alarms.add(alarm)
    try:
        while not any(event.is_set() for event in ends):
            with suppress(TimeoutError):
                async with clock.timeout(LISTENER_CHECK):
                    await _either(alarm, *ends)
            alarm.clear()
            if not any(event.is_set() for event in ends):
                await answered(connection, clock)
    finally:
        silences.alarms.discard(alarm)


async def answered(connection: Apart, clock: Clock, statement: str = "select 1") -> None:
    """Get an answer, or end the connection. The driver's own time limit leaves an error that no code can catch."""
    asking = asyncio.ensure_future(connection.execute(statement))
    with suppress(TimeoutError):
        async with clock.timeout(LISTENER_TIMEOUT):
            await asyncio.wait({asking})
    if not asking.done():
        connection.terminate()
    await asking


async def _either(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
