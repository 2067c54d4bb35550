"""One time limit for all calls of a request, on each engine: a lock of another program holds them up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg
import pytest

from oncue.clock import SystemClock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.engines.patience import Patience
from oncue.testing.conformance import EmptyStore
from oncue_conformance.store import Store

SHORT = Duration(SECOND // 2)


@asynccontextmanager
async def locked(store: Store) -> AsyncIterator[None]:
    """Whoever creates a job waits, in this block."""
    engine: Any = store.engine
    place = engine._store
    if store.engine.name == "sqlite":
        db = apsw.Connection(str(place.path))
        db.execute("begin immediate")
        yield
        db.execute("rollback")
        return
    connection = await asyncpg.connect(place.address.url)
    async with connection.transaction():
        await connection.execute("lock table waiting in access exclusive mode")
        yield
    await connection.close()


@asynccontextmanager
async def patient(length: Duration) -> AsyncIterator[None]:
    patience = Patience(length, SystemClock())
    patience.begin()
    try:
        yield
    finally:
        patience.end()


async def create(store: Store) -> float:
    """How long it took in vain, in seconds."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailable):
        await store.jobs.create([await store.new_one_shot()], store.now)
    return asyncio.get_running_loop().time() - began


@pytest.fixture
async def store(empty_store: EmptyStore) -> AsyncIterator[Store]:
    async with await Store.on(await empty_store()) as store:
        await store.jobs.create([await store.new_one_shot()], store.now)  # what is made once is there
        yield store


async def test_the_first_call_may_use_it_up_and_the_second_fails_at_once(store: Store) -> None:
    async with locked(store), patient(SHORT):
        first, second = await create(store), await create(store)

    assert 0.4 < first < 5
    assert second < 0.4


async def test_calls_at_the_same_time_count_once(store: Store) -> None:
    async with locked(store), patient(SHORT):
        took = await asyncio.gather(*(create(store) for _ in range(3)))

    assert min(took) > 0.4


async def test_what_is_no_call_to_the_database_does_not_count(store: Store) -> None:
    async with patient(SHORT):
        await asyncio.sleep(2 * SHORT / SECOND)
        assert await store.jobs.create([await store.new_one_shot()], store.now)


async def test_a_task_that_goes_on_after_the_request_has_all_the_time(store: Store) -> None:
    over = asyncio.Event()

    async def later() -> None:
        await over.wait()
        await store.jobs.create([await store.new_one_shot()], store.now)

    async with patient(SHORT):
        async with locked(store):
            await create(store)
        going_on = asyncio.create_task(later())
        await asyncio.sleep(0)
    over.set()

    await going_on
