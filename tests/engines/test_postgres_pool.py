"""A pool on a server with few connections: what it opens, shares, gives back and closes."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from oncue.domain.instants import DAY, MILLISECOND, SECOND, Duration
from oncue.engines.postgres.pooling import FULL_FOR, PATIENCE, Pool
from oncue.testing.clock import FakeClock
from oncue.testing.logs import capture_logs

LONG = DAY  # not in this test
LIFETIME = Duration(10 * SECOND)


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


async def passes(clock: FakeClock, length: Duration) -> None:
    """Everybody goes as far as it gets, then time passes, and everybody goes on."""
    await steps()
    await clock.advance(length)
    await steps()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with capture_logs() as logs:
        yield logs


async def test_two_calls_that_meet_by_chance_share_a_connection(clock: FakeClock) -> None:
    """Catches an idle process that has two, because now and then two of its loops asked at the same instant."""
    server = Server(room=9)
    pool = Pool(server.connect, clock, 3, LONG)
    first = await pool.acquire()
    second = asyncio.create_task(pool.acquire())
    await passes(clock, Duration(PATIENCE - MILLISECOND))
    await pool.release(first)

    assert await second is first
    assert len(server.open) == 1


async def test_a_call_that_takes_longer_delays_no_other(clock: FakeClock) -> None:
    server = Server(room=9)
    pool = Pool(server.connect, clock, 3, LONG)
    first = await pool.acquire()
    second = asyncio.create_task(pool.acquire())
    await passes(clock, PATIENCE)

    assert await second is not first


async def test_a_connection_that_comes_free_is_used_where_the_server_has_no_other(clock: FakeClock) -> None:
    server = Server(room=1)
    pool = Pool(server.connect, clock, 3, LONG)
    first = await pool.acquire()
    second = asyncio.create_task(pool.acquire())
    await passes(clock, PATIENCE)
    third = asyncio.create_task(pool.acquire())
    await passes(clock, PATIENCE)
    await pool.release(first)

    assert await second is first
    await pool.release(first)
    assert await third is first
    assert server.refused == 1  # whoever comes now does not try

    fourth = asyncio.create_task(pool.acquire())
    await passes(clock, PATIENCE)
    assert not fourth.done()
    await pool.release(first)
    assert await fourth is first
    assert server.refused == 1


async def test_who_has_none_is_told_that_there_is_none(clock: FakeClock) -> None:
    pool = Pool(Server(room=0).connect, clock, 3, LONG)

    with pytest.raises(asyncpg.TooManyConnectionsError):
        await pool.acquire()


async def test_who_is_refused_one_more_gives_one_back_but_not_its_last(clock: FakeClock) -> None:
    server = Server(room=2)
    pool = Pool(server.connect, clock, 3, LONG)
    taking = [asyncio.create_task(pool.acquire()) for _ in range(2)]
    await passes(clock, PATIENCE)
    held = await asyncio.gather(*taking)
    waiting = asyncio.create_task(pool.acquire())
    await passes(clock, PATIENCE)

    await pool.release(held[0])
    await steps()
    assert (len(server.open), waiting.done()) == (1, False)

    await pool.release(held[1])
    assert await waiting is held[1]
    await pool.release(held[1])
    assert len(server.open) == 1


async def test_after_a_while_another_is_tried(clock: FakeClock) -> None:
    server = Server(room=1)
    pool = Pool(server.connect, clock, 3, LONG)
    await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await passes(clock, PATIENCE)
    server.room = 2
    await passes(clock, Duration(FULL_FOR - MILLISECOND))
    assert not waiting.done()
    await passes(clock, PATIENCE)

    assert await waiting in server.open


async def test_idle_ones_are_closed_all_but_those_that_are_kept(clock: FakeClock) -> None:
    server = Server(room=9)
    pool = Pool(server.connect, clock, 3, LIFETIME, kept=1)
    taking = [asyncio.create_task(pool.acquire()) for _ in range(3)]
    await passes(clock, PATIENCE)
    for connection in await asyncio.gather(*taking):
        await pool.release(connection)
    await passes(clock, Duration(LIFETIME - SECOND))
    assert len(server.open) == 3
    await passes(clock, SECOND)
    assert len(server.open) == 1
    await passes(clock, Duration(10 * LIFETIME))

    assert (len(server.open), pool.get_size(), pool.get_idle_size()) == (1, 1, 1)


async def test_one_that_is_used_now_and_then_leaves_no_second_open(clock: FakeClock) -> None:
    """Catches connections that are used in turn, and so never idle."""
    server = Server(room=9)
    pool = Pool(server.connect, clock, 3, LIFETIME, kept=1)
    taking = [asyncio.create_task(pool.acquire()) for _ in range(2)]
    await passes(clock, PATIENCE)
    for connection in await asyncio.gather(*taking):
        await pool.release(connection)
    for _ in range(3):
        await passes(clock, Duration(LIFETIME // 2))
        await pool.release(await pool.acquire())

    assert len(server.open) == 1


async def test_a_connection_that_was_given_to_a_cancelled_caller_is_not_lost(clock: FakeClock) -> None:
    server = Server(room=1)
    pool = Pool(server.connect, clock, 1, LONG)
    first = await pool.acquire()
    cancelled, other = (asyncio.create_task(pool.acquire()) for _ in range(2))
    await steps()
    await pool.release(first)
    cancelled.cancel()

    assert await other is first
    assert cancelled.cancelled() or cancelled.done()


async def test_broken_ones_make_room(clock: FakeClock) -> None:
    server = Server(room=1)
    pool = Pool(server.connect, clock, 1, LONG)
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


async def test_closing_waits_for_what_is_in_use_and_refuses_who_waits(clock: FakeClock) -> None:
    server = Server(room=1)
    pool = Pool(server.connect, clock, 1, LONG)
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
