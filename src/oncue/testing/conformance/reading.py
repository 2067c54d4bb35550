"""Reading a job, and whose it is: another user's looks exactly like one that does not exist."""

from __future__ import annotations

import pytest

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MINUTE, SECOND
from oncue.domain.job import JobStatus
from oncue.domain.policy import Overlap
from oncue.domain.run import State
from oncue.engines.port import RunQuery
from oncue.testing.conformance.store import Store, ids, job_of, meanwhile


async def test_what_does_not_exist_is_none(store: Store) -> None:
    nothing = store.new_id()

    assert await store.jobs.read(None, JobId(nothing)) is None
    assert await store.jobs.cancel(None, JobId(nothing), store.now) is None
    assert await store.running.cancel(None, RunId(nothing), store.now) is None
    assert await store.history.run(None, RunId(nothing)) is None
    assert (await store.lists.ledger(None, JobId(nothing))).items == ()
    assert await store.log(RunId(nothing)) == b""


@pytest.mark.parametrize("state", ["waiting", "running", "succeeded", "dead"])
async def test_another_users_run_looks_like_none(store: Store, state: str) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    if state != "waiting":
        [run] = await store.claim_due(worker)
    if state == "succeeded":
        await store.succeed(worker, run)
    elif state == "dead":
        await store.fail(worker, run, retry=False)
    before = await store.run(run_id)

    assert await store.jobs.read(store.stranger, job_of(run_id)) is None
    assert await store.history.run(store.stranger, run_id) is None
    assert await store.jobs.cancel(store.stranger, job_of(run_id), store.now) is None
    assert await store.running.cancel(store.stranger, run_id, store.now) is None
    assert await store.history.discard(store.stranger, [run_id]) == frozenset()
    assert (await store.lists.dead_letters(store.stranger)).items == ()
    assert (await store.lists.runs(RunQuery(uid=store.stranger))).items == ()
    assert (await store.lists.runs(RunQuery(uid=store.stranger, job_id=job_of(run_id)))).items == ()

    assert await store.run(run_id) == before  # and nothing was done to it
    assert await store.fleet.cancel_requests(worker) == ()
    assert await store.history.run(store.uid, run_id) == before
    assert await store.jobs.read(store.uid, job_of(run_id)) is not None


async def test_another_users_recurring_job_looks_like_none(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    store.advance(3 * MINUTE)
    await store.plan()
    before = await store.snapshot(job_id)
    assert await store.ledger(job_id) != []

    assert await store.jobs.read(store.stranger, job_id) is None
    assert await store.jobs.cancel(store.stranger, job_id, store.now) is None
    assert (await store.lists.ledger(store.stranger, job_id)).items == ()

    assert await store.snapshot(job_id) == before
    assert await store.jobs.read(store.uid, job_id) == before


async def test_a_snapshot_tells_waiting_from_going(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    worker = await store.worker()
    store.advance(MINUTE)
    await store.plan()
    [failing] = await store.claim_due(worker)
    await store.fail(worker, failing)
    store.advance(MINUTE)
    await store.plan(ahead=MINUTE)
    second, third = sorted(run.run_id for run in (await store.snapshot(job_id)).waiting if run.scheduled)
    await store.claim_one(worker, second)

    snap = await store.snapshot(job_id)

    assert set(snap.going) == {failing.run_id, second}
    assert {run.run_id: run.scheduled for run in snap.waiting} == {failing.run_id: False, third: True}
    assert not snap.started  # said of one-shots only


async def test_what_was_handed_back_counts_as_untried(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.hand_back(worker, await store.claim_one(worker, run_id))

    snap = await store.snapshot(job_of(run_id))

    assert ([run.scheduled for run in snap.waiting], snap.going, snap.started) == ([True], (), False)


async def test_a_one_shot_has_started_once_it_runs_or_was_tried(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()

    run = await store.claim_one(worker, run_id)
    running = await store.snapshot(job_of(run_id))
    await store.fail(worker, run)
    retrying = await store.snapshot(job_of(run_id))

    assert (running.started, running.going, running.job.status) == (True, (run_id,), JobStatus.ACTIVE)
    assert (retrying.started, retrying.going, retrying.job.status) == (True, (run_id,), JobStatus.ACTIVE)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (State.SUCCEEDED, JobStatus.FINISHED),
        (State.DEAD, JobStatus.FINISHED),
        (State.EXPIRED, JobStatus.FINISHED),
        (State.CANCELLED, JobStatus.CANCELLED),
    ],
)
async def test_a_one_shot_is_over_when_its_run_is(store: Store, end: State, status: JobStatus) -> None:
    run_id = await store.one_shot(payload=b"[1]", name="mine", start_within=SECOND)
    before = (await store.snapshot(job_of(run_id))).job
    await store.end(run_id, end)

    snap = await store.snapshot(job_of(run_id))

    assert await store.state(run_id) is end
    assert (snap.job.status, snap.started, snap.waiting, snap.going) == (status, True, (), ())
    assert (snap.job.spec, snap.job.payload, snap.job.uid, snap.job.version) == (
        before.spec,
        before.payload,
        before.uid,
        before.version,
    )


async def test_a_snapshot_is_from_one_moment(store: Store) -> None:
    """Read while planners write: the cursor never counts runs that are not there, nor misses any that are."""
    other = await store.second()
    job_id = await store.recurring(every=SECOND)
    async with meanwhile(plan_step_by_step(other, 40)) as [planning]:
        while not planning.done():
            snap = await store.snapshot(job_id)
            assert snap.cursor is not None
            assert snap.cursor.planned == len(snap.waiting)
        await planning

    assert len((await store.snapshot(job_id)).waiting) == 40
    assert len(ids(await store.runs(job_id=job_id))) == 40


async def plan_step_by_step(store: Store, n: int) -> None:
    for i in range(1, n + 1):
        await store.plan(ahead=i * SECOND)
