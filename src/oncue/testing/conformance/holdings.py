"""What a worker holds: all of it, with its fences, so that nothing is forgotten; and nothing by a late call."""

from __future__ import annotations

from oncue.domain import attempt
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MINUTE, SECOND, Instant
from oncue.domain.run import Claimed, Holding, Settled, State
from oncue.testing.conformance.store import Store, ids


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
