"""Run-now and backfill: runs in addition to the schedule.

Runs that follow an ended run which is no dead letter.

Quotas of runs: how many waiting runs started by hand a user may have; exact under concurrency.
"""

from __future__ import annotations

import asyncio
from itertools import cycle

import pytest

from oncue.domain import change
from oncue.domain.change import JobChange, backfill, run_now
from oncue.domain.errors import QuotaExceeded
from oncue.domain.ids import JobId, RunId, occurrence_id
from oncue.domain.instants import HOUR, MINUTE, SECOND, Instant
from oncue.domain.job import JobStatus
from oncue.domain.quota import Quota
from oncue.domain.rerun import again
from oncue.domain.run import NewRun, State, Trigger
from oncue.domain.schedule import Schedule
from oncue_conformance.dead_letters import dead, requeued
from oncue_conformance.store import Store, ids, job_of, only


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


# ------------------------------------------------------------------------------------------- running an ended run again


async def following(store: Store, ended: RunId) -> NewRun:
    return again(await store.run(ended), RunId(store.new_id()), store.now)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.EXPIRED])
async def test_an_ended_run_is_followed_by_one_with_its_definition_and_payload(store: Store, state: State) -> None:
    ended = await store.one_shot(payload=b"[1]", group="g", start_within=MINUTE if state is State.EXPIRED else None)
    await store.end(ended, state)
    new = await following(store, ended)

    assert await store.history.rerun([new], store.now) == {new.run_id}

    run = only(await store.claim_due(await store.worker()))
    assert (run.run_id, run.parent, run.payload, run.trigger) == (new.run_id, ended, b"[1]", Trigger.REQUEUE)
    assert run.lane is not None
    assert await store.state(ended) is state
    await store.check_counts()


async def test_a_run_is_added_once_whoever_repeats_it_and_when(store: Store) -> None:
    ended = await store.one_shot()
    await store.end(ended, State.SUCCEEDED)
    new, other, worker = await following(store, ended), await following(store, ended), await store.worker()

    added = await asyncio.gather(*(store.history.rerun([new, new], store.now) for _ in range(4)))
    assert sorted(map(len, added)) == [0, 0, 0, 1]
    assert await store.history.rerun([other, new], store.now) == {other.run_id}
    for run in await store.claim_due(worker):
        assert await store.history.rerun([new], store.now) == frozenset()
        await store.succeed(worker, run)

    assert await store.history.rerun([new, other], store.now) == frozenset()
    assert await store.claimable() == []
    await store.check_counts()


async def test_a_quota_of_runs_by_hand_refuses_all_or_none(store: Store) -> None:
    ended = await store.one_shot()
    await store.end(ended, State.SUCCEEDED)
    first, second = await following(store, ended), await following(store, ended)

    with pytest.raises(QuotaExceeded):
        await store.history.rerun([first, second], store.now, Quota(runs=1))
    assert await store.claimable() == []
    assert await store.history.rerun([first], store.now, Quota(runs=1)) == {first.run_id}
    with pytest.raises(QuotaExceeded):
        await store.history.rerun([second], store.now, Quota(runs=1))
    assert await store.history.rerun([first], store.now, Quota(runs=1)) == frozenset()


# --------------------------------------------------------------------------------------- quotas of runs started by hand

THREE = Quota(runs=3)


async def run_now_within(store: Store, job_id: JobId, quota: Quota | None = THREE, run_id: RunId | None = None) -> bool:
    decided = change.run_now(await store.snapshot(job_id), run_id or RunId(store.new_id()), store.now)
    return await store.jobs.apply(decided, store.now, quota)


async def backfill_within(store: Store, job_id: JobId, minutes: int, quota: Quota | None = THREE) -> bool:
    snap, since = await store.snapshot(job_id), Instant(store.now - minutes * MINUTE + SECOND)
    return await store.jobs.apply(change.backfill(snap, job_id, since, store.now, store.now), store.now, quota)


async def test_so_many_runs_by_hand_wait_and_no_more(store: Store) -> None:
    job_id, one_shot = await store.recurring(every=HOUR), JobId(await store.one_shot(HOUR))
    assert await run_now_within(store, job_id)
    assert await run_now_within(store, one_shot)
    assert await run_now_within(store, job_id)

    for refused in (job_id, one_shot):
        with pytest.raises(QuotaExceeded, match=r"at most 3 are allowed \(quota_runs\)"):
            await run_now_within(store, refused)
    stranger = await store.recurring(every=HOUR, uid=store.stranger)
    assert await run_now_within(store, stranger)
    assert await run_now_within(store, job_id, Quota())  # an administrator, who counts all the same
    await store.claim_due(await store.worker())
    assert await run_now_within(store, job_id)


async def test_a_backfill_is_all_or_none_and_a_repeat_counts_once(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    store.advance(10 * MINUTE)
    with pytest.raises(QuotaExceeded, match="adds 4"):
        await backfill_within(store, job_id, 4)
    assert await store.claimable() == []

    assert await backfill_within(store, job_id, 3)
    assert await backfill_within(store, job_id, 3)

    assert len((await store.snapshot(job_id)).waiting) == 3
    with pytest.raises(QuotaExceeded):
        await backfill_within(store, job_id, 4)


async def test_a_requeue_counts_and_without_room_its_letters_stay(store: Store) -> None:
    letters = [await dead(store) for _ in range(4)]
    new = [await requeued(store, run_id) for run_id in letters]

    with pytest.raises(QuotaExceeded, match="adds 4"):
        await store.history.requeue(new, store.now, THREE)
    assert len(await store.history.requeue(new[:3], store.now, THREE)) == 3
    with pytest.raises(QuotaExceeded):
        await store.history.requeue(new[3:], store.now, THREE)
    assert await store.history.requeue(new[3:], store.now) == {new[3].run_id}


async def test_of_many_who_ask_at_once_exactly_as_many_get_a_run_as_there_is_room_for(store: Store) -> None:
    stores = [store, await store.second()]
    jobs = [await store.recurring(every=HOUR) for _ in range(8)]

    async def asked(one: Store, job_id: JobId) -> bool:
        try:
            return await run_now_within(one, job_id)
        except QuotaExceeded:
            return False

    done = await asyncio.gather(*(asked(one, job_id) for one, job_id in zip(cycle(stores), jobs, strict=False)))

    assert sum(done) == 3
    assert len(await store.claimable()) == 3
