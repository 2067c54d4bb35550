"""What a worker holds: all of it, with its fences, so that nothing is forgotten; and nothing by a late call.

Returning runs to the queue: a draining worker gives up the runs it holds, and no attempt is used up.

Drained workers: they claim nothing until they are resumed. And the runs that a worker holds.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from oncue.domain import attempt
from oncue.domain.change import resume
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import MINUTE, SECOND, Instant
from oncue.domain.policy import CatchUp
from oncue.domain.run import Claimed, Holding, Settled, State
from oncue.engines.port import Beat, Cancelled, Count, Worker
from oncue_conformance.store import LEASE, Store, ids, job_of, only


def fences(*runs: Claimed) -> set[Holding]:
    return {Holding(run.run_id, run.token, run.claimed_at) for run in runs}


async def held(store: Store, worker: WorkerId) -> set[Holding]:
    return set(await store.running.holdings(worker))


async def test_a_worker_is_told_all_that_it_holds_and_by_which_token(store: Store) -> None:
    one, two = await store.worker(), await store.worker()
    first = await store.claim(one, *await store.one_shots(2))
    store.advance(SECOND)
    again = await store.claim_one(one, await store.one_shot())
    await store.hand_back(one, again)
    again = await store.claim_one(one, again.run_id)
    theirs = await store.claim_one(two, await store.one_shot())
    await store.succeed(one, await store.claim_one(one, await store.one_shot()))
    await store.one_shot()

    assert await held(store, one) == fences(*first, again)
    assert await held(store, two) == fences(theirs)
    assert (again.token, again.claimed_at - first[0].claimed_at) == (2, SECOND)


async def test_who_is_not_registered_holds_nothing(store: Store) -> None:
    worker = await store.worker()
    await store.claim_one(worker, await store.one_shot())
    await store.lose(worker)

    assert await store.running.holdings(worker) == []
    assert await store.running.holdings(WorkerId(store.new_id())) == []


async def test_a_claim_that_arrives_after_its_deadline_takes_nothing(store: Store) -> None:
    """Its worker's heartbeats say how late it is, whatever the clock of the machine says: so it works at any date."""
    worker = await store.worker()
    run_id, until = await store.one_shot(), store.at(SECOND)
    store.advance(SECOND)
    await store.beat(worker)
    assert ids(await store.running.claim(worker, [run_id], store.now, until)) == [run_id]

    store.advance(MINUTE)
    await store.beat(worker)
    late = await store.one_shot()
    assert await store.running.claim(worker, [late], store.now, until) == []
    assert await store.state(late) is State.WAITING
    assert ids(await store.running.claim(worker, [late], store.now, store.now)) == [late]


async def test_another_workers_heartbeat_says_nothing(store: Store) -> None:
    worker, until = await store.worker(), Instant(store.now)
    store.advance(MINUTE)
    await store.beat(await store.worker())
    run_id = await store.one_shot()

    assert ids(await store.running.claim(worker, [run_id], store.now, until)) == [run_id]


async def test_a_run_whose_settlement_was_taken_back_is_offered_again(store: Store) -> None:
    """As when an asynchronous replica is promoted: the worker was told that its run has ended, and the store, which is
    another one by now, has the run as it was before. No verb takes a write back, so here it was never made.

    The worker finds the run among its holdings and returns it as a loss. Then what it knew of the run is void.
    """
    worker, other = await store.worker(), await store.worker()
    run = await store.claim_one(worker, await store.one_shot(group="g"))
    taken_back = attempt.succeeded(run, store.now, store.now, b"1")

    [fence] = await store.running.holdings(worker)
    [held] = await store.running.held_by(worker, [fence.run_id])
    assert (fence, await store.claimable()) == (Holding(run.run_id, run.token, run.claimed_at), [])
    lost = attempt.lost(held, worker, held.claimed_at, store.now, attempt.LOST_SETTLEMENT)
    assert await store.settle(worker, lost) == Settled()

    assert (await store.running.holdings(worker), await store.claimable()) == ([], [run.run_id])
    again = await store.claim_one(other, run.run_id)
    assert (again.token, again.losses, again.failures) == (run.token + 1, 1, 0)
    for late in (taken_back, lost):
        assert await store.settle(worker, late) == Settled(lost=frozenset({run.run_id}))
    assert await store.succeed(other, again) == Settled()
    await store.check_counts()


async def test_a_settlement_that_was_taken_back_can_be_written_again(store: Store) -> None:
    """And what waits behind its run is offered: nothing of the first time is left that could forbid it."""
    worker = await store.worker()
    first, behind = await store.one_shots(2, due=-MINUTE, apart=SECOND, group="g")
    run = await store.claim_one(worker, first)
    taken_back = attempt.succeeded(run, store.now, store.now, b"1")
    assert await store.claimable() == []

    assert await store.settle(worker, taken_back) == Settled()

    assert ((await store.run(first)).result, await store.claimable()) == (b"1", [behind])
    await store.check_counts()


# ------------------------------------------------------------------------------------------------ returned to the queue


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


# ------------------------------------------------------------------------------------------------------ drained workers


async def test_a_drained_worker_claims_nothing_until_it_is_resumed_and_keeps_its_runs(store: Store) -> None:
    worker, other = await store.worker(), await store.worker()
    run_id = await store.one_shot()
    [mine] = await store.claim_due(worker)
    await store.one_shot()
    asked_at = store.now

    assert await store.fleet.drain(worker, asked_at)
    store.advance(SECOND)
    assert await store.fleet.drain(worker, store.now), "a repeat"
    assert await store.claim_due(worker) == []
    drained = next(one for one in await store.fleet.workers() if one.worker_id == worker)
    assert (drained.draining, drained.drain_at) == (True, asked_at)
    told = await store.beat(worker)
    assert told is not None
    assert told.drain_at == asked_at
    assert await store.beat(other) == Beat(place=0, peers=1), "who takes no runs has no place"
    await store.succeed(worker, mine)
    assert await store.state(run_id) is State.SUCCEEDED

    assert await store.fleet.undrain(worker)
    assert await store.fleet.undrain(worker), "a repeat"
    beat = await store.beat(worker)
    assert beat is not None
    assert (beat.peers, beat.drain_at) == (2, None)
    assert len(await store.claim_due(worker)) == 1


async def test_a_worker_that_is_gone_is_not_drained_and_one_that_leaves_says_how_it_was(store: Store) -> None:
    worker = await store.worker()
    await store.fleet.drain(worker, store.now)
    found = only(await store.fleet.workers())

    assert await store.fleet.leave(worker) == found
    assert await store.fleet.leave(worker) is None
    assert not await store.fleet.drain(worker, store.now)
    assert not await store.fleet.undrain(worker)
    assert await store.fleet.workers() == []


async def test_a_worker_registers_as_drained_and_a_repeat_leaves_it_so(store: Store) -> None:
    worker = Worker(WorkerId(store.new_id()), "name", "host", LEASE, store.now, store.now, drain_at=store.now)
    await store.fleet.register(worker, store.now)
    await store.fleet.register(msgspec.structs.replace(worker, drain_at=None), store.now)

    assert only(await store.fleet.workers()).drain_at == store.now
    await store.one_shot()
    assert await store.claim_due(worker.worker_id) == []


async def test_the_runs_that_a_worker_holds_are_listed_page_by_page(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at a bounded number of running runs, whoever holds them: it may be short, or empty."""
    for lists in ("sqlite", "postgres"):
        monkeypatch.setattr(f"oncue.engines.{lists}.lists.HELD_SCAN", 3)
    mine, theirs = await store.worker(), await store.worker()
    held = dict[RunId, bool]()
    for turn in range(8):
        store.advance(SECOND)  # ids rise with time
        run_id = await store.one_shot(uid=store.stranger if turn == 5 else store.uid)
        held[run_id] = turn not in (0, 1, 2, 4)
        await store.claim_due(mine if held[run_id] else theirs)

    for uid, strangers in ((None, True), (store.uid, False)):
        found, after, pages = list[RunId](), None, 0
        while pages == 0 or after is not None:
            page = await store.lists.held(mine, uid, 2, after)
            found += [run.run_id for run in page.items]
            after, pages = page.next, pages + 1
            assert len(page.items) <= 2
            assert pages < 9
        expected = [run_id for run_id, is_mine in sorted(held.items()) if is_mine]
        if not strangers:
            expected.remove(sorted(held)[5])
        assert found == expected
