"""Returning runs to the queue: a draining worker gives up the runs it holds, and no attempt is used up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.change import resume
from oncue.domain.instants import MINUTE, SECOND
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue.engines.port import Cancelled, Count
from oncue.testing.conformance.store import Store, ids, job_of, only


async def test_it_is_as_if_it_had_never_been_claimed(store: Store) -> None:
    run_id = await store.one_shot(due=-SECOND, payload=b"[1]")
    worker = await store.worker()
    first = await store.claim_one(worker, run_id)
    store.advance(SECOND)

    assert await store.hand_back(worker, first) == {run_id}
    view = await store.run(run_id)
    second = await store.claim_one(await store.worker(), run_id)

    assert (view.state, view.due, view.worker_id) == (State.WAITING, first.due, None)
    assert (view.failures, view.losses) == (0, 0)
    assert replace(second, token=first.token, claimed_at=first.claimed_at, free_at=first.free_at) == first
    assert await store.counts() == {Count.CREATED: 1}


async def test_it_may_be_due_later_than_before(store: Store) -> None:
    """Its payload could not be read from object storage."""
    run_id = await store.one_shot()
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)

    assert await store.hand_back(worker, replace(run, due=store.at(MINUTE))) == {run_id}

    assert await store.claimable() == []
    assert await store.claim(worker, run_id) == []
    store.advance(MINUTE)
    await store.beat(worker)
    again = await store.claim_one(worker, run_id)
    assert (again.attempt, again.due, again.wanted) == (1, store.now, run.wanted)


async def test_between_two_attempts_nothing_more_is_spent(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, run_id))
    due = (await store.run(run_id)).due
    store.advance(MINUTE)
    await store.beat(worker)

    await store.hand_back(worker, await store.claim_one(worker, run_id))
    view = await store.run(run_id)

    assert (view.state, view.failures, view.due) == (State.WAITING, 1, due)
    assert (await store.claim_one(worker, run_id)).attempt == 2


async def test_one_that_was_to_be_cancelled_ends(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.running.cancel(None, run_id, store.now)

    assert await store.hand_back(worker, run) == {run_id}

    assert await store.state(run_id) is State.CANCELLED
    assert (await store.counts())[Count.CANCELLED] == 1
    assert await store.running.cancel(None, run_id, store.now) == Cancelled(final=State.CANCELLED)


async def test_only_what_is_held_is_given_back(store: Store) -> None:
    worker, other = await store.worker(), await store.worker()
    mine, theirs, done, stale = await store.one_shots(4)
    held = await store.claim_one(worker, mine)
    foreign = await store.claim_one(other, theirs)
    ended = await store.claim_one(worker, done)
    await store.succeed(worker, ended)
    old = await store.claim_one(worker, stale)
    await store.hand_back(worker, old)
    current = await store.claim_one(worker, stale)

    assert await store.hand_back(worker, held, foreign, ended, old) == {mine}

    assert await store.running.held_by(worker, [mine, theirs, done, stale]) == [current]
    assert await store.running.held_by(other, [theirs]) == [foreign]


async def test_handing_back_nothing_or_again_is_no_problem(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())

    assert await store.hand_back(worker) == frozenset()
    assert await store.hand_back(worker, run) == {run.run_id}
    assert await store.hand_back(worker, run) == frozenset()


@pytest.mark.parametrize("lane", [{"group": "g"}, {"gate": ("c", 1)}])
async def test_a_lane_goes_on_with_what_was_handed_back(store: Store, lane: dict[str, Any]) -> None:
    first, second = await store.one_shots(2, apart=1, **lane)
    store.advance(SECOND)
    worker = await store.worker()
    run = only(await store.claim_due(worker))

    await store.hand_back(worker, run)

    assert await store.claimable() == [first]
    await store.succeed(worker, *await store.claim_due(worker))
    assert ids(await store.claim_due(worker)) == [second]


async def test_an_occurrence_that_was_handed_back_has_started_and_outlives_edits(store: Store) -> None:
    """Created again by an edit, its token would start again, and an earlier holder could settle it."""
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    await store.edit(job_id, name="while it ran")
    await store.hand_back(worker, run)

    assert await store.edit(job_id, name="after it was handed back")
    assert await store.pause(job_id)
    assert await store.change(job_id, lambda snap: resume(snap, CatchUp.SKIP, store.now))

    [again] = await store.claim_due(worker)
    assert (again.run_id, again.token, again.job_version) == (run.run_id, run.token + 1, run.job_version)


async def test_an_edit_after_a_hand_back_leaves_no_room_for_a_second_one(store: Store) -> None:
    """A repeat, because the first answer was lost, must not free what the same worker has claimed since."""
    run_id = await store.one_shot()
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.hand_back(worker, run)
    assert await store.edit(job_of(run_id), payload=b"2")
    again = await store.claim_one(worker, run_id)

    assert again.token > run.token
    assert await store.hand_back(worker, run) == frozenset()
    assert await store.state(run_id) is State.RUNNING
