"""A worker that is told to go waits for its runs by the clock it was given."""

import asyncio
from types import SimpleNamespace
from typing import Any

from oncue.domain.instants import NEVER, SECOND, Duration
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
