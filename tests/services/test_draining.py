"""A worker that is told to go waits for its runs by the clock it was given."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from oncue.domain.instants import NEVER, SECOND, Duration, Instant
from oncue.services.channel import Beaten
from oncue.services.worker_process import WorkerProcess
from oncue.testing.clock import FakeClock

STEP = Duration(SECOND // 50)


async def waited(worker: Any, length: Duration, *, unless: asyncio.Event | None = None) -> int:
    """How long it waited, by its clock."""
    waiting = asyncio.create_task(WorkerProcess._idle_within(worker, length, unless))
    async with asyncio.timeout(60):
        while not waiting.done():
            await asyncio.sleep(0)
            await worker._clock.advance(STEP)
    return int(worker._clock.monotonic())


def busy() -> Any:
    return SimpleNamespace(_clock=FakeClock(), _crew=SimpleNamespace(busy=True))


async def test_it_waits_no_longer_than_it_may() -> None:
    assert SECOND <= await waited(busy(), Duration(SECOND)) <= SECOND + 2 * STEP


async def test_it_waits_no_longer_than_it_has_to() -> None:
    worker = busy()
    worker._clock.call_later(Duration(SECOND), lambda: setattr(worker._crew, "busy", False))

    assert SECOND <= await waited(worker, Duration(NEVER)) <= SECOND + 3 * STEP


async def test_it_is_told_to_wait_no_longer() -> None:
    worker, hurried = busy(), asyncio.Event()
    worker._clock.call_later(Duration(SECOND), hurried.set)

    assert SECOND <= await waited(worker, Duration(NEVER), unless=hurried) <= SECOND + 3 * STEP


async def test_a_drained_worker_takes_no_runs_until_a_heartbeat_says_otherwise_unless_it_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = [Beaten(Instant(n), drained=drained) for n, drained in enumerate([False, True, True, False, True, False])]
    draining, woken, ended = list[bool](), list[str](), list[int]()
    worker = SimpleNamespace(name="worker", draining=False)
    loop = SimpleNamespace(wake=lambda: woken.append("worker"))
    process: Any = SimpleNamespace(
        _beaten_at=Instant(0),
        _told=asyncio.Event(),
        _crew=SimpleNamespace(
            worker=worker,
            loops={"worker": loop},
            prefetch=SimpleNamespace(peers=SimpleNamespace()),
            holdings=SimpleNamespace(beaten=lambda *_: None),
        ),
    )
    process._take_runs = partial(WorkerProcess._take_runs, process)

    async def receive() -> Beaten | None:
        if said:
            draining.append(worker.draining)
            if len(said) == 1:
                process._told.set()
            return said.pop(0)
        return None

    process._channel = SimpleNamespace(receive=receive)
    monkeypatch.setattr("oncue.logs.end", ended.append)
    await WorkerProcess._receive(process)

    assert [*draining, worker.draining] == [False, False, True, True, False, True, True]
    assert (len(woken), len(ended)) == (3, 1)
