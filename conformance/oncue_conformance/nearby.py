"""A job's last run and its next, for many jobs at once.

Active runs and those that have just ended: what watchers of changes read.
"""

from __future__ import annotations

from functools import partial

from oncue.domain import change
from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import JobStatus
from oncue.domain.policy import Overlap
from oncue.domain.run import State, Status
from oncue.engines.port import JobName, LastAndNext, RunQuery
from oncue_conformance.run_lists import one_of_each
from oncue_conformance.store import Store, ids, job_of, only


async def near(store: Store, job_id: JobId) -> LastAndNext:
    return (await store.lists.last_and_next([job_id]))[job_id]


async def test_each_of_many_jobs_has_its_own_last_and_next(store: Store) -> None:
    jobs = [await store.recurring(every=MINUTE, payload=b"1") for _ in range(3)]
    one_shots = [job_of(run_id) for run_id in await store.one_shots(3, due=HOUR, payload=b"1")]
    await store.plan(ahead=2 * MINUTE)
    ahead = [(None, store.at(MINUTE))] * 3 + [(None, store.at(HOUR))] * 3
    found = await store.lists.last_and_next([*jobs, *one_shots])
    assert [(found[job].last, found[job].next_at) for job in (*jobs, *one_shots)] == ahead

    store.advance(MINUTE)
    worker = await store.worker()
    runs = {run.job_id: run for run in await store.claim_due(worker)}
    await store.succeed(worker, runs[jobs[0]])
    await store.fail(worker, runs[jobs[1]])

    found = await store.lists.last_and_next([*jobs, *one_shots])

    last = [found[job].last for job in jobs]
    assert [run and (run.run_id, run.state, run.payload) for run in last] == [
        (runs[jobs[0]].run_id, State.SUCCEEDED, None),
        (runs[jobs[1]].run_id, State.WAITING, None),
        (runs[jobs[2]].run_id, State.RUNNING, None),
    ]
    assert {found[job].next_at for job in jobs} == {store.at(MINUTE)}
    assert {found[job] for job in one_shots} == {LastAndNext(None, store.at(HOUR - MINUTE))}
    assert await store.lists.last_and_next([]) == {}


async def test_the_first_of_many_waiting_runs_is_the_next(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    await store.plan(ahead=30 * MINUTE)
    assert await near(store, job_id) == LastAndNext(None, store.at(MINUTE))


async def test_what_is_going_comes_before_what_ended_later(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    await store.plan(ahead=3 * MINUTE)
    store.advance(3 * MINUTE)
    worker = await store.worker()
    first, second, third = await store.claim_due(worker)

    async def last() -> object:
        found = (await near(store, job_id)).last
        return found and found.run_id

    assert await last() == third.run_id
    await store.succeed(worker, third)
    assert await last() == second.run_id
    store.advance(SECOND)
    await store.succeed(worker, second)
    assert await last() == first.run_id
    store.advance(SECOND)
    await store.succeed(worker, first)
    assert await last() == first.run_id  # it ended last


async def test_the_run_of_a_one_shot_is_its_last_and_while_it_waits_its_next(store: Store) -> None:
    run_id, began = await store.one_shot(), store.now
    assert await near(store, job_of(run_id)) == LastAndNext(None, began)
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    running = await near(store, job_of(run_id))
    assert (running.last and running.last.state, running.next_at) == (State.RUNNING, None)
    await store.fail(worker, run)
    retrying = await near(store, job_of(run_id))
    assert (retrying.last and retrying.last.state, retrying.next_at) == (State.WAITING, began)
    store.advance(MINUTE)
    await store.beat(worker)
    await store.succeed(worker, only(await store.claim_due(worker)))
    ended = await near(store, job_of(run_id))
    assert (ended.last and ended.last.state, ended.next_at) == (State.SUCCEEDED, None)


async def test_the_last_run_is_found_however_long_ago_and_by_whatever_clock_it_ended(store: Store) -> None:
    job_id, once = await store.recurring(every=MINUTE), await store.one_shot()
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    runs = await store.claim_due(worker)
    store.advance(Duration(-HOUR))  # the clock of who ends them is behind that of who created their jobs
    await store.succeed(worker, *runs)
    for _ in range(20):
        store.advance(DAY)
        await store.end(await store.one_shot(), State.CANCELLED)

    found = [(await near(store, one)).last for one in (job_id, job_of(once))]

    assert {run and run.run_id for run in found} == {run.run_id for run in runs}


async def test_of_runs_that_ended_on_several_days_the_last_is_told(store: Store) -> None:
    job_id = await store.recurring(every=HOUR)
    for by_hand in [RunId(store.new_id()) for _ in range(3)]:
        await store.change(job_id, partial(change.run_now, run_id=by_hand, now=store.now))
        await store.end(by_hand, State.SUCCEEDED)
        found = (await near(store, job_id)).last
        assert (found and found.run_id) == by_hand
        store.advance(DAY)


async def test_what_was_asked_for_by_hand_or_was_tried_is_not_the_next(store: Store) -> None:
    job_id = await store.recurring(every=HOUR)
    by_hand = RunId(store.new_id())
    assert await store.change(job_id, lambda snap: change.run_now(snap, by_hand, store.now))
    assert await near(store, job_id) == LastAndNext(None, None)
    store.advance(HOUR)
    await store.end(by_hand, State.SUCCEEDED)
    await store.plan_all(ahead=0)
    due = store.now
    assert (await near(store, job_id)).next_at == due
    worker = await store.worker()
    await store.fail(worker, only(await store.claim_due(worker)))
    assert (await near(store, job_id)).next_at is None
    await store.plan_all(ahead=HOUR)
    assert (await near(store, job_id)).next_at == Instant(due + HOUR)


async def test_runs_are_told_with_what_their_jobs_are_called(store: Store) -> None:
    """In every state; also those of a recurring job, the further runs of a one-shot, and dead letters."""
    job_id = await store.recurring(every=MINUTE, name="often", key="k")
    await store.plan(ahead=3 * MINUTE)
    plain = [*(await one_of_each(store)).values()]
    named = RunId(await store.one_shot(HOUR, name="once", key="o"))
    ended = await store.one_shot(name="ended", key="e")
    dead = await store.one_shot(name="dead", key="d")
    worker = await store.worker()
    await store.succeed(worker, await store.claim_one(worker, ended))
    await store.fail(worker, await store.claim_one(worker, dead), retry=False)
    further = change.run_now(await store.snapshot(job_of(named)), RunId(store.new_id()), store.now)
    assert await store.jobs.apply(further, store.now)
    listed = (await store.lists.runs(RunQuery(store.uid, limit=100))).items

    names = await store.lists.job_names(listed)

    often = [run.run_id for run in listed if run.job_id == job_id]
    assert len(often) == 3
    assert {run_id: names[run_id] for run_id in often} == dict.fromkeys(often, JobName("often", "k"))
    assert {names[run.run_id] for run in listed if run.job_id == named} == {JobName("once", "o")}
    assert (names[ended], names[dead]) == (JobName("ended", "e"), JobName("dead", "d"))
    assert {names[run_id] for run_id in plain} == {JobName()}
    assert await store.lists.job_names([]) == {}


async def test_the_name_of_a_worker_outlives_it_as_long_as_history_is_kept(store: Store) -> None:
    keep = Duration(24 * HOUR)
    gone, stays = await store.worker(name="gone"), await store.worker(name="stays")
    await store.fleet.leave(gone)
    for _ in range(2):
        assert await store.fleet.worker_names([gone, stays, WorkerId(store.new_id())]) == {gone: "gone", stays: "stays"}
        store.advance(20 * HOUR)
        await store.maintenance.maintain(store.now, keep)
    assert await store.fleet.worker_names([gone, stays]) == {stays: "stays"}
    await store.fleet.leave(stays)
    await store.maintenance.maintain(store.now, keep)
    assert await store.fleet.worker_names([stays]) == {stays: "stays"}
    assert await store.fleet.worker_names([]) == {}


async def test_the_last_ended_runs_of_many_jobs_come_newest_end_first(store: Store) -> None:
    """With when the first attempt started, also if there were more; of a one-shot its only run."""
    job_id, idle = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW), await store.recurring(every=HOUR)
    await store.plan(ahead=4 * MINUTE)
    worker, ends, began = await store.worker(), [], {}
    for place, run in enumerate((await store.snapshot(job_id)).waiting):
        store.advance(run.wanted + place * SECOND - store.now)
        claimed, began[run.run_id] = await store.claim_one(worker, run.run_id), store.now
        if place == 2:
            await store.fail(worker, claimed)
            store.advance(5 * SECOND)
            claimed = await store.claim_one(worker, run.run_id)
        await store.succeed(worker, claimed)
        ends.append(run.run_id)
    once = job_of(await store.one_shot())
    await store.end(RunId(once), State.CANCELLED)

    found = await store.lists.last_ended([job_id, idle, once], 3)

    assert set(found) == {job_id, once}
    assert [run.run_id for run in found[job_id]] == ends[:0:-1]
    assert {run.run_id: run.first_start for run in found[job_id]} == {one: began[one] for one in ends[1:]}
    for end in (*found[job_id], *found[once]):
        view = await store.run(end.run_id)
        assert (end.state, end.wanted, end.nominal) == (view.state, view.wanted, view.nominal)
        assert (end.started_at, end.ended_at) == (view.started_at, view.ended_at)
    assert (found[once][0].state, found[once][0].first_start) == (State.CANCELLED, None)
    assert await store.lists.last_ended([], 3) == {}


async def test_the_last_ended_runs_are_found_in_as_many_partitions_as_it_takes(store: Store) -> None:
    job_id, ends = await store.recurring(every=HOUR), list[RunId]()
    for pause in (SECOND, DAY, SECOND, DAY, 0):
        ends.append(RunId(store.new_id()))
        await store.change(job_id, partial(change.run_now, run_id=ends[-1], now=store.now))
        await store.end(ends[-1], State.SUCCEEDED)
        store.advance(pause)

    for limit in (1, 2, 3, 4, 9):
        found = await store.lists.last_ended([job_id], limit)
        assert [run.run_id for run in found[job_id]] == ends[::-1][:limit]


async def test_jobs_and_runs_are_counted_by_status_up_to_a_limit(store: Store) -> None:
    await one_of_each(store)
    await store.recurring(every=HOUR)
    await store.pause(await store.recurring(every=HOUR))
    retried, stopping, _ = await store.one_shots(3)
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, retried))
    await store.claim_one(worker, stopping)
    await store.running.cancel(None, stopping, store.now)
    held = await store.one_shot(HOUR)
    await store.pause(job_of(held))
    await store.one_shots(2, uid=store.stranger)

    found = await store.lists.counts(store.uid, 100, store.now)

    assert found.jobs == {"active": 5, "paused": 2, "finished": 3, "cancelled": 2}
    assert found.runs == {
        "scheduled": 2, "queued": 1, "retrying": 1, "running": 1, "cancelling": 1,
        "succeeded": 1, "dead": 1, "cancelled": 1, "expired": 1,
    }  # fmt: skip
    assert (found.dead_letters, found.live_all, found.ended_all) == (1, True, True)
    everybody = await store.lists.counts(None, 100, store.now)
    assert (everybody.jobs[JobStatus.ACTIVE], everybody.runs[Status.QUEUED], everybody.dead_letters) == (7, 3, 1)
    few = await store.lists.counts(store.uid, 2, store.now)
    assert max(*few.jobs.values(), *few.runs.values()) <= 2
    assert (few.live_all, few.ended_all) == (False, False)


# -------------------------------------------------------------------------- active runs, and those that have just ended


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
