"""What strangers send takes a share of the loop and no more, and whoever takes little of it is served first."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from tests.executors.test_http import NoReports

from oncue.clock import SystemClock
from oncue.context import Context, RunInfo
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.executors.http import http_task
from oncue.executors.share import LONG, SHARE, LoopShare, Turns
from oncue.settings import Settings
from oncue.testing.clock import FakeClock

BUSY = Duration(10 * MILLISECOND)


async def turn(clock: FakeClock, turns: Turns, takes: Duration = BUSY) -> None:
    await turns.begin()
    clock._move_to(clock.monotonic() + takes)  # nothing else runs meanwhile, as in a loop that is busy
    turns.end()


async def settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def test_all_together_take_their_share_and_no_more() -> None:
    clock = FakeClock()
    share = LoopShare(clock)
    done = 0

    async def greedy() -> None:
        nonlocal done
        turns = share.turns()
        while True:
            await turn(clock, turns)
            done += 1

    calls = [asyncio.create_task(greedy()) for _ in range(40)]
    await settle()
    before, since = done, clock.monotonic()
    while clock.monotonic() < since + SECOND:
        await clock.advance(Duration(5 * MILLISECOND))
        await settle()
    took = (done - before) * BUSY / (clock.monotonic() - since)
    for each in calls:
        each.cancel()

    assert 0.8 * SHARE < took <= SHARE


async def test_whoever_used_least_is_next() -> None:
    clock = FakeClock()
    share = LoopShare(clock)
    greedy, modest, order = share.turns(), share.turns(), list[str]()
    for _ in range(5):
        waiting = asyncio.create_task(turn(clock, greedy))
        await clock.advance(Duration(SECOND))
        await waiting

    async def one(name: str, turns: Turns) -> None:
        await turns.begin()
        order.append(name)
        turns.end()

    await turn(clock, share.turns(), Duration(10 * BUSY))
    both = [asyncio.create_task(one("greedy", greedy)), asyncio.create_task(one("modest", modest))]
    await settle()
    assert order == []
    await clock.advance(Duration(3 * SECOND))
    await asyncio.gather(*both)
    assert order == ["modest", "greedy"]


async def test_one_who_was_cancelled_holds_up_nobody() -> None:
    clock = FakeClock()
    share = LoopShare(clock)
    await turn(clock, share.turns(), Duration(10 * BUSY))
    first, second = asyncio.create_task(turn(clock, share.turns())), asyncio.create_task(turn(clock, share.turns()))
    await settle()
    first.cancel()
    await clock.advance(Duration(3 * SECOND))
    await second


async def test_a_turn_is_long_after_a_while() -> None:
    clock = FakeClock()
    turns = LoopShare(clock).turns()
    assert not turns.is_long
    await turns.begin()
    assert not turns.is_long
    clock._move_to(clock.monotonic() + LONG + 1)
    assert turns.is_long
    turns.end()
    assert not turns.is_long


# ------------------------------------------------------------------------------------------------------ hostile servers

DRIPS = """
import asyncio, socket, sys

async def serve(reader, writer):
    path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1]
    chunked = b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
    brackets = b"[" + b"[]," * 340_000 + b"1]"
    head, more = {
        b"/chunks": (chunked, b"1\\r\\na\\r\\n" * 2_000),
        b"/informational": (b"", b"HTTP/1.1 100 C\\r\\n\\r\\n" * 1_000),
        b"/brackets": (b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n\\r\\n" + brackets, b""),
    }[path]
    writer.write(head)
    try:
        await writer.drain()
        while more:
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(0)
    except OSError:
        pass
    writer.close()

async def main():
    await (await asyncio.start_server(serve, sock=socket.socket(fileno=int(sys.argv[1])))).serve_forever()

asyncio.run(main())
"""


@pytest.fixture
async def drips() -> AsyncIterator[str]:
    """A server in a process of its own: in ours it would compete with what it is to hold up."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as door:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", DRIPS, str(door.fileno())), pass_fds=[door.fileno()]
        )
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            process.kill()
            await process.wait()


async def longest_stall(clock: SystemClock, length: float) -> float:
    """Seconds of processor time from one turn of the loop to the next: what others take from it is not its fault."""
    longest = 0.0
    until = clock.monotonic() + length * SECOND
    while clock.monotonic() < until:
        asked = time.thread_time()
        await asyncio.sleep(0.005)
        longest = max(longest, time.thread_time() - asked)
    return longest


@pytest.mark.parametrize("what", ["chunks", "informational", "brackets"])
async def test_whatever_forty_servers_send_the_loop_turns(drips: str, what: str) -> None:
    clock = SystemClock()
    task = http_task(Settings(http_allow=("127.0.0.1/32",)))

    async def call() -> None:
        info = RunInfo(uuid4(), uuid4(), "http", 1, Instant(0))
        await task.function(Context(info, NoReports()), url=f"{drips}/{what}")

    calls = [asyncio.create_task(call()) for _ in range(40)]
    stall = await longest_stall(clock, 1.0)
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert stall < 0.8
