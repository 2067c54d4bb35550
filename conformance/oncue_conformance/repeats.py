"""Idempotency keys: first come first served, exact under concurrency, and forgotten one generation at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain
from uuid import UUID

import pytest

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, HOUR, Duration
from oncue.engines.port import Created, Creation, IdempotencyKey, Reserved
from oncue_conformance.store import Store, only

MONTH = Duration(30 * DAY)
NEW, REPEATED, KEY_REUSED = Created.NEW, Created.REPEATED, Created.KEY_REUSED


def idempotency_key(key: str = "k", body: str = "body") -> IdempotencyKey:
    return IdempotencyKey(key.encode().ljust(16, b"."), body.encode().ljust(16, b"."))


async def reserve(store: Store, key: str = "k", body: str = "body", *, uid: UserNumber | None = None) -> Reserved:
    return await store.idempotency.reserve(
        store.uid if uid is None else uid, idempotency_key(key, body), store.new_id()
    )


async def create(store: Store, *keys: str, body: str = "body") -> list[Creation]:
    return await store.create(*[await store.new_one_shot(idempotency_key=idempotency_key(key, body)) for key in keys])


async def turn(store: Store) -> None:
    """Let a day pass, and the generations switch."""
    store.advance(DAY)
    await store.maintenance.maintain(store.now, MONTH)


# ------------------------------------------------------------------------------------------------------------ reserving


async def test_who_comes_first_with_a_key_gets_it_with_its_own_id(store: Store) -> None:
    made = store.new_id()

    assert await store.idempotency.reserve(store.uid, idempotency_key(), made) == Reserved(NEW, made)
    assert await reserve(store) == Reserved(REPEATED, made)
    assert (await reserve(store, body="another body")).outcome is KEY_REUSED
    assert (await reserve(store, "another key")).outcome is NEW
    assert (await reserve(store, uid=store.stranger)).outcome is NEW


async def test_who_lost_the_answer_to_a_reservation_and_asks_again_is_still_the_first(store: Store) -> None:
    made = store.new_id()
    for _ in range(2):
        assert await store.idempotency.reserve(store.uid, idempotency_key(), made) == Reserved(NEW, made)


async def test_of_many_who_reserve_at_once_one_is_the_first_and_all_get_its_id(store: Store) -> None:
    stores = [store, await store.second(), await store.second()]

    answers = await asyncio.gather(*(reserve(stores[n % 3]) for n in range(50)))

    assert Counter(answer.outcome for answer in answers) == {NEW: 1, REPEATED: 49}
    assert len({answer.made for answer in answers}) == 1


async def test_the_first_answer_is_kept_for_those_who_repeat(store: Store) -> None:
    made = (await reserve(store)).made
    for answer in (b"first", b"second"):
        await store.idempotency.answered(store.uid, idempotency_key(), made, answer)
    await store.idempotency.answered(store.stranger, idempotency_key(), made, b"not mine")

    assert await reserve(await store.second()) == Reserved(REPEATED, made, b"first")
    assert (await reserve(store, body="another body")).outcome is KEY_REUSED


async def test_an_answer_of_whoever_does_not_have_the_key_is_not_kept(store: Store) -> None:
    made = (await reserve(store)).made

    await store.idempotency.answered(store.uid, idempotency_key(), store.new_id(), b"of another")

    assert await reserve(store) == Reserved(REPEATED, made)


async def test_what_was_refused_may_come_with_another_body_and_gets_the_same_id(store: Store) -> None:
    """The same id: another request with the first body may be working with it."""
    made = (await reserve(store)).made
    await store.idempotency.refused(store.uid, idempotency_key(), made)

    assert await reserve(store, body="corrected") == Reserved(NEW, made)
    assert await reserve(store, body="corrected") == Reserved(REPEATED, made)
    assert (await reserve(store)).outcome is KEY_REUSED


async def test_of_many_who_come_after_a_refusal_one_body_gets_the_key(store: Store) -> None:
    stores = [store, await store.second()]
    made = (await reserve(store)).made
    await store.idempotency.refused(store.uid, idempotency_key(), made)

    answers = await asyncio.gather(*(reserve(stores[n % 2], body=f"body {n % 10}") for n in range(40)))

    assert Counter(answer.outcome for answer in answers) == {NEW: 1, REPEATED: 3, KEY_REUSED: 36}
    assert {answer.made for answer in answers} == {made}


async def test_a_refusal_after_the_answer_changes_nothing(store: Store) -> None:
    """Of two requests that created the same at once, one was in time."""
    made = (await reserve(store)).made
    await store.idempotency.answered(store.uid, idempotency_key(), made, b"done")
    await store.idempotency.refused(store.uid, idempotency_key(), made)

    assert await reserve(store) == Reserved(REPEATED, made, b"done")
    assert (await reserve(store, body="another body")).outcome is KEY_REUSED


async def test_an_answer_after_the_refusal_of_another_belongs_to_its_body(store: Store) -> None:
    made = (await reserve(store)).made
    await store.idempotency.refused(store.uid, idempotency_key(), made)
    await store.idempotency.answered(store.uid, idempotency_key(), made, b"done")

    assert (await reserve(store, body="another body")).outcome is KEY_REUSED
    assert await reserve(store) == Reserved(REPEATED, made, b"done")


async def test_a_repeated_whole_batch_is_a_repeat_whatever_else_is_in_its_way(store: Store) -> None:
    """Only its first job has the key; a stable key of another one is taken by now, by its own first time."""

    async def batch() -> list[Creation]:
        first, second = (
            await store.new_one_shot(HOUR, idempotency_key=idempotency_key()),
            await store.new_one_shot(HOUR, key="mine"),
        )
        return await store.create(first, second, whole=True)

    made = await batch()

    assert [answer.outcome for answer in made] == [NEW, NEW]
    assert (await batch())[0] == Creation(REPEATED, made[0].job_id)


# ---------------------------------------------------------------------------------------------------------- generations


@pytest.mark.parametrize("reserving", [False, True])
async def test_a_key_lasts_a_day_and_is_new_after_the_second_turn(store: Store, reserving: bool) -> None:
    async def come() -> tuple[Created, UUID]:
        if reserving:
            reserved = await reserve(store)
            return reserved.outcome, reserved.made
        created = only(await create(store, "k"))
        return created.outcome, created.job_id

    outcome, made = await come()
    assert outcome is NEW

    store.advance(DAY - HOUR)
    await store.maintenance.maintain(store.now, MONTH)
    assert await come() == (REPEATED, made)
    store.advance(HOUR)
    await store.maintenance.maintain(store.now, MONTH)
    assert await come() == (REPEATED, made)
    await turn(store)
    assert (await come())[0] is NEW


async def test_a_young_key_outlasts_the_turn_after_it_and_those_that_are_early(store: Store) -> None:
    """However late the switch comes: a key that came just before it is kept for a day."""
    store.advance(5 * DAY)
    made = (await reserve(store)).made
    await store.maintenance.maintain(store.now, MONTH)
    for _ in range(3):
        store.advance(DAY // 4)
        await store.maintenance.maintain(store.now, MONTH)

    assert await reserve(store) == Reserved(REPEATED, made)


async def test_a_key_of_the_generation_before_is_answered_refused_and_reused_there(store: Store) -> None:
    asked, wrong = (await reserve(store)).made, (await reserve(store, "wrong")).made
    await turn(store)

    await store.idempotency.answered(store.uid, idempotency_key(), asked, b"done")
    await store.idempotency.refused(store.uid, idempotency_key("wrong"), wrong)

    assert await reserve(store) == Reserved(REPEATED, asked, b"done")
    assert (await reserve(store, body="another body")).outcome is KEY_REUSED
    assert await reserve(store, "wrong", "corrected") == Reserved(NEW, wrong)
    assert await reserve(store, "wrong", "corrected") == Reserved(REPEATED, wrong)


async def test_of_many_who_tend_at_once_one_turns(store: Store) -> None:
    """Two switches in a row would forget a key that is a moment old."""
    stores = [store, await store.second(), await store.second()]
    made = (await reserve(store)).made
    store.advance(DAY)

    await asyncio.gather(*(stores[n % 3].maintenance.maintain(store.now, MONTH) for n in range(6)))

    assert await reserve(store) == Reserved(REPEATED, made)


async def test_a_turn_while_keys_are_taken_gives_no_key_twice(store: Store) -> None:
    stores = [store, await store.second()]
    for n in range(8):
        keys = [f"{n}-{i}" for i in range(12)]
        store.advance(DAY)
        batches = [create(stores[m % 2], *store.chance.sample(keys, 9)) for m in range(8)]
        reserving = asyncio.gather(*(reserve(stores[m % 2], f"{n}-r") for m in range(8)))
        before = asyncio.gather(*batches[:4])
        turning = asyncio.gather(*(one.maintenance.maintain(store.now, MONTH) for one in stores))
        after = asyncio.gather(*batches[4:])
        await turning

        created = list(chain(*await before, *await after))
        assert len({one.job_id for one in created}) == [one.outcome for one in created].count(NEW) <= len(keys)
        reserved = await reserving
        assert len({one.made for one in reserved}) == [one.outcome for one in reserved].count(NEW) == 1


async def test_a_clock_that_was_ahead_for_a_while_does_not_keep_keys_for_years(store: Store) -> None:
    store.advance(3650 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    store.advance(-3650 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    await reserve(store)

    for _ in range(2):
        await turn(store)

    assert (await reserve(store)).outcome is NEW
