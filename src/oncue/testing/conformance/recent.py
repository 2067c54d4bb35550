"""Active runs and those that have just ended: what watchers of changes read."""

from __future__ import annotations

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import DAY, MINUTE, SECOND
from oncue.domain.policy import Overlap
from oncue.domain.run import State
from oncue.testing.conformance.store import Store, ids


async def test_what_runs_and_what_has_just_ended_is_recent(store: Store) -> None:
    """Neither waiting runs nor those that ended before; but one that ended at that very instant."""
    worker = await store.worker()
    waiting = await store.one_shot(MINUTE)
    old, first, last, running = await store.one_shots(4)
    await store.end(old, State.SUCCEEDED)
    since = store.advance(SECOND)
    await store.end(first, State.DEAD)
    store.advance(SECOND)
    await store.end(last, State.CANCELLED)
    await store.claim_one(worker, running)

    found = await store.lists.recent(store.uid, since, 10)

    assert ids(found) == [running, last, first]
    assert [run.state for run in found] == [State.RUNNING, State.CANCELLED, State.DEAD]
    assert await store.state(waiting) is State.WAITING


async def test_recent_runs_are_ones_own_or_everybodys(store: Store) -> None:
    worker, since = await store.worker(), store.now
    mine, others = await store.one_shot(), await store.one_shot(uid=store.stranger)
    for run_id in (mine, others):
        await store.claim_one(worker, run_id)
    mine_ended, others_ended = await store.one_shot(), await store.one_shot(uid=store.stranger)
    for run_id in (mine_ended, others_ended):
        await store.end(run_id, State.SUCCEEDED)

    assert set(ids(await store.lists.recent(store.uid, since, 10))) == {mine, mine_ended}
    assert set(ids(await store.lists.recent(None, since, 10))) == {mine, others, mine_ended, others_ended}


async def test_of_many_recent_runs_the_newest_ends_are_told(store: Store) -> None:
    """Also over several days, which some engines store in separate partitions."""
    worker, since = await store.worker(), store.now
    for run_id in await store.one_shots(3):
        await store.claim_one(worker, run_id)
    ended = await store.one_shots(3)
    for run_id in ended:
        await store.end(run_id, State.SUCCEEDED)
        store.advance(DAY)

    found = await store.lists.recent(store.uid, since, 2)

    assert [run.state for run in found] == [State.RUNNING] * 2 + [State.SUCCEEDED] * 2
    assert ids(found)[2:] == [ended[2], ended[1]]


async def test_what_waits_again_since_then_is_recent(store: Store) -> None:
    """An attempt may begin and fail, or be lost, between two reads. Not if it failed before, was returned, or runs."""
    worker, lost = await store.worker(), await store.worker()
    old, failed, again, silent, back = await store.one_shots(5)
    await store.fail(worker, await store.claim_one(worker, old))
    handed_back = await store.claim_one(worker, back)
    await store.claim_one(lost, silent)
    since = store.advance(SECOND)
    for run_id in (failed, again):
        await store.fail(worker, await store.claim_one(worker, run_id))
    await store.hand_back(worker, handed_back)
    await store.fleet.leave(lost)
    await store.recover_runs()
    theirs = await store.one_shot(uid=store.stranger)
    await store.fail(worker, await store.claim_one(worker, theirs))
    store.advance(MINUTE)
    running = await store.claim_one(worker, again)

    mine = await store.lists.recent(store.uid, since, 10)

    assert ids(mine)[0] == running.run_id
    assert {run.run_id: run.state for run in mine[1:]} == {failed: State.WAITING, silent: State.WAITING}
    everybodys = await store.lists.recent(None, since, 10)
    assert {run.run_id for run in everybodys} - {run.run_id for run in mine} == {theirs}
    assert len(await store.lists.recent(store.uid, since, 1)) == 2


async def test_of_one_job_the_same_is_told_whatever_others_do(store: Store) -> None:
    """A stream that follows one job reads nothing else: neither other jobs of its user, nor what the job still waits
    for."""
    worker = await store.worker()
    job, other = await store.recurring(overlap=Overlap.ALLOW), await store.recurring(overlap=Overlap.ALLOW)
    single, failed = await store.one_shots(2)
    await store.plan_all(6 * MINUTE)
    store.advance(5 * MINUTE)
    mine = [run for run in await store.claim_due(worker) if run.job_id == job]
    assert len(mine) > 3
    await store.succeed(worker, mine[0])
    since = store.advance(SECOND)
    await store.succeed(worker, mine[1])
    await store.fail(worker, mine[2])
    singles = {run.run_id: run for run in await store.running.held_by(worker, [single, failed])}
    await store.succeed(worker, singles[single])
    await store.fail(worker, singles[failed])

    async def recent(job_id: JobId, limit: int = 100) -> dict[RunId, State]:
        return {run.run_id: run.state for run in await store.lists.recent_of_job(store.uid, job_id, since, limit)}

    expected = {run.run_id: State.RUNNING for run in mine[3:]}
    assert await recent(job) == expected | {mine[1].run_id: State.SUCCEEDED, mine[2].run_id: State.WAITING}
    assert await recent(JobId(single)) == {single: State.SUCCEEDED}
    assert await recent(JobId(failed)) == {failed: State.WAITING}
    assert set((await recent(other)).values()) == {State.RUNNING}
    assert await recent(JobId(store.new_id())) == {}
    assert len(await recent(job, 1)) == 3
