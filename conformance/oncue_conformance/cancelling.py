"""A caller that changes a job with many runs is interrupted half-way.

Cancelling: final for waiting runs, requested of running ones, and after the answer nothing starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from oncue.domain.change import run_now
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Instant
from oncue.domain.job import JobStatus
from oncue.domain.ledger import Outcome
from oncue.domain.policy import Overlap
from oncue.domain.run import State
from oncue.engines.port import Cancelled, CancelRequest, Count, Engine, Planned
from oncue_conformance.store import Store, ids, job_of, only


class CutOff(StoreUnavailable):
    """The database is unavailable, or the process that changed the job is gone."""


@contextmanager
def cut_off(engine: Engine) -> Iterator[None]:
    """In this block a call that changes a job gets no further than its first bite."""

    async def gone(job_id: JobId, now: Instant) -> Cancelled:
        raise CutOff

    finish = engine.jobs.finish
    engine.jobs.finish = gone  # type: ignore[method-assign]  # of this one engine
    try:
        yield
    finally:
        engine.jobs.finish = finish  # type: ignore[method-assign]  # restored


@pytest.mark.parametrize("due", [0, HOUR])
async def test_a_waiting_run_is_stopped_for_certain(store: Store, due: int) -> None:
    run_id = await store.one_shot(due, payload=b"[1]")

    answer = await store.running.cancel(store.uid, run_id, store.now)
    view = await store.run(run_id)

    assert answer == Cancelled(stopped=(run_id,))
    assert (view.state, view.ended_at, view.started_at, view.error) == (State.CANCELLED, store.now, None, None)
    assert (view.payload, view.worker_id) == (b"[1]", None)
    store.advance(2 * HOUR)
    assert await store.claim(await store.worker(), run_id) == []
    assert (await store.counts())[Count.CANCELLED] == 1


async def test_a_running_run_is_asked_to_stop(store: Store) -> None:
    run_id, other = await store.one_shots(2)
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.claim_one(worker, other)

    answer = await store.running.cancel(store.uid, run_id, store.now)

    assert answer == Cancelled(told=((run_id, worker),))
    view = await store.run(run_id)
    assert (view.state, view.cancel_at) == (State.RUNNING, store.now)
    assert await store.fleet.cancel_requests(worker) == (CancelRequest(run_id),)
    assert await store.fleet.cancel_requests(worker) == (CancelRequest(run_id),)  # until it ends: an answer may be lost
    await store.succeed(worker, run)
    assert await store.fleet.cancel_requests(worker) == ()


async def test_a_repeat_says_the_same(store: Store) -> None:
    waiting, going = await store.one_shots(2)
    worker = await store.worker()
    await store.claim_one(worker, going)
    await store.running.cancel(None, waiting, store.now)
    asked = store.now
    first = await store.running.cancel(None, going, store.now)
    store.advance(SECOND)

    assert await store.running.cancel(None, going, store.now) == first
    assert await store.running.cancel(None, waiting, store.now) == Cancelled(final=State.CANCELLED)

    assert (await store.run(going)).cancel_at == asked
    assert (await store.run(waiting)).ended_at == asked
    assert (await store.counts())[Count.CANCELLED] == 1


@pytest.mark.parametrize("end", [State.SUCCEEDED, State.DEAD, State.EXPIRED])
async def test_what_has_ended_says_how(store: Store, end: State) -> None:
    run_id = await store.one_shot(start_within=MINUTE)
    await store.end(run_id, end)

    assert await store.running.cancel(None, run_id, store.now) == Cancelled(final=end)
    assert await store.state(run_id) is end


async def test_a_retry_is_stopped_between_two_attempts(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, run_id))

    assert await store.running.cancel(None, run_id, store.now) == Cancelled(stopped=(run_id,))

    view = await store.run(run_id)
    assert (view.state, view.failures) == (State.CANCELLED, 1)
    assert view.attempts is not None


async def test_a_held_or_paused_run_is_stopped(store: Store) -> None:
    _, held = await store.one_shots(2, apart=1, group="g")
    paused = await store.one_shot()
    await store.pause(job_of(paused))

    for run_id in (held, paused):
        assert await store.running.cancel(None, run_id, store.now) == Cancelled(stopped=(run_id,))
        assert await store.state(run_id) is State.CANCELLED


async def test_a_lost_run_that_was_to_be_cancelled_is(store: Store) -> None:
    """The worker died before it could stop the run: no worker starts it again."""
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.claim_one(worker, run_id)
    await store.running.cancel(None, run_id, store.now)
    await store.fleet.leave(worker)

    settled = await store.recover_runs()

    assert settled.cancelled == {run_id}
    assert await store.state(run_id) is State.CANCELLED


async def test_cancelling_a_job_accounts_for_what_was_due_and_not_planned(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.plan_all()
    store.advance(3 * MINUTE + SECOND)  # nobody plans

    await store.jobs.cancel(store.uid, job_id, store.now)
    await store.jobs.cancel(store.uid, job_id, store.now)

    entry = only(await store.ledger(job_id))
    assert (entry.count, entry.outcome, entry.reason) == (3, Outcome.SKIPPED, "cancelled")
    assert entry.last <= store.now
    await store.check_counts()


async def test_cancelling_a_job_ends_all_of_it(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    worker = await store.worker()
    await store.plan(ahead=3 * MINUTE)
    store.advance(MINUTE)
    going = only(await store.claim_due(worker))
    waiting = {run.run_id for run in (await store.snapshot(job_id)).waiting}

    answer = await store.jobs.cancel(store.uid, job_id, store.now)

    assert answer is not None
    assert (set(answer.stopped), answer.told) == (waiting, ((going.run_id, worker),))
    assert {await store.state(run_id) for run_id in waiting} == {State.CANCELLED}
    assert await store.fleet.cancel_requests(worker) == (CancelRequest(going.run_id),)
    assert answer.job == (await store.snapshot(job_id)).job
    assert answer.job.status is JobStatus.CANCELLED
    assert await store.plan(ahead=HOUR) == Planned()
    again = await store.jobs.cancel(store.uid, job_id, store.now)
    assert again is not None
    assert again.stopped == ()
    await store.fail(worker, going)
    assert await store.state(going.run_id) is State.CANCELLED
    store.advance(HOUR)
    assert await store.claimable() == []
    await store.check_counts()


async def test_cancelling_a_one_shot_is_cancelling_its_run(store: Store) -> None:
    waiting, going = await store.one_shots(2)
    worker = await store.worker()
    run = await store.claim_one(worker, going)

    answers = [await store.jobs.cancel(None, job_of(run_id), store.now) for run_id in (waiting, going)]
    left = [(await store.snapshot(job_of(run_id))).job for run_id in (waiting, going)]
    assert answers == [Cancelled(stopped=(waiting,), job=left[0]), Cancelled(told=((going, worker),), job=left[1])]
    await store.succeed(worker, run)

    for run_id in (waiting, going):
        assert (await store.snapshot(job_of(run_id))).job.status is JobStatus.CANCELLED


async def test_a_schedule_that_is_over_can_still_be_cancelled(store: Store) -> None:
    """Its last tick is planned, so the job counts as finished; that tick must not start after a cancel."""
    job_id = await store.recurring(store.every(MINUTE, max_runs=1))
    await store.plan(ahead=MINUTE)
    assert (await store.snapshot(job_id)).job.status is JobStatus.FINISHED

    answer = await store.jobs.cancel(None, job_id, store.now)
    store.advance(MINUTE)

    assert answer is not None
    assert answer.job == (await store.snapshot(job_id)).job
    assert answer.job.status is JobStatus.FINISHED
    assert len(answer.stopped) == 1
    assert await store.claimable() == []


async def test_a_paused_job_can_be_cancelled(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=MINUTE)
    await store.pause(job_id)

    answer = await store.jobs.cancel(None, job_id, store.now)

    assert answer is not None
    assert len(answer.stopped) == 1
    assert (await store.snapshot(job_id)).job.status is JobStatus.CANCELLED


async def test_cancel_racing_claim_is_one_or_the_other(store: Store) -> None:
    """P6: two claimers and two cancellers over 300 runs. Nothing both cancelled and claimed, nothing lost."""
    stores = [store, await store.second()]
    runs = await store.one_shots(300)
    workers = [await store.worker() for _ in range(2)]
    claimed: set[RunId] = set()
    answers: dict[RunId, Cancelled | None] = {}

    async def claimer(n: int) -> None:
        wanted = store.chance.sample(runs, len(runs))
        for i in range(0, len(wanted), 7):
            claimed.update(ids(await stores[n].claim(workers[n], *wanted[i : i + 7])))

    async def canceller(n: int) -> None:
        for run_id in store.chance.sample(runs[n::2], len(runs) // 2):
            answers[run_id] = await stores[n].running.cancel(None, run_id, store.now)

    await asyncio.gather(claimer(0), canceller(0), claimer(1), canceller(1))

    for run_id in runs:
        check_answer(run_id, answers[run_id], claimed, workers)
    assert await store.claimable() == []
    await store.check_counts()


def check_answer(run_id: RunId, answer: Cancelled | None, claimed: set[RunId], workers: list[WorkerId]) -> None:
    assert answer is not None, "cancel found nothing of a run that exists"
    if answer.stopped:
        assert answer == Cancelled(stopped=(run_id,))
        assert run_id not in claimed
    else:
        [(told, worker)] = answer.told
        assert (told, worker in workers, run_id in claimed) == (run_id, True, True)


async def test_cancelling_a_job_racing_its_planner_and_its_user(store: Store) -> None:
    """Every run that was planned or added before the answer is stopped; none is added after it."""
    other = await store.second()
    jobs = [await store.recurring(every=SECOND) for _ in range(15)]

    async def plan_on() -> None:
        for i in range(1, 30):
            await other.plan(ahead=i * SECOND, limit=4)

    async def add() -> None:
        for job_id in jobs * 2:
            snap = await other.snapshot(job_id)
            if snap.job.status is not JobStatus.CANCELLED:
                await other.jobs.apply(run_now(snap, RunId(store.new_id()), store.now), store.now)

    async def cancel() -> None:
        for job_id in jobs:
            await store.jobs.cancel(None, job_id, store.now)
            assert (await store.snapshot(job_id)).waiting == ()

    await asyncio.gather(plan_on(), cancel(), add())
    store.advance(HOUR)

    assert await store.claimable() == []
    assert {run.state for run in await store.runs()} <= {State.CANCELLED}
    await store.check_counts()


async def test_a_job_with_thousands_of_runs_is_cancelled_whole(store: Store) -> None:
    """In bites, so that other callers do not wait; and a run that is claimed between two of them is told."""
    job_id = await store.recurring(every=SECOND, overlap=Overlap.ALLOW)
    await store.plan_all(ahead=1_500 * SECOND)
    store.advance(10 * SECOND)
    worker = await store.worker()
    going = ids(await store.claim_due(worker))

    answer = await store.jobs.cancel(None, job_id, store.now)

    assert answer is not None
    assert (len(answer.stopped), {run_id for run_id, _ in answer.told}) == (1_490, set(going))
    assert await store.jobs.unfinished(10) == []
    store.advance(HOUR)
    assert await store.claimable() == []
    await store.check_counts()


async def test_whoever_is_cut_off_leaves_a_note_for_others_to_finish(store: Store) -> None:
    job_id = await store.recurring(every=SECOND, overlap=Overlap.ALLOW)
    await store.plan_all(ahead=1_500 * SECOND)
    other = await store.second()
    with cut_off(store.engine), pytest.raises(CutOff):
        await store.jobs.cancel(None, job_id, store.now)

    assert await store.jobs.unfinished(10) == [job_id]
    answer = await other.jobs.finish(job_id, store.now)

    assert answer.stopped != ()
    assert await store.jobs.unfinished(10) == []
    assert await store.jobs.finish(job_id, store.now) == Cancelled()
    store.advance(HOUR)
    assert await store.claimable() == []
    await store.check_counts()


async def test_a_run_by_hand_of_a_one_shot_is_cancelled_with_it(store: Store) -> None:
    """In each state: the run waits, runs, or waits for another attempt."""
    run_id = await store.one_shot(HOUR)
    by_hand = [RunId(store.new_id()) for _ in range(3)]
    for extra in by_hand:
        assert await store.jobs.apply(run_now(await store.snapshot(job_of(run_id)), extra, store.now), store.now)
    worker = await store.worker()
    going, failing = await store.claim(worker, *by_hand[:2])
    await store.fail(worker, failing)

    answer = await store.jobs.cancel(None, job_of(run_id), store.now)

    assert answer is not None
    assert set(answer.stopped) == {run_id, failing.run_id, by_hand[2]}
    assert answer.told == ((going.run_id, worker),)
