"""The keeper's beats: the newest that has arrived decides, whatever became of those before it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import WorkerId, uuid7
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.port import Beat
from oncue.services.keeper import Keeper, Kept
from oncue.settings import Settings
from oncue.testing.clock import FakeClock

LEASE = Duration(15 * SECOND)
EVERY = LEASE // 5


class Fleet:
    """A store that answers, refuses or does not answer at all."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.how = "well"
        self.asked: list[float] = []

    async def beat(self, *_: Any, **__: Any) -> Beat | None:
        self.asked.append(self.clock.monotonic() / SECOND)
        match self.how:
            case "refuses":
                raise StoreUnavailable("away")
            case "hangs":
                await asyncio.Event().wait()
            case "has buried it":
                return None
        return Beat((), 0, 1)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.fleet = Fleet(self.clock)
        self.told: list[float] = []
        self.killed_at: float | None = None
        engine: Any = SimpleNamespace(fleet=self.fleet)
        self.keeper = Keeper(engine, self.clock, Settings(lease=LEASE))
        channel: Any = SimpleNamespace(send=lambda said: self.told.append(said.asked_at / SECOND))
        self.kept = Kept(
            WorkerId(uuid7(self.clock.now(), bytes(8))), SimpleNamespace(), channel, self.clock.monotonic()
        )  # type: ignore[arg-type]
        self.kept.kill = self._kill  # type: ignore[method-assign]
        self.kept.registered = True

    def _kill(self) -> None:
        self.killed_at = self.clock.monotonic() / SECOND

    async def passes(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            await self.clock.advance(Duration(50 * MILLISECOND))
            self.kept.alive_at = self.clock.monotonic()
            for _ in range(5):
                await asyncio.sleep(0)


@asynccontextmanager
async def beating() -> AsyncIterator[World]:
    world = World()
    task = asyncio.create_task(world.keeper._beat_on(world.kept))
    await asyncio.sleep(0)
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_beats_five_times_in_a_lease() -> None:
    async with beating() as world:
        await world.passes(15)

        assert [round(at) for at in world.fleet.asked] == [0, 3, 6, 9, 12, 15]
        assert world.told[1:] == world.fleet.asked[1:]
        assert world.killed_at is None


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_after_an_outage_the_first_beat_decides_not_one_still_under_way(how: str) -> None:
    """The worst moment to go away is just before a beat: the last one that arrived is a whole period old by then."""
    async with beating() as world:
        await world.passes(2.9)
        world.fleet.how = how
        await world.passes(8.4)
        world.fleet.how = "well"  # whoever hangs goes on hanging
        await world.passes(1)

        assert world.told[-1] > 2.9 + 8.4 - 0.01
        await world.passes(15)
        assert world.killed_at is None


async def test_a_late_answer_to_an_old_beat_takes_nothing_back() -> None:
    async with beating() as world:
        await world.passes(2.9)
        late: asyncio.Event = asyncio.Event()
        real = world.fleet.beat

        async def slow(*_: Any, **__: Any) -> Beat | None:
            world.fleet.beat = real  # type: ignore[method-assign]
            await late.wait()
            return Beat((), 0, 1)

        world.fleet.beat = slow  # type: ignore[method-assign]
        await world.passes(2)
        newest = world.told[-1]
        late.set()
        await world.passes(0.5)

        assert world.told[-1] == newest > 3.9
        assert world.kept.beaten_at / SECOND == newest


async def test_a_worker_that_no_beat_vouches_for_is_ended_before_its_lease() -> None:
    async with beating() as world:
        await world.passes(0.1)
        world.fleet.how = "hangs"
        await world.passes(15)

        assert world.killed_at is not None
        assert 12 < world.killed_at < 13.5


async def test_a_worker_that_was_buried_is_ended_at_once() -> None:
    async with beating() as world:
        world.fleet.how = "has buried it"
        await world.passes(3.1)

        assert world.killed_at is not None
        assert world.killed_at < 3.2


async def test_no_more_beats_are_under_way_than_there_are_connections_for_them() -> None:
    async with beating() as world:
        await world.passes(1)
        world.fleet.how = "hangs"
        await world.passes(9)

        assert len(world.fleet.asked) <= 1 + 8
