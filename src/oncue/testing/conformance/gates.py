"""Gates: concurrency keys of a width, alone and together with groups."""

from __future__ import annotations

from oncue.domain.instants import MINUTE, SECOND
from oncue.testing.conformance.store import Store, in_order, job_of, only


async def test_a_gate_admits_as_many_as_it_is_wide(store: Store) -> None:
    runs = await store.one_shots(7, due=-SECOND, apart=1, gate=("c", 3))
    worker = await store.worker()

    assert await store.claimable() == runs[:3]
    first, *_ = await store.claim_due(worker)
    assert await store.claimable() == []
    await store.succeed(worker, first)
    assert await store.claimable() == runs[3:4]


async def test_the_newest_definition_decides_how_wide_a_gate_is(store: Store) -> None:
    runs = await store.one_shots(4, due=-SECOND, apart=1, gate=("c", 1))

    last = await store.one_shot(gate=("c", 3))
    assert await store.claimable() == runs[:3]
    await store.running.cancel(None, last, store.now)
    await store.one_shot(gate=("c", 2))
    assert await store.claimable() == runs[:2]


async def test_a_narrowed_gate_waits_until_enough_have_left(store: Store) -> None:
    await store.one_shots(3, due=-SECOND, apart=1, gate=("c", 3))
    worker = await store.worker()
    claimed = await store.claim_due(worker)
    last = await store.one_shot(gate=("c", 1))

    await store.succeed(worker, *claimed[:2])
    assert await store.claimable() == []
    await store.succeed(worker, claimed[2])
    assert await store.claimable() == [last]


async def test_a_group_member_goes_through_its_gate_as_well(store: Store) -> None:
    a = await store.one_shots(2, due=-9 * SECOND, apart=SECOND, group="a", gate=("c", 2))
    b = await store.one_shots(2, due=-7 * SECOND, apart=SECOND, group="b", gate=("c", 2))
    c = await store.one_shots(2, due=-5 * SECOND, apart=SECOND, group="c", gate=("c", 2))
    worker = await store.worker()

    assert await store.claimable() == [a[0], b[0]]  # the gate holds c's head, their groups hold all others
    first, second = await store.claim_due(worker)
    await store.succeed(worker, first)
    assert await store.claimable() == [a[1]]  # earlier than c's head
    await store.succeed(worker, second)
    assert await store.claimable() == [a[1], b[1]]
    assert await in_order(store) == [a[1], b[1], *c]


async def test_a_member_its_gate_holds_still_holds_its_group(store: Store) -> None:
    busy = await store.one_shot(-9 * SECOND, gate=("c", 1))
    first = await store.one_shot(-8 * SECOND, group="g", gate=("c", 1))
    second = await store.one_shot(-7 * SECOND, group="g")

    assert await store.claimable() == [busy]
    assert await in_order(store) == [busy, first, second]


async def test_a_retry_in_a_group_keeps_its_place_in_the_gate(store: Store) -> None:
    first = await store.one_shot(-9 * SECOND, group="g", gate=("c", 1))
    stranger = await store.one_shot(-8 * SECOND, gate=("c", 1))
    worker = await store.worker()
    await store.fail(worker, only(await store.claim_due(worker)))

    assert await store.claimable() == []
    store.advance(MINUTE)
    assert await in_order(store) == [first, stranger]


async def test_a_paused_member_of_a_group_and_a_gate_holds_neither(store: Store) -> None:
    first = await store.one_shot(-9 * SECOND, group="g", gate=("c", 1))
    same_group = await store.one_shot(-8 * SECOND, group="g")
    same_gate = await store.one_shot(-7 * SECOND, gate=("c", 1))

    await store.pause(job_of(first))

    assert await store.claimable() == [same_group, same_gate]
