"""The server goes away, comes back, or takes no writes for a while: the engine says so and recovers by itself."""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import (
    END_ALL,
    PATIENCE,
    Place,
    answered,
    eventually,
    every_verb,
    postgres_of,
    refused,
)

from oncue.domain.errors import StoreRefused, StoreUnavailable
from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import SECOND, Duration
from oncue.domain.job import JobStatus
from oncue.engines.port import Created
from oncue.engines.postgres.dialling import Dialling
from oncue.engines.postgres.store import HOT_CONNECTIONS
from oncue.testing.postgres import PrivatePostgres
from oncue_conformance.store import LONG_AGO, Store

place = outside.place


@pytest.fixture(scope="module")
def own_server(postgres_server: PrivatePostgres) -> Iterator[PrivatePostgres]:
    """One that these tests may stop: the other is everybody's."""
    if not postgres_server.ours:
        pytest.skip("the server that ONCUE_TEST_POSTGRES names is not ours to stop")
    with PrivatePostgres(fast=True) as server:
        yield server


@pytest.fixture
async def own_place(own_server: PrivatePostgres) -> AsyncIterator[Place]:
    async with Place.on(own_server) as place:
        yield place


# ----------------------------------------------------------------------------------------------------- connections lost


async def test_whoever_stops_waiting_for_a_connection_leaves_no_error_behind(postgres_url: str) -> None:
    """Cancelled at every step of the way in turn; the driver alone leaves an exception that nobody can catch."""
    dialling = Dialling()
    for steps in range(80):
        call = asyncio.create_task(dialling.connect(postgres_url))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            (await call).terminate()

    await dialling.close()
    gc.collect()  # which is when such an exception would be reported, and fail the test
    assert not dialling.pending


async def test_every_verb_survives_that_its_connection_was_cut(place: Place, postgres_server: PrivatePostgres) -> None:
    """Catches a dead connection that goes back into the pool. The engine learns of the cut only by its next call."""
    if not postgres_server.ours:
        pytest.skip("its processes are not ours to end")
    calls = await every_verb(await place.store())
    for verb, call in calls.items():
        end_processes(await place.backends())
        try:
            await answered(call)
        except StoreUnavailable as away:
            raise AssertionError(f"{verb} was away twice") from away


def end_processes(pids: list[int]) -> None:
    """Block until all are gone. The event loop sees nothing of it, and no call finds one that is about to end."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    give_up = perf_counter() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert perf_counter() < give_up, "PostgreSQL does not end its sessions"
        sleep(0.001)


async def test_a_full_pool_of_dead_connections_is_no_outage(place: Place) -> None:
    """Catches a pool that has to be drained of its dead connections by as many failing calls."""
    store = await place.store(pool_size=5)
    await asyncio.gather(*(store.jobs.classes() for _ in range(20)))
    await place.session.execute(END_ALL)
    await eventually(lambda: nobody(place))

    assert len(await asyncio.gather(*(answered(store.jobs.classes) for _ in range(20)))) == 20
    assert len(await place.backends()) <= 5 + HOT_CONNECTIONS


async def nobody(place: Place) -> bool:
    return not await place.backends()


@pytest.mark.parametrize("how", ["pg_terminate_backend", "pg_cancel_backend"])
async def test_a_call_that_an_operator_ends_says_so_and_can_be_repeated(place: Place, how: str) -> None:
    """Catches a raw driver error."""
    store = await place.store()
    worker = await store.worker()
    run_id = await store.one_shot()
    async with place.locked("waiting"):
        claiming = asyncio.create_task(store.claim(worker, run_id))
        [pid] = await eventually(place.waiting_for_a_lock)
        await place.session.execute(f"select {how}({pid})")
        with pytest.raises(StoreUnavailable, match="retry the call"):
            await claiming

    assert [run.run_id for run in await store.claim(worker, run_id)] == [run_id]


async def test_what_cannot_be_sent_is_not_an_outage(place: Place) -> None:
    """Catches a caller that repeats for ever what can never be answered."""
    store = await place.store()
    with pytest.raises(StoreRefused, match="out of int32 range"):
        await store.running.peek([ClassId(2**40)], LONG_AGO, store.now, 1)

    assert await store.claimable() == []


# ------------------------------------------------------------------------------------------------------ the server down


async def test_a_stopped_server_is_noticed_at_once_and_its_return_too(own_server: PrivatePostgres) -> None:
    """Catches calls that hang, answers lost in a crash (P1), and an engine that has to be opened anew."""
    async with Place.on(own_server) as place:
        store = await place.store(store_timeout=Duration(30 * SECOND))
        calls = await every_verb(store)
        stored: list[RunId] = []
        creating = [asyncio.create_task(create_until_it_stops(store, stored)) for _ in range(4)]
        await eventually(lambda: enough(stored))
        await asyncio.to_thread(own_server.stop, "immediate")
        began = perf_counter()
        await asyncio.gather(*creating)
        await asyncio.gather(*map(refused, calls.values()))
        took = perf_counter() - began
        await asyncio.to_thread(own_server.start)

        assert took < 15, "a call waited for a server that refuses connections"
        for call in calls.values():
            await answered(call)
        assert {run.run_id for run in await store.runs(uid=store.uid)} >= set(stored)


async def enough(stored: list[RunId]) -> bool:
    return len(stored) > 50


async def create_until_it_stops(store: Store, stored: list[RunId]) -> None:
    """Remembers every job that was acknowledged."""
    while True:
        new = await store.new_one_shot()
        try:
            [answer] = await store.create(new)
        except StoreUnavailable:
            return
        assert answer.outcome is Created.NEW
        stored.append(RunId(answer.job_id))


async def test_a_crash_and_its_recovery_between_two_calls_costs_one_at_most(
    own_place: Place, own_server: PrivatePostgres
) -> None:
    store = await own_place.store()
    job = await store.recurring()
    await asyncio.to_thread(own_server.restart, "immediate")

    snapshot = await answered(lambda: store.jobs.read(store.uid, job))

    assert snapshot.job.status is JobStatus.ACTIVE


# ------------------------------------------------------------------------------------------------------------ read-only


async def test_a_server_that_takes_no_writes_is_away_for_those_who_write(own_place: Place) -> None:
    """Catches a raw driver error, and a pool stuck on read-only connections when the server takes writes again."""
    store = await own_place.store(store_timeout=Duration(2 * SECOND))
    worker, run_id = await store.worker(), await store.one_shot()
    await read_only(own_place, "on")
    try:
        for write in (store.one_shot, lambda: store.beat(worker), lambda: store.claim(worker, run_id), store.plan):
            assert await refused(write) < 2
    finally:
        await read_only(own_place, "off")

    await answered(store.one_shot, tries=1)
    assert [run.run_id for run in await answered(lambda: store.claim(worker, run_id), tries=1)] == [run_id]


async def read_only(place: Place, to: str) -> None:
    await place.session.execute(f"alter system set default_transaction_read_only = {to}")
    await place.session.execute("select pg_reload_conf()")
    await eventually(lambda: says(place, to))


async def says(place: Place, value: str) -> bool:
    return await place.value("show default_transaction_read_only") == value


async def test_connections_to_a_former_primary_are_dropped_one_by_one(place: Place) -> None:
    """After a failover some connections still lead to the old server. Catches a pool that keeps them for ever."""
    store = await place.store(pool_size=3)
    pools = postgres_of(store)._store._pool, postgres_of(store)._store._hot
    worker = await store.worker()
    for pool in pools:
        held = [await pool.acquire() for _ in range(3)]
        for connection in held:
            await connection.execute("set default_transaction_read_only = on")
            await pool.release(connection)

    await answered(store.recurring, tries=1 + 3)
    assert await answered(lambda: store.beat(worker), tries=1 + HOT_CONNECTIONS) is not None


async def test_of_several_servers_the_one_that_takes_writes_is_used(
    place: Place, own_server: PrivatePostgres, postgres_server: PrivatePostgres
) -> None:
    """As after a failover, with both in the URL. Catches an engine that is content with the first that answers."""
    name = await place.value("select current_database()")
    standby = urlsplit(own_server.create_database(name))
    session = await asyncpg.connect(standby.geturl())
    await session.execute(f"alter database {name} set default_transaction_read_only = on")
    await session.close()
    both = f"127.0.0.1:{standby.port},127.0.0.1:{urlsplit(postgres_server.url).port}"

    store = await place.store(engine=f"postgresql://postgres@{both}/{name}?sslmode=disable")

    assert await place.value("select count(*) from waiting where run_id = $1", await store.one_shot()) == 1
    own_server.drop_database(name)
