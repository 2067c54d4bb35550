"""Lanes: groups in order, gates of a width, and no run that blocks another without need.

Gates: concurrency keys of a width, alone and together with groups.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncue.domain.change import resume
from oncue.domain.ids import RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue_conformance.store import Store, in_order, job_of, only


async def test_a_group_runs_one_after_the_other_in_order(store: Store) -> None:
    runs = await store.one_shots(5, due=-MINUTE, apart=1, group="g")
    worker = await store.worker()

    for run_id in runs:
        assert await store.claimable() == [run_id]
        run = await store.claim_one(worker, run_id)
        assert await store.claimable() == []
        await store.succeed(worker, run)


async def test_the_order_is_by_wanted_not_by_creation(store: Store) -> None:
    dues = store.chance.sample(range(1, 21), 20)
    created = {due: await store.one_shot(-MINUTE + due, group="g") for due in dues}

    assert await in_order(store) == [created[due] for due in sorted(dues)]


async def test_in_one_batch_too(store: Store) -> None:
    new = [await store.new_one_shot(-MINUTE + due, group="g") for due in store.chance.sample(range(20), 20)]
    await store.create(*new)

    assert await in_order(store) == [
        one.job.job_id for one in sorted(new, key=lambda one: one.job.spec.schedule.at or 0)
    ]


async def test_equal_instants_run_in_order_of_their_ids(store: Store) -> None:
    runs = await store.one_shots(10, group="g")

    assert await in_order(store) == sorted(runs)


async def test_groups_do_not_wait_for_each_other(store: Store) -> None:
    heads = [await store.one_shot(group=f"g{i}") for i in range(5)]
    for i in range(5):
        await store.one_shots(2, due=1, apart=1, group=f"g{i}")
    stranger = await store.one_shot(group="g0", uid=store.stranger)
    store.advance(SECOND)

    assert set(await store.claimable()) == {*heads, stranger}


async def test_a_head_in_the_future_holds_those_behind_it(store: Store) -> None:
    """Order is by instant: no run behind it can be due sooner."""
    first, second = await store.one_shots(2, due=SECOND, apart=SECOND, group="g")

    assert await store.claimable() == []
    store.advance(HOUR)
    assert await in_order(store) == [first, second]


async def test_an_earlier_arrival_goes_ahead_of_an_unclaimed_head(store: Store) -> None:
    later = await store.one_shot(-SECOND, group="g")
    earlier = await store.one_shot(-MINUTE, group="g")

    assert await store.claimable() == [earlier]
    assert await store.claim(await store.worker(), later) == []
    assert await in_order(store) == [earlier, later]


async def test_an_earlier_arrival_waits_for_a_running_head(store: Store) -> None:
    worker = await store.worker()
    running = await store.claim_one(worker, await store.one_shot(-SECOND, group="g"))
    earlier = await store.one_shot(-MINUTE, group="g")

    assert await store.claimable() == []
    await store.succeed(worker, running)
    assert await store.claimable() == [earlier]


@pytest.mark.parametrize("lane", [{"group": "g"}, {"gate": ("c", 1)}])
async def test_a_retry_keeps_its_place(store: Store, lane: dict[str, Any]) -> None:
    """Nothing runs between two attempts, not even a run that should have come before."""
    first, second = await store.one_shots(2, due=-SECOND, apart=1, **lane)
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, first))
    earlier = await store.one_shot(-MINUTE, **lane)

    assert await store.claimable() == []
    assert await store.claim(worker, second, earlier) == []
    store.advance(MINUTE)
    assert await in_order(store) == [first, earlier, second]


async def test_a_lost_run_keeps_its_place(store: Store) -> None:
    first, second = await store.one_shots(2, apart=1, group="g")
    worker = await store.worker()
    await store.claim_one(worker, first)
    store.advance(SECOND)
    await store.fleet.leave(worker)
    assert await store.claimable() == []
    await store.recover_runs()

    assert await in_order(store) == [first, second]


async def cancel_running(store: Store, run_id: RunId) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.running.cancel(None, run_id, store.now)
    await store.succeed(worker, run)


async def cancel_and_hand_back(store: Store, run_id: RunId) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.running.cancel(None, run_id, store.now)
    await store.hand_back(worker, run)


async def cancel_job(store: Store, run_id: RunId) -> None:
    await store.jobs.cancel(None, job_of(run_id), store.now)


async def lose_for_good(store: Store, run_id: RunId) -> None:
    for _ in range(3):
        worker = await store.worker()
        await store.claim_one(worker, run_id)
        await store.fleet.leave(worker)
        await store.recover_runs()


async def edit_out(store: Store, run_id: RunId) -> None:
    assert await store.edit(job_of(run_id), group=None, concurrency=None)
    await store.running.cancel(None, run_id, store.now)


def end_as(state: State) -> Callable[[Store, RunId], Awaitable[None]]:
    async def end(store: Store, run_id: RunId) -> None:
        await store.end(run_id, state)

    return end


LEAVING = {
    "succeed": end_as(State.SUCCEEDED),
    "die": end_as(State.DEAD),
    "cancel waiting": end_as(State.CANCELLED),
    "expire": end_as(State.EXPIRED),
    "cancel running": cancel_running,
    "cancel and hand back": cancel_and_hand_back,
    "cancel its job": cancel_job,
    "lose it three times": lose_for_good,
    "edit it out": edit_out,
}


@pytest.mark.parametrize("lane", [{"group": "g"}, {"gate": ("c", 1)}, {"group": "g", "gate": ("c", 1)}])
@pytest.mark.parametrize("leaving", LEAVING)
async def test_whoever_leaves_admits_the_next(store: Store, leaving: str, lane: dict[str, Any]) -> None:
    first = await store.one_shot(-SECOND, start_within=MINUTE, **lane)
    second, third = await store.one_shots(2, apart=1, **lane)
    store.advance(SECOND)
    assert await store.claimable() == [first]

    await LEAVING[leaving](store, first)

    assert await store.claimable() == [second]
    assert await in_order(store) == [second, third]


@pytest.mark.parametrize("leaving", ["cancel waiting", "expire"])
async def test_whoever_leaves_from_the_middle_changes_no_order(store: Store, leaving: str) -> None:
    first = await store.one_shot(-SECOND, group="g")
    middle = await store.one_shot(group="g", start_within=MINUTE)
    last = await store.one_shot(1, group="g")
    store.advance(SECOND)

    await LEAVING[leaving](store, middle)

    assert await in_order(store) == [first, last]


@pytest.mark.parametrize("lane", [{"group": "g"}, {"gate": ("c", 1)}])
async def test_a_paused_member_lets_the_others_pass(store: Store, lane: dict[str, Any]) -> None:
    first, second = await store.one_shots(2, due=-SECOND, apart=1, **lane)

    await store.pause(job_of(first))
    assert await store.claimable() == [second]
    await store.change(job_of(first), lambda snap: resume(snap, CatchUp.LAST, store.now))
    assert await store.claimable() == [first]
    assert await in_order(store) == [first, second]


async def test_whoever_is_resumed_waits_for_the_one_that_passed(store: Store) -> None:
    first, second = await store.one_shots(2, due=-SECOND, apart=1, group="g")
    worker = await store.worker()
    await store.pause(job_of(first))
    running = await store.claim_one(worker, second)

    await store.change(job_of(first), lambda snap: resume(snap, CatchUp.LAST, store.now))

    assert await store.claimable() == []
    await store.succeed(worker, running)
    assert await store.claimable() == [first]


async def test_a_thousand_waiting_members_are_not_looked_at(store: Store) -> None:
    """Two thousand wait, one is claimable, at every step: reading the claimable runs never reads the others."""
    runs = await store.one_shots(2_000, due=-MINUTE, apart=1, group="g")
    worker = await store.worker()

    for run_id in runs[:5]:
        run = only(await store.claim_due(worker))
        assert run.run_id == run_id
        assert await store.claimable() == []
        await store.succeed(worker, run)
    assert await store.claimable() == [runs[5]]


async def test_members_of_one_batch_settle_together(store: Store) -> None:
    """Several lanes freed by one settle each admit their own next."""
    lanes = [await store.one_shots(2, due=-SECOND, apart=1, group=f"g{i}", gate=("c", 10)) for i in range(6)]
    worker = await store.worker()

    await store.succeed(worker, *await store.claim_due(worker))

    assert set(await store.claimable()) == {second for _, second in lanes}


# ---------------------------------------------------------------------------------------------------------------- gates


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
