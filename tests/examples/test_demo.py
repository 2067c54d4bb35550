"""The company of `make demo`, for a quarter of an hour."""

import random
from pathlib import Path

from examples.demo.fleet import JOBS, MACHINES, USERS
from examples.demo.past import create_jobs, create_keys, play
from examples.demo.world import World

from oncue.domain.instants import MINUTE, Instant, parse_instant
from oncue.domain.run import State
from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue.testing.clock import FakeClock
from oncue_conformance.store import Store

OPENS_AT = parse_instant("2030-01-01T12:00:00Z")


async def test_the_demo_shows_good_and_bad(tmp_path: Path) -> None:
    settings = Settings(engine=f"sqlite:///{tmp_path}/demo.db")

    async def opened() -> Engine:
        return await open_engine(settings)

    clock = FakeClock(Instant(OPENS_AT - 15 * MINUTE))
    async with Store(await opened(), opened, clock, random.Random(7)) as store:
        users = {name: await store.accounts.user(name, store.now) for name in USERS}
        keys = await create_keys(store)
        world = World(store, OPENS_AT)
        await world.hire()
        await create_jobs(store, users)
        await play(world, users)

        assert len(keys) == 3
        assert len(await store.fleet.workers()) == len(MACHINES) == 20
        assert len(JOBS) >= 30
        states = {run.state for run in await store.runs()}
        assert states == {State.WAITING, State.RUNNING, State.SUCCEEDED, State.DEAD, State.CANCELLED}
        assert list(await store.fleet.paused_queues()) == ["reports"]
