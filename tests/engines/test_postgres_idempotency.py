"""Turning the generations of idempotency keys on PostgreSQL: exact, and in nobody's way."""

import asyncio
from time import perf_counter

import pytest
from msgspec.structs import replace
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import KEEP, PATIENCE, Place, eventually

from oncue.domain.instants import DAY
from oncue.engines.port import Created, Creation, IdempotencyKey, Reserved
from oncue.engines.postgres import idempotency
from oncue.engines.postgres.store import Store as PostgresStore
from oncue_conformance.store import Store, only

place = outside.place

KEY = IdempotencyKey(b"key", b"body")
ALONE = f"select pg_advisory_xact_lock({idempotency.LOCK})"
TAKING = "lock table repeats_0, repeats_1 in row exclusive mode"


async def current(place: Place) -> int:
    found: int = await place.value("select current from repeats_turn")
    return found


async def take(store: Store, how: str, key: IdempotencyKey = KEY) -> Created:
    if how == "reserve":
        return (await store.idempotency.reserve(store.uid, key, store.new_id())).outcome
    return only(await store.create(await store.new_one_shot(idempotency_key=key))).outcome


@pytest.mark.parametrize("how", ["create", "reserve"])
async def test_who_waited_for_a_turn_puts_its_key_into_the_generation_that_is_current_then(
    place: Place, how: str
) -> None:
    """Catches reading which one is current before the locks are there: by a statement that does not use both tables."""
    store = await place.store()
    before = await current(place)
    await take(store, how, IdempotencyKey(b"another", b"body"))  # its statements are prepared from now on
    async with place.holding(f"{ALONE}; truncate repeats_{1 - before}") as turner:
        taking = asyncio.create_task(take(store, how))
        await eventually(place.waiting_for_a_lock)
        await turner.execute(f"update repeats_turn set current = {1 - before}")
        await turner.execute("commit; begin")

        assert await taking is Created.NEW

    found = "select key_hash from repeats_"
    assert [await place.value(f"{found}{one}") for one in (before, 1 - before)] == [b"another", KEY.key_hash]


async def test_a_turn_does_not_wait_for_a_transaction_that_is_long_and_comes_with_the_next_tending(
    place: Place,
) -> None:
    store = await place.store()
    before = await current(place)
    made = store.new_id()
    await store.idempotency.reserve(store.uid, KEY, made)
    store.advance(DAY)
    async with place.holding(TAKING):
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


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_jobs_with_keys_take_one_statement_and_a_second_look_only_if_another_request_was_first(
    place: Place, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches an answer from a snapshot in which the other request had not ended yet."""
    store = await place.store()
    other, before = store.new_id(), await current(place)
    new = [
        await store.new_one_shot(),
        await store.new_one_shot(idempotency_key=KEY),
        await store.new_one_shot(idempotency_key=IdempotencyKey(b"another", b"body")),
    ]
    looks, write = list[object](), PostgresStore.write
    monkeypatch.setattr(PostgresStore, "write", lambda *given, **how: looks.append(given) or write(*given, **how))
    taken = f"insert into repeats_{before} values ({store.uid}, '{KEY.key_hash.decode()}', 'body', '{other}')"
    async with place.holding(taken) as first:
        creating = asyncio.create_task(store.create(*new))
        await eventually(place.waiting_for_a_lock)
        await first.execute(f"{end}; begin")
        answers = await creating

    outcomes, ids = [one.outcome for one in answers], [one.job_id for one in answers]
    if end == "commit":
        assert (outcomes, len(looks)) == ([Created.NEW, Created.REPEATED, Created.NEW], 1)
        assert ids == [new[0].job.job_id, other, new[2].job.job_id]
    else:
        assert (outcomes, len(looks)) == ([Created.NEW] * 3, 0)
    assert await place.value("select count(*) from waiting") == outcomes.count(Created.NEW)


@pytest.mark.parametrize("where", ["waiting", "running"])
async def test_a_job_that_exists_is_not_created_again_under_a_key(place: Place, where: str) -> None:
    store = await place.store()
    job = await store.new_one_shot()
    await store.create(job)
    if where == "running":
        await store.claim_due(await store.worker())

    assert only(await store.create(replace(job, idempotency_key=KEY))) == Creation(Created.REPEATED, job.job.job_id)
    assert await place.value("select count(*) from waiting") == (where == "waiting")


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
