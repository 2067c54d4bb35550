"""Pausing and resuming a job: nothing starts meanwhile, and no planned run is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from oncue.domain.change import JobChange, pause, resume, run_now
from oncue.domain.ids import JobId, RunId, occurrence_id
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.job import JobStatus, Snapshot
from oncue.domain.lane import Held
from oncue.domain.ledger import Outcome
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State, Trigger
from oncue.engines.port import Planned
from oncue_conformance.cancelling import CutOff, cut_off
from oncue_conformance.store import Store, ids, job_of


async def resumed(store: Store, job_id: JobId, missed: CatchUp = CatchUp.LAST) -> bool:
    return await store.change(job_id, lambda snap: resume(snap, missed, store.now))


async def test_nothing_starts_while_a_job_is_paused(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=2 * MINUTE)
    assert await store.pause(job_id)
    store.advance(10 * MINUTE)
    planned = occurrence_id(job_id, store.at(-9 * MINUTE))

    assert await store.claimable() == []
    assert await store.claim(await store.worker(), planned) == []
    assert await store.plan() == Planned()
    assert Held.PAUSED in (await store.run(planned)).held
    assert (await store.snapshot(job_id)).job.status is JobStatus.PAUSED


async def test_a_retry_of_a_paused_job_waits_too(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    worker = await store.worker()
    store.advance(MINUTE)
    await store.plan()
    [run] = await store.claim_due(worker)
    await store.fail(worker, run)

    assert await store.pause(job_id)
    store.advance(HOUR)
    assert await store.claimable() == []
    assert await resumed(store, job_id, CatchUp.SKIP)
    assert await store.claimable() == [run.run_id]


async def test_a_retry_that_came_to_wait_while_a_resume_was_decided_is_released_too(store: Store) -> None:
    """The run was running when the caller read it, and held by the pause when the resume was applied."""
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    await store.pause(job_id)
    looked = await store.snapshot(job_id)
    await store.fail(worker, run)

    assert await store.jobs.apply(resume(looked, CatchUp.SKIP, store.now), store.now)

    assert (await store.run(run.run_id)).held is Held.NO
    store.advance(MINUTE)
    assert run.run_id in await store.claimable()


async def test_what_was_handed_back_while_a_pause_was_decided_holds_up_nobody(store: Store) -> None:
    """The run was running when the caller read it, and is at the head of its group when the pause is applied."""
    job_id = await store.recurring(every=MINUTE, group="g")
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    other = await store.one_shot(group="g")
    looked = await store.snapshot(job_id)
    await store.hand_back(worker, run)

    assert await store.jobs.apply(pause(looked, store.now), store.now)

    assert await store.claimable() == [other]


async def test_what_was_handed_back_while_a_resume_was_decided_is_let_in(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, group="g")
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    await store.pause(job_id)
    looked = await store.snapshot(job_id)
    await store.hand_back(worker, run)

    assert await store.jobs.apply(resume(looked, CatchUp.SKIP, store.now), store.now)

    assert await store.claimable() == [run.run_id]


async def test_what_runs_goes_on(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    worker = await store.worker()
    store.advance(MINUTE)
    await store.plan()
    [run] = await store.claim_due(worker)

    assert await store.pause(job_id)

    assert await store.fleet.cancel_requests(worker) == ()
    assert (await store.succeed(worker, run)).lost == frozenset()
    assert await store.state(run.run_id) is State.SUCCEEDED


@pytest.mark.parametrize("missed", CatchUp)
async def test_pause_and_resume_lose_no_planned_tick(store: Store, missed: CatchUp) -> None:
    """Resumed before they are due, planned ticks run as if never paused, whatever the policy for missed ones is."""
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    await store.plan(ahead=5 * MINUTE)

    assert await store.pause(job_id)
    store.advance(SECOND)
    assert await resumed(store, job_id, missed)
    store.advance(10 * MINUTE)
    await store.plan_all()

    worker = await store.worker()
    started = {run.nominal for run in await store.claim_due(worker)}
    began = store.now - SECOND - 10 * MINUTE
    assert {began + i * MINUTE for i in range(1, 6)} <= started
    assert [entry for entry in await store.ledger(job_id) if entry.first <= began + 5 * MINUTE] == []
    await store.check_counts()


@pytest.mark.parametrize("missed", CatchUp)
async def test_resume_decides_about_what_the_pause_swallowed(store: Store, missed: CatchUp) -> None:
    """Ticks 1 and 2 were planned, 3 to 6 were not; the seventh lies ahead."""
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    ticks = [store.at(i * MINUTE) for i in range(8)]
    await store.plan(ahead=2 * MINUTE)
    await store.pause(job_id)
    store.advance(6 * MINUTE + SECOND)

    assert await resumed(store, job_id, missed)
    runs, ledger = await store.runs(job_id=job_id), await store.ledger(job_id)
    started = {run.nominal for run in await store.claim_due(await store.worker())}

    expected = {CatchUp.ALL: ticks[1:7], CatchUp.LAST: ticks[6:7], CatchUp.SKIP: []}[missed]
    assert started == set(expected)
    assert len(runs) == len(expected)
    assert sum(entry.count for entry in ledger) + len(expected) == 6
    assert {(entry.outcome, entry.reason) for entry in ledger} <= {(Outcome.SKIPPED, "paused")}
    snap = await store.snapshot(job_id)
    assert snap.job.status is JobStatus.ACTIVE
    assert snap.cursor is not None
    assert (snap.cursor.next_at, snap.cursor.floor) == (ticks[7], store.now)
    await store.check_counts()


async def test_a_resumed_job_is_planned_again(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.pause(job_id)
    store.advance(HOUR)
    await resumed(store, job_id, CatchUp.SKIP)

    assert (await store.plan(ahead=MINUTE)).runs == 1


async def test_a_paused_one_shot_waits_until_it_is_resumed(store: Store) -> None:
    run_id = await store.one_shot(MINUTE)

    assert await store.pause(job_of(run_id))
    assert (await store.snapshot(job_of(run_id))).job.status is JobStatus.PAUSED
    store.advance(HOUR)
    assert await store.claim(await store.worker(), run_id) == []
    assert await resumed(store, job_of(run_id))
    assert (await store.snapshot(job_of(run_id))).job.status is JobStatus.ACTIVE
    assert ids(await store.claim(await store.worker(), run_id)) == [run_id]


async def test_a_paused_one_shot_that_is_edited_stays_paused(store: Store) -> None:
    run_id = await store.one_shot()
    await store.pause(job_of(run_id))

    assert await store.edit(job_of(run_id), payload=b"2")

    assert (await store.snapshot(job_of(run_id))).job.status is JobStatus.PAUSED
    assert await store.claimable() == []


async def test_a_start_meanwhile_refuses_a_pause(store: Store) -> None:
    """The run to be held is running: the caller reads again and finds out."""
    run_id = await store.one_shot()
    snap = await store.snapshot(job_of(run_id))
    await store.claim_one(await store.worker(), run_id)

    assert not await store.jobs.apply(pause(snap, store.now), store.now)


async def test_an_edit_meanwhile_refuses_a_pause_of_a_one_shot(store: Store) -> None:
    """Otherwise the caller would take the definition that it read for the one that it paused."""
    run_id = await store.one_shot(HOUR, payload=b"1")
    stale = await store.snapshot(job_of(run_id))
    assert await store.edit(job_of(run_id), payload=b"2")

    assert not await store.jobs.apply(pause(stale, store.now), store.now)
    paused = await store.snapshot(job_of(run_id))
    assert await store.pause(job_of(run_id))
    assert await store.edit(job_of(run_id), payload=b"3")
    assert not await store.jobs.apply(resume(paused, CatchUp.SKIP, store.now), store.now)
    assert (await store.snapshot(job_of(run_id))).job.status is JobStatus.PAUSED


async def test_planning_meanwhile_refuses_a_pause(store: Store) -> None:
    """Otherwise the tick planned in between would start in spite of the pause."""
    job_id = await store.recurring(every=MINUTE)
    snap = await store.snapshot(job_id)
    await store.plan(ahead=MINUTE)

    assert not await store.jobs.apply(pause(snap, store.now), store.now)
    assert await store.pause(job_id)
    store.advance(MINUTE)
    assert await store.claimable() == []


async def test_planners_and_a_pause_at_once_leave_nothing_to_start(store: Store) -> None:
    other = await store.second()
    jobs = [await store.recurring(every=SECOND) for _ in range(12)]

    async def pause_all() -> None:
        for job_id in jobs:
            while not await store.pause(job_id):
                pass

    async def plan_on() -> None:
        for i in range(1, 40):
            await other.plan(ahead=i * SECOND, limit=3)

    await asyncio.gather(pause_all(), plan_on())
    store.advance(HOUR)

    assert await store.claimable() == []
    assert await store.plan() == Planned()


async def test_a_run_asked_for_by_hand_runs_though_the_job_is_paused(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.pause(job_id)

    assert await store.change(job_id, lambda snap: run_now(snap, RunId(store.new_id()), store.now))

    [run] = await store.claim_due(await store.worker())
    assert (run.trigger, run.wanted) == (Trigger.RUN_NOW, store.now)


async def test_a_run_by_hand_of_a_paused_job_runs_though_the_job_is_edited(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.pause(job_id)
    by_hand = RunId(store.new_id())
    await store.change(job_id, lambda snap: run_now(snap, by_hand, store.now))

    assert await store.edit(job_id, payload=b"2")

    assert (await store.snapshot(job_id)).job.status is JobStatus.PAUSED
    assert await store.claimable() == [by_hand]


@pytest.mark.parametrize("cut", [False, True])
async def test_thousands_of_runs_follow_a_pause_and_its_end(store: Store, cut: bool) -> None:
    """In bites. An interrupted caller leaves a note: no run of the job is claimed until a call has finished it."""
    job_id = await store.recurring(every=SECOND, overlap=Overlap.ALLOW)
    await store.plan_all(ahead=1_500 * SECOND)
    store.advance(1_500 * SECOND)
    await acted(store, job_id, lambda snap: pause(snap, store.now), cut=cut)
    by_hand = RunId(store.new_id())
    store.advance(SECOND)

    assert await store.change(job_id, lambda snap: run_now(snap, by_hand, store.now))
    if cut:
        assert len(await store.claimable()) > 1
        assert await store.claim_due(await store.worker()) == []
        await store.jobs.finish(job_id, store.now)
    assert await store.claimable() == [by_hand]

    await acted(store, job_id, lambda snap: resume(snap, CatchUp.ALL, store.now), cut=cut)
    await store.jobs.finish(job_id, store.now)
    assert len(await store.claimable()) == 1_502
    assert await store.jobs.unfinished(10) == []
    await store.check_counts()


async def test_an_act_upon_a_job_that_is_not_finished_does_not_wait_for_that(store: Store) -> None:
    """A pause, cut off, then a resume, cut off: in the end all runs follow the last one."""
    job_id = await store.recurring(every=SECOND, overlap=Overlap.ALLOW)
    await store.plan_all(ahead=2_500 * SECOND)
    store.advance(2_500 * SECOND)
    other = await store.second()
    await acted(store, job_id, lambda snap: pause(snap, store.now), cut=True)
    await acted(store, job_id, lambda snap: resume(snap, CatchUp.ALL, store.now), cut=True)
    await acted(store, job_id, lambda snap: pause(snap, store.now), cut=True)

    while await store.jobs.unfinished(10):
        await asyncio.gather(*(one.jobs.finish(job_id, store.now) for one in (store, other)))

    assert await store.claimable() == []
    assert {run.held for run in (await store.snapshot(job_id)).waiting} == {Held.PAUSED}


async def acted(store: Store, job_id: JobId, decide: Callable[[Snapshot], JobChange], *, cut: bool) -> None:
    if not cut:
        assert await store.change(job_id, decide)
        return
    with cut_off(store.engine), pytest.raises(CutOff):
        await store.change(job_id, decide)
    assert await store.jobs.unfinished(10) == [job_id]
