"""Run-now and backfill: runs in addition to the schedule."""

from __future__ import annotations

import pytest

from oncue.domain.change import JobChange, backfill, run_now
from oncue.domain.ids import JobId, RunId, occurrence_id
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.job import JobStatus
from oncue.domain.run import State, Trigger
from oncue.domain.schedule import Schedule
from oncue.testing.conformance.store import Store, ids, job_of, only


async def by_hand(store: Store, job_id: JobId) -> JobChange:
    return run_now(await store.snapshot(job_id), RunId(store.new_id()), store.now)


async def test_run_now_is_one_more_run_beside_the_schedule(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, payload=b"1")
    cursor = (await store.snapshot(job_id)).cursor
    change = await by_hand(store, job_id)

    assert await store.jobs.apply(change, store.now)

    run = only(await store.claim_due(await store.worker()))
    assert (run.run_id, run.trigger, run.nominal, run.payload) == (change.add[0].run_id, Trigger.RUN_NOW, None, b"1")
    assert (run.inline, run.origin) == (False, run.run_id)
    assert (await store.snapshot(job_id)).cursor == cursor
    await store.check_counts()


async def test_planning_meanwhile_is_no_conflict(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    change = await by_hand(store, job_id)
    await store.plan(ahead=MINUTE)

    assert await store.jobs.apply(change, store.now)


async def test_a_repeat_adds_nothing(store: Store) -> None:
    """Whatever the call answers: the run exists once, and does not come back after its end."""
    job_id = await store.recurring(every=MINUTE)
    change = await by_hand(store, job_id)
    worker = await store.worker()

    await store.jobs.apply(change, store.now)
    await store.jobs.apply(change, store.now)
    run = only(await store.claim_due(worker))
    await store.jobs.apply(change, store.now)
    await store.succeed(worker, run)
    await store.jobs.apply(change, store.now)

    assert await store.claimable() == []
    assert len(await store.runs(job_id=job_id)) == 1
    await store.check_counts()


async def test_run_now_obeys_the_lane(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    worker = await store.worker()
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    going = only(await store.claim_due(worker))

    assert await store.jobs.apply(await by_hand(store, job_id), store.now)

    assert await store.claimable() == []
    await store.succeed(worker, going)
    assert only(await store.claim_due(worker)).trigger is Trigger.RUN_NOW


async def test_a_one_shot_can_be_run_again_when_it_is_over(store: Store) -> None:
    run_id = await store.one_shot(payload=b"1")
    await store.end(run_id, State.SUCCEEDED)
    worker = await store.worker()

    assert await store.jobs.apply(await by_hand(store, job_of(run_id)), store.now)

    again = only(await store.claim_due(worker))
    assert (again.job_id, again.payload, again.inline) == (job_of(run_id), b"1", True)
    assert again.run_id != run_id
    await store.succeed(worker, again)
    assert set(ids(await store.runs(job_id=job_of(run_id)))) == {run_id, again.run_id}
    assert (await store.snapshot(job_of(run_id))).job.status is JobStatus.FINISHED


@pytest.mark.parametrize("recurring", [True, False])
async def test_a_cancelled_job_gets_no_more_runs(store: Store, recurring: bool) -> None:
    """Decided before the cancel, applied after its answer: P6."""
    job_id = await store.recurring(every=MINUTE) if recurring else job_of(await store.one_shot(HOUR))
    change = await by_hand(store, job_id)
    await store.jobs.cancel(None, job_id, store.now)

    assert not await store.jobs.apply(change, store.now)

    assert await store.claimable() == []


async def test_backfill_runs_the_past_in_nominal_order(store: Store) -> None:
    job_id = await store.recurring(Schedule(every=MINUTE, anchor=store.at(-HOUR)))
    first, last = store.at(-9 * MINUTE), store.at(-5 * MINUTE)
    origin = store.new_id()

    assert await store.change(job_id, lambda snap: backfill(snap, origin, first, last, store.now))
    await store.change(job_id, lambda snap: backfill(snap, origin, first, last, store.now))  # a repeat
    store.advance(SECOND)

    worker, order = await store.worker(), []
    while runs := await store.claim_due(worker):
        order += runs
        await store.succeed(worker, *runs)
    assert [run.nominal for run in order] == [first + i * MINUTE for i in range(5)]
    assert {run.trigger for run in order} == {Trigger.BACKFILL}
    assert order[0].run_id == occurrence_id(job_id, first, origin)
    await store.check_counts()
