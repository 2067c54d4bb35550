"""Overlap: occurrences that are due while a run of their job is still active, and what is done about them."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.domain.ids import JobId, RunId, WorkerId, occurrence_id
from oncue.domain.instants import MINUTE, SECOND
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.overlap import HeldRun, Unbegun, Withdrawal, decide
from oncue.domain.policy import Overlap
from oncue.domain.run import Claimed, State, Trigger
from oncue.engines.port import CancelRequest, Count
from oncue_conformance.store import Store, ids, only


async def busy_job(store: Store, policy: Overlap, ticks: int = 3) -> tuple[JobId, WorkerId, Claimed, list[RunId]]:
    """A job that has been running since its first tick, while `ticks` more are due; the last one planned is not yet."""
    job_id = await store.recurring(every=MINUTE, overlap=policy)
    worker = await store.worker()
    began = store.now
    await store.plan(ahead=(ticks + 2) * MINUTE)
    store.advance(MINUTE)
    going = only(await store.claim_due(worker))
    store.advance(ticks * MINUTE)
    await store.beat(worker)
    held = [occurrence_id(job_id, store.at(began - store.now + (i + 2) * MINUTE)) for i in range(ticks)]
    return job_id, worker, going, held


async def test_what_is_due_behind_its_own_job_is_overdue(store: Store) -> None:
    job_id, _, going, held = await busy_job(store, Overlap.QUEUE)

    found = await store.planning.overdue(10, store.now)

    first = store.at(-2 * MINUTE)
    assert [run.run_id for run in found] == held
    assert found[0] == HeldRun(held[0], job_id, first, first, Trigger.SCHEDULE, Overlap.QUEUE, going.run_id)
    assert [run.run_id for run in await store.planning.overdue(2, store.now)] == held[:2]


async def test_between_two_attempts_it_is_still_going(store: Store) -> None:
    _, worker, going, _ = await busy_job(store, Overlap.QUEUE, ticks=1)
    await store.fail(worker, going)

    assert only(await store.planning.overdue(10, store.now)).busy == going.run_id
    assert await store.claimable() == []


async def unclaimed_job(store: Store, policy: Overlap, ticks: int = 3, **how: Any) -> tuple[JobId, list[RunId]]:
    """A job with `ticks` due runs that no worker has claimed: the first is admitted, the others are held."""
    job_id = await store.recurring(every=MINUTE, overlap=policy, **how)
    began = store.now
    await store.plan(ahead=(ticks + 1) * MINUTE)
    store.advance(ticks * MINUTE)
    return job_id, [occurrence_id(job_id, store.at(began - store.now + (i + 1) * MINUTE)) for i in range(ticks)]


async def test_what_was_let_in_and_has_not_begun_is_in_the_way(store: Store) -> None:
    """No worker claims it: otherwise one more run would wait at each tick, and the ledger would stay empty."""
    job_id, runs = await unclaimed_job(store, Overlap.SKIP)

    found = await store.planning.overdue(10, store.now)

    at = [store.at(n * MINUTE) for n in (-2, -1, 0)]
    first = Unbegun(runs[0], at[0], at[0], Trigger.SCHEDULE)
    assert found == [
        HeldRun(run_id, job_id, when, when, Trigger.SCHEDULE, Overlap.SKIP, None, first)
        for run_id, when in zip(runs[1:], at[1:], strict=True)
    ]


async def test_what_was_handed_back_has_begun(store: Store) -> None:
    _, worker, going, _ = await busy_job(store, Overlap.REPLACE, ticks=1)
    await store.hand_back(worker, going)

    found = only(await store.planning.overdue(10, store.now))

    assert (found.busy, found.first) == (going.run_id, None)


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
async def test_while_nobody_claims_at_most_one_waits(store: Store, policy: Overlap) -> None:
    job_id, runs = await unclaimed_job(store, policy)

    await store.decide_overlaps()
    await store.decide_overlaps()  # another scheduler decides the same

    left = runs[-1] if policy is Overlap.REPLACE else runs[0]
    assert await store.claimable() == [left]
    fates = [(entry.outcome, entry.reason, entry.run_id) for entry in await store.ledger(job_id)]
    assert sorted(fates) == sorted(
        {
            Overlap.SKIP: [(Outcome.SKIPPED, "overlap", left)] * 2,
            Overlap.QUEUE: [(Outcome.COALESCED, "overlap", left)] * 2,
            Overlap.REPLACE: [(Outcome.SKIPPED, "replaced", run_id) for run_id in runs[1:]],
        }[policy]
    )
    assert {entry.first for entry in await store.ledger(job_id)} == {
        store.at(n * MINUTE) for n in ((-2, -1) if policy is Overlap.REPLACE else (-1, 0))
    }
    assert (await store.counts())[Count.WITHDRAWN] == 2
    await store.check_counts()
    worker = await store.worker()
    await store.succeed(worker, only(await store.claim_due(worker)))


@pytest.mark.parametrize("why", ["claimed", "handed back"])
async def test_what_was_claimed_meanwhile_is_not_withdrawn(store: Store, why: str) -> None:
    """Decided while the run waited; it starts at this moment, or has started before."""
    job_id, runs = await unclaimed_job(store, Overlap.REPLACE, ticks=2)
    decided = list(decide(await store.planning.overdue(10, store.now), store.now))
    entry = Entry(job_id, store.at(-MINUTE), store.at(-MINUTE), 1, Outcome.SKIPPED, "replaced", runs[1])
    assert decided == [Withdrawal(runs[0], entry, let_in=True)]
    worker = await store.worker()
    run = await store.claim_one(worker, runs[0])
    if why == "handed back":
        await store.hand_back(worker, run)

    assert await store.planning.withdraw([Withdrawal(runs[0], entry, let_in=True)], store.now) == frozenset()

    assert await store.ledger(job_id) == []
    assert await store.state(runs[0]) is (State.RUNNING if why == "claimed" else State.WAITING)
    await store.check_counts()


async def test_behind_a_stranger_of_its_group_it_only_waits(store: Store) -> None:
    stranger = await store.one_shot(group="g")
    worker = await store.worker()
    await store.claim_one(worker, stranger)
    job_id = await store.recurring(every=MINUTE, group="g", overlap=Overlap.SKIP)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)

    found = only(await store.planning.overdue(10, store.now))

    assert (found.job_id, found.busy) == (job_id, None)
    await store.decide_overlaps()
    assert len((await store.snapshot(job_id)).waiting) == 1


async def test_queue_keeps_one_and_coalesces_the_rest_into_it(store: Store) -> None:
    job_id, worker, going, held = await busy_job(store, Overlap.QUEUE)

    await store.decide_overlaps()
    await store.decide_overlaps()  # another scheduler decides the same

    at = [store.at(-MINUTE), store.now]
    assert sorted(await store.ledger(job_id), key=lambda entry: entry.first) == [
        Entry(job_id, one, one, 1, Outcome.COALESCED, "overlap", held[0]) for one in at
    ]
    assert [await store.history.run(None, run_id) for run_id in held[1:]] == [None, None]
    await store.succeed(worker, going)
    assert await store.claimable() == held[:1]
    assert (await store.counts())[Count.WITHDRAWN] == 2
    await store.check_counts()


async def test_skip_drops_what_overlaps(store: Store) -> None:
    job_id, worker, going, held = await busy_job(store, Overlap.SKIP)

    await store.decide_overlaps()

    assert {(entry.outcome, entry.run_id) for entry in await store.ledger(job_id)} == {(Outcome.SKIPPED, going.run_id)}
    assert len(await store.ledger(job_id)) == len(held)
    await store.succeed(worker, going)
    assert await store.claimable() == []
    store.advance(MINUTE)
    assert len(await store.claimable()) == 1  # the next tick, planned before, runs as usual


async def test_replace_stops_the_going_run_for_the_newest(store: Store) -> None:
    job_id, worker, going, held = await busy_job(store, Overlap.REPLACE)

    await store.decide_overlaps()

    assert await store.fleet.cancel_requests(worker) == (CancelRequest(going.run_id),)
    await store.succeed(worker, going)
    assert await store.state(going.run_id) is State.CANCELLED
    assert await store.claimable() == held[-1:]
    assert {(entry.outcome, entry.reason) for entry in await store.ledger(job_id)} == {(Outcome.SKIPPED, "replaced")}


async def test_allow_lets_them_run_together(store: Store) -> None:
    job_id, _, going, held = await busy_job(store, Overlap.ALLOW)

    assert await store.planning.overdue(10, store.now) == []
    assert await store.claimable() == held
    assert (await store.snapshot(job_id)).going == (going.run_id,)


async def test_what_is_no_longer_held_is_not_withdrawn(store: Store) -> None:
    """Decided, but meanwhile the lane was freed: the run may be starting at this moment, so it stays."""
    job_id, worker, going, held = await busy_job(store, Overlap.SKIP)
    decided = [
        Withdrawal(run.run_id, Entry(job_id, run.wanted, run.wanted, 1, Outcome.SKIPPED, "overlap"))
        for run in await store.planning.overdue(10, store.now)
    ]
    await store.succeed(worker, going)

    assert await store.planning.withdraw(decided, store.now) == set(held[1:])
    assert await store.planning.withdraw(decided, store.now) == frozenset()

    assert await store.claimable() == held[:1]
    assert len(await store.ledger(job_id)) == 2
    assert await store.planning.withdraw([], store.now) == frozenset()
    await store.check_counts()


async def test_whoever_follows_a_withdrawn_run_is_next(store: Store) -> None:
    job_id, worker, going, held = await busy_job(store, Overlap.ALLOW, ticks=2)
    lane = await store.one_shots(3, due=-SECOND, apart=1, group="g")
    first = await store.claim_one(worker, lane[0])
    entry = Entry(job_id, store.now, store.now, 1, Outcome.SKIPPED, "overlap")

    assert await store.planning.withdraw([Withdrawal(lane[1], entry)], store.now) == {lane[1]}
    await store.succeed(worker, first, going)

    assert set(await store.claimable()) == {lane[2], *held}
    assert lane[1] not in ids(await store.runs())
