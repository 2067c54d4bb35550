"""The pipe between a process and a run's log."""

import asyncio
import fcntl
import os
import termios
from collections.abc import Iterator

import pytest

from oncue.executors import output
from oncue.executors.output import Output


@pytest.fixture
async def pipe() -> Iterator[Output]:  # type: ignore[misc]
    opened = Output(10)
    yield opened
    opened.close()


def unread(pipe: Output) -> int:
    return int.from_bytes(fcntl.ioctl(pipe.writing, termios.FIONREAD, bytes(4)), "little")


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_full_log_is_read_on_but_slowly(pipe: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PAUSE", 3_600)
    said: list[str] = []
    pipe.pass_to(said.append)
    os.write(pipe.writing, b"0123456789")
    await turns()
    assert unread(pipe) == 0
    os.write(pipe.writing, b"more")
    await turns()

    assert unread(pipe) == 4  # the loop has other things to do
    pipe.drain()
    assert unread(pipe) == 0
    assert said == ["0123456789", "more"]


async def test_reading_goes_on_after_the_pause(pipe: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PAUSE", 0.001)
    pipe.pass_to(lambda text: None)
    os.write(pipe.writing, b"0123456789")
    await turns()
    os.write(pipe.writing, b"more")
    async with asyncio.timeout(60):
        while unread(pipe):
            await asyncio.sleep(0.001)


async def test_the_piece_that_exceeds_the_cap_still_comes_so_that_the_log_knows(pipe: Output) -> None:
    said: list[str] = []
    pipe.pass_to(said.append)
    os.write(pipe.writing, b"0123456789abc")
    pipe.drain()

    assert said == ["0123456789abc"]


async def test_what_is_drained_ends_although_the_writer_never_stops(pipe: Output) -> None:
    taken: list[int] = []

    def write_more(text: str) -> None:
        taken.append(len(text))
        os.write(pipe.writing, b"x" * 65_536)

    pipe._cap = 1 << 30
    pipe.pass_to(write_more)
    os.write(pipe.writing, b"x" * 65_536)
    pipe.drain()

    assert sum(taken) == 2 * 65_536


async def test_a_new_log_starts_with_nothing_of_the_old_ones(pipe: Output) -> None:
    first: list[str] = []
    pipe.pass_to(first.append)
    os.write(pipe.writing, b"\xc3")  # half a character
    pipe.drain()
    second: list[str] = []
    pipe.pass_to(second.append)
    os.write(pipe.writing, b"new")
    pipe.drain()

    assert "".join(second) == "new"
    assert pipe.tail == b"new"


async def test_closing_twice_is_closing_once() -> None:
    opened = Output(10)
    opened.close()
    opened.close()
