"""Turning the generations of idempotency keys on PostgreSQL: exact, and in nobody's way."""

import asyncio
from time import perf_counter

import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import KEEP, PATIENCE, Place, eventually

from oncue.domain.instants import DAY
from oncue.engines.port import Created, IdempotencyKey, Reserved
from oncue.engines.postgres import idempotency
from oncue.testing.conformance.store import Store, only

place = outside.place

KEY = IdempotencyKey(b"key", b"body")
ALONE = f"select pg_advisory_xact_lock({idempotency.LOCK})"
SHARED = f"select pg_advisory_xact_lock_shared({idempotency.LOCK})"


async def current(place: Place) -> int:
    found: int = await place.value("select current from repeats_turn")
    return found


async def take(store: Store, how: str) -> Created:
    if how == "reserve":
        return (await store.idempotency.reserve(store.uid, KEY, store.new_id())).outcome
    return only(await store.create(await store.new_one_shot(idempotency_key=KEY))).outcome


@pytest.mark.parametrize("how", ["create", "reserve"])
async def test_who_waited_for_a_turn_puts_its_key_into_the_generation_that_is_current_then(
    place: Place, how: str
) -> None:
    """Catches reading which one is current before the lock is there, or in one statement with it."""
    store = await place.store()
    before = await current(place)
    async with place.holding(ALONE) as turner:
        taking = asyncio.create_task(take(store, how))
        await eventually(place.waiting_for_a_lock)
        await turner.execute(f"truncate repeats_{1 - before}; update repeats_turn set current = {1 - before}")
        await turner.execute("commit; begin")

        assert await taking is Created.NEW

    assert await place.value(f"select count(*) from repeats_{before}") == 0
    assert await place.value(f"select count(*) from repeats_{1 - before}") == 1


async def test_a_turn_does_not_wait_for_a_transaction_that_is_long_and_comes_with_the_next_tending(
    place: Place,
) -> None:
    store = await place.store()
    before = await current(place)
    made = store.new_id()
    await store.idempotency.reserve(store.uid, KEY, made)
    store.advance(DAY)
    async with place.holding(SHARED):
        began = perf_counter()
        maintenance = asyncio.create_task(store.maintenance.maintain(store.now, KEEP))
        await eventually(place.waiting_for_a_lock)
        held_up = await store.idempotency.reserve(store.uid, KEY, store.new_id())
        await maintenance
        assert perf_counter() - began < PATIENCE / 2
    assert held_up == Reserved(Created.REPEATED, made)
    assert await current(place) == before

    await store.maintenance.maintain(store.now, KEEP)

    assert await current(place) == 1 - before
    assert await take(store, "reserve") is Created.REPEATED


async def test_a_job_without_a_key_pays_nothing_for_all_this(place: Place) -> None:
    store = await place.store()
    async with place.holding(f"{ALONE}; lock table repeats_0, repeats_1, repeats_turn in access exclusive mode"):
        assert only(await store.create(await store.new_one_shot())).outcome is Created.NEW


async def test_what_is_emptied_leaves_nothing_behind(place: Place) -> None:
    """Catches deleting row by row, which leaves as many dead ones to be swept up."""
    store = await place.store()
    await store.create(
        *[await store.new_one_shot(idempotency_key=IdempotencyKey(bytes([i]), b"body")) for i in range(200)]
    )
    full = await current(place)

    for _ in range(2):
        assert await place.value(f"select pg_relation_size('repeats_{full}')") > 0
        store.advance(DAY)
        await store.maintenance.maintain(store.now, KEEP)

    assert await place.value(f"select pg_relation_size('repeats_{full}')") == 0
