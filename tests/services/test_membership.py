"""Every process says that it is there, and goes when it ends."""

import asyncio

from oncue import __version__
from oncue.clock import SystemClock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.process.parts import membership
from oncue.services.membership import BEAT_INTERVAL, Membership
from oncue.testing.conformance import Store


async def test_a_process_says_who_it_is_and_beats_every_ten_seconds(store: Store) -> None:
    service = Membership(store.engine, store.clock, "scheduler")

    assert await service.run_once() == BEAT_INTERVAL
    [known] = await store.members.known()
    assert (known.role, known.version, known.schema) == ("scheduler", __version__, store.engine.schema)
    assert (known.started_at, known.beat_at) == (store.now, store.now)

    await store.clock.advance(Duration(BEAT_INTERVAL - 1))
    assert await service.run_once() == 1
    assert await store.members.known() == [known]
    await store.clock.advance(Duration(1))
    await service.run_once()
    [after] = await store.members.known()
    assert (after.beat_at, after.started_at) == (store.now, known.started_at)


async def test_a_heartbeat_that_was_lost_is_sent_again_at_once(store: Store) -> None:
    service = Membership(store.engine, store.clock, "api")
    real = store.engine.members.beat

    async def lost(*_: object) -> None:
        raise StoreUnavailable("gone")

    store.engine.members.beat = lost  # type: ignore[method-assign]  # as if the database were gone
    for _ in range(2):
        try:
            await service.run_once()
        except StoreUnavailable:
            assert await store.members.known() == []
    store.engine.members.beat = real  # type: ignore[method-assign]  # and back

    assert await service.run_once() == BEAT_INTERVAL
    assert len(await store.members.known()) == 1


async def test_a_process_is_gone_when_it_ended_in_order(store: Store) -> None:
    clock = SystemClock()
    async with asyncio.timeout(60), membership(store.engine, clock, "up"):
        while [one.role for one in await store.members.known()] != ["up"]:
            await clock.sleep(Duration(10 * MILLISECOND))

    assert await store.members.known() == []


async def test_nobody_waits_long_for_a_goodbye(store: Store) -> None:
    service = Membership(store.engine, store.clock, "api")

    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    store.engine.members.leave = hangs  # type: ignore[method-assign]  # a database that does not answer
    leaving = asyncio.create_task(service.leave())
    await asyncio.sleep(0)
    await store.clock.advance(SECOND)
    async with asyncio.timeout(60):
        await leaving
