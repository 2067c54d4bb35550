"""A pool on a server with few connections: what it opens, shares, gives back and closes."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from oncue.clock import SystemClock
from oncue.domain.instants import DAY, MILLISECOND, Duration
from oncue.engines.postgres import pooling
from oncue.engines.postgres.pooling import Pool
from oncue.testing.logs import capture_logs

LONG = DAY  # not in this test


class FakeConnection:
    def __init__(self, server: Server) -> None:
        self._server = server

    def is_closed(self) -> bool:
        return self not in self._server.open

    def terminate(self) -> None:
        self._server.open.discard(self)

    async def close(self) -> None:
        self.terminate()


class Server:
    """Has room for so many connections, and takes a step of the loop to say so."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.open: set[FakeConnection] = set()
        self.refused = 0

    async def connect(self) -> Any:
        await asyncio.sleep(0)
        if len(self.open) >= self.room:
            self.refused += 1
            raise asyncpg.TooManyConnectionsError("sorry, too many clients already")
        connection = FakeConnection(self)
        self.open.add(connection)
        return connection


async def steps(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with capture_logs() as logs:
        yield logs


async def test_a_connection_that_comes_free_is_used_where_the_server_has_no_other() -> None:
    server = Server(room=1)
    pool = Pool(server.connect, SystemClock(), 3, LONG)
    first = await pool.acquire()
    second = asyncio.create_task(pool.acquire())
    third = asyncio.create_task(pool.acquire())
    await steps()
    await pool.release(first)

    assert await second is first
    await pool.release(first)
    assert await third is first
    assert server.refused == 2  # both were on their way; whoever comes now does not try

    fourth = asyncio.create_task(pool.acquire())
    await steps()
    assert not fourth.done()
    await pool.release(first)
    assert await fourth is first
    assert server.refused == 2


async def test_who_has_none_is_told_that_there_is_none() -> None:
    pool = Pool(Server(room=0).connect, SystemClock(), 3, LONG)

    with pytest.raises(asyncpg.TooManyConnectionsError):
        await pool.acquire()


async def test_who_is_refused_one_more_gives_one_back_but_not_its_last() -> None:
    server = Server(room=2)
    pool = Pool(server.connect, SystemClock(), 3, LONG)
    held = [await pool.acquire(), await pool.acquire()]
    waiting = asyncio.create_task(pool.acquire())
    await steps()

    await pool.release(held[0])
    await steps()
    assert (len(server.open), waiting.done()) == (1, False)

    await pool.release(held[1])
    assert await waiting is held[1]
    await pool.release(held[1])
    assert len(server.open) == 1


async def test_after_a_while_another_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "FULL_FOR", 10 * MILLISECOND)
    server = Server(room=1)
    pool = Pool(server.connect, SystemClock(), 3, LONG)
    await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await steps()
    server.room = 2

    async with asyncio.timeout(60):
        await waiting


async def test_idle_ones_are_closed_all_but_those_that_are_kept() -> None:
    server = Server(room=9)
    pool = Pool(server.connect, SystemClock(), 3, Duration(10 * MILLISECOND), kept=1)
    for connection in [await pool.acquire() for _ in range(3)]:
        await pool.release(connection)

    async with asyncio.timeout(60):
        while len(server.open) > 1:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)  # several lifetimes: what must not happen had its time
    assert (len(server.open), pool.get_size(), pool.get_idle_size()) == (1, 1, 1)


async def test_a_connection_that_was_given_to_a_cancelled_caller_is_not_lost() -> None:
    server = Server(room=1)
    pool = Pool(server.connect, SystemClock(), 1, LONG)
    first = await pool.acquire()
    cancelled, other = (asyncio.create_task(pool.acquire()) for _ in range(2))
    await steps()
    await pool.release(first)
    cancelled.cancel()

    assert await other is first
    assert cancelled.cancelled() or cancelled.done()


async def test_broken_ones_make_room() -> None:
    server = Server(room=1)
    pool = Pool(server.connect, SystemClock(), 1, LONG)
    first = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await steps()
    first.terminate()
    await pool.release(first)
    second = await waiting
    await pool.release(second)
    second.terminate()  # while it is idle

    assert await pool.acquire() not in (first, second)
    assert pool.get_size() == 1


async def test_closing_waits_for_what_is_in_use_and_refuses_who_waits() -> None:
    server = Server(room=1)
    pool = Pool(server.connect, SystemClock(), 1, LONG)
    first = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await steps()
    closing = asyncio.create_task(pool.close())
    await steps()
    assert not closing.done()
    with pytest.raises(asyncpg.InterfaceError):
        await waiting
    await pool.release(first)
    await closing

    assert server.open == set()
    with pytest.raises(asyncpg.InterfaceError):
        await pool.acquire()
