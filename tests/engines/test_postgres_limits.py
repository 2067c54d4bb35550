"""Every call has an end: behind somebody's lock, on a server that says nothing, cancelled half-way, in a full pool."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import (
    KEEP,
    PATIENCE,
    SHORT,
    Call,
    Place,
    answered,
    eventually,
    every_verb,
    refused,
)

from oncue.domain.ids import JobId
from oncue.domain.instants import DAY, SECOND, Duration
from oncue.domain.run import State
from oncue.engines.postgres import partitions
from oncue.engines.postgres.store import HOT_CONNECTIONS, PING_CONNECTIONS
from oncue.testing.postgres import PrivatePostgres
from oncue_conformance.store import LONG_AGO, Store

place = outside.place

PARTS = 11  # of tending: each is tried, whatever became of the others


# ------------------------------------------------------------------------------------------------------- locked, silent


async def test_behind_a_lock_every_call_gives_up_in_time_and_works_again_after(place: Place) -> None:
    """Catches a verb that waits without limit, and a pool that loses a connection each time that happens."""
    store = await place.store(store_timeout=SHORT, history_timeout=SHORT, pool_size=3)
    calls = await every_verb(store)
    del calls["Engine.now"], calls["Engine.ping"]  # ask no table
    async with place.locked(*await place.tables()):
        took = dict(zip(calls, await asyncio.gather(*map(refused, calls.values())), strict=True))

    assert took.pop("Maintenance.maintain") < (PARTS + 4) * SHORT / SECOND
    assert max(took.values()) < 5 * SHORT / SECOND
    for verb, call in calls.items():
        assert await answered(call, tries=1) is not NotImplemented, verb
    await eventually(lambda: all_of(place, 3 + HOT_CONNECTIONS + PING_CONNECTIONS))


async def all_of(place: Place, most: int) -> bool:
    """Whether what is left of the engine at the server is no more than its pools, and none of it stuck."""
    return len(await place.backends()) <= most and not await place.backends("state <> 'idle'")


async def test_a_row_that_another_holds_is_not_waited_for_longer_than_the_limit(place: Place) -> None:
    store = await place.store(store_timeout=SHORT)
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    async with place.holding("select from running for update"):
        took = await refused(lambda: store.succeed(worker, run))

    assert took < 5 * SHORT / SECOND
    assert (await store.succeed(worker, run)).lost == frozenset()
    assert await store.state(run.run_id) is State.SUCCEEDED


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """These processes stand still: the connection is there, and nobody answers."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def calls_of(store: Store) -> dict[str, Call]:
    """One of each kind."""
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    return {
        "a statement": lambda: store.running.held_by(worker, [run.run_id]),
        "a transaction": lambda: store.accounts.user("ada", store.now),
        "a look": lambda: store.jobs.read(None, JobId(store.new_id())),
        "a hot transaction": lambda: store.hand_back(worker, run),
    }


KINDS = ("a statement", "a transaction", "a look", "a hot transaction")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_says_nothing_is_given_up_in_time_and_replaced(
    place: Place, postgres_server: PrivatePostgres, kind: str
) -> None:
    """Catches a call that waits for ever, a rollback that does, and a connection that is kept and stays silent."""
    if not postgres_server.ours:
        pytest.skip("its processes are not ours to stop")
    limit = Duration(2 * SECOND)
    call = (await calls_of(await place.store(store_timeout=limit, pool_size=1)))[kind]
    with stopped(await place.backends()):
        took = await refused(call)
        await answered(call, tries=HOT_CONNECTIONS)  # on other connections

    assert took < 1.7 * limit / SECOND


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_falls_silent_half_way_is_given_up_in_time(
    place: Place, postgres_server: PrivatePostgres, kind: str
) -> None:
    """Catches a rollback that is asked for, and waited for, where nobody answers."""
    if not postgres_server.ours:
        pytest.skip("its processes are not ours to stop")
    limit = Duration(2 * SECOND)
    call = (await calls_of(await place.store(store_timeout=limit, pool_size=1)))[kind]
    async with place.locked("users", "jobs", "running"):
        calling = asyncio.create_task(refused(call))
        with stopped(await eventually(place.waiting_for_a_lock)):
            assert await calling < 1.7 * limit / SECOND

    await answered(call, tries=1)


async def test_making_room_may_take_longer_than_other_calls(place: Place) -> None:
    """Catches a server told to cancel everything after `store_timeout`, whatever limit the call itself has."""
    store = await place.store(store_timeout=SHORT, history_timeout=Duration(10 * SECOND))
    async with place.holding(f"select pg_advisory_xact_lock({partitions.LOCK})"):
        maintenance = asyncio.create_task(store.maintenance.maintain(store.at(30 * DAY), KEEP))
        await eventually(lambda: place.backends("wait_event_type = 'Lock' and now() - query_start > '1500 ms'"))

    await maintenance
    assert await place.value("select count(*) from pieces where until_at > $1", store.at(30 * DAY)) == 12


# ------------------------------------------------------------------------------------------------------------ cancelled


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_call_ends_at_once_and_leaves_nothing_behind(place: Place, kind: str) -> None:
    """Catches a cancellation that is swallowed, and a connection given back in the middle of a transaction."""
    call = (await calls_of(await place.store(pool_size=1)))[kind]
    async with place.locked("users", "jobs", "running"):
        task = asyncio.ensure_future(call())
        await eventually(place.waiting_for_a_lock)
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)

        assert task.cancelled()
    assert await place.idle_in_transaction() == []
    await answered(call, tries=1)
    await eventually(lambda: all_of(place, 1 + HOT_CONNECTIONS))


async def test_calls_cancelled_at_any_point_leave_the_pool_whole(place: Place) -> None:
    """Catches a connection that is lost, or left in a transaction, by a cancellation at one particular moment."""
    store = await place.store(pool_size=2)
    for steps in range(60):
        calls = [asyncio.create_task(create_and_claim(store)) for _ in range(3)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes

    assert await place.idle_in_transaction() == []
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(create_and_claim(store) for _ in range(10)))
    await eventually(lambda: all_of(place, 2 + HOT_CONNECTIONS))
    await store.check_counts()


async def create_and_claim(store: Store) -> None:
    worker = await store.worker()
    await store.claim(worker, await store.one_shot(group="one"))


# ------------------------------------------------------------------------------------------------------------ hot calls


async def test_no_listing_keeps_a_worker_from_working(place: Place) -> None:
    """Catches a hot call that takes its connection from everybody's pool."""
    store = await place.store(pool_size=2)
    worker, runs = await store.worker(), await store.one_shots(3)
    classes = await store.class_ids()
    async with place.locked("users", "jobs"):
        slow = [asyncio.create_task(store.jobs.read(None, store.new_id())) for _ in range(5)]
        await eventually(lambda: both(place))
        began = perf_counter()
        assert len(await store.running.peek(classes, LONG_AGO, store.now, 10)) == 3
        first, second, third = await store.claim(worker, *runs)
        assert await store.beat(worker) is not None
        assert set(await store.running.held_by(worker, runs)) == {first, second, third}
        assert (await store.succeed(worker, first)).lost == frozenset()
        assert await store.hand_back(worker, second) == {second.run_id}
        assert await store.running.save(worker, third, progress=b"1")
        took = perf_counter() - began
        assert not any(task.done() for task in slow)

    assert took < 3, "a hot call waited for a slow one"
    assert await asyncio.gather(*slow) == [None] * 5


async def both(place: Place) -> bool:
    return len(await place.waiting_for_a_lock()) == 2


async def test_waiting_for_a_connection_counts(place: Place) -> None:
    """Catches a limit that begins only when there is a connection."""
    store = await place.store(store_timeout=SHORT, history_timeout=Duration(30 * SECOND), pool_size=1)
    async with place.holding(f"select pg_advisory_xact_lock({partitions.LOCK})"):
        maintenance = asyncio.create_task(store.maintenance.maintain(store.at(30 * DAY), KEEP))
        await eventually(place.waiting_for_a_lock)  # with the only connection
        assert await refused(store.accounts.keys) < 5 * SHORT / SECOND

    await maintenance
    await answered(store.accounts.keys, tries=1)
