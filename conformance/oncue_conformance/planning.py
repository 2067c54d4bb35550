"""Planning: every occurrence becomes one run or one ledger entry, with any scheduler, at any time, however often."""

from __future__ import annotations

from contextlib import suppress

import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId, occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, NEVER, SECOND, Duration, Instant
from oncue.domain.job import Cursor, JobStatus
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.planning import DueJob, Plan, plan
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State, Trigger
from oncue.domain.schedule import Schedule
from oncue.engines.port import Count, Planned
from oncue_conformance.store import Store, ids, nominals, only


async def test_an_occurrence_becomes_a_run(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    due = store.at(MINUTE)

    planned = await store.plan(ahead=MINUTE)

    assert planned == Planned(jobs=1, runs=1, first_due=due, next_at=Instant(due + MINUTE))
    assert (await store.snapshot(job_id)).cursor == Cursor(Instant(due + MINUTE), floor=due, planned=1)
    [run] = await store.runs(job_id=job_id)
    assert (run.run_id, run.nominal, run.due, run.wanted) == (occurrence_id(job_id, due), due, due, due)
    assert (run.state, run.trigger, run.uid, run.job_version) == (State.WAITING, Trigger.SCHEDULE, store.uid, 1)
    assert await store.claimable() == []
    store.advance(MINUTE)
    assert await store.claimable() == [run.run_id]
    assert (await store.counts())[Count.CREATED] == 1


async def test_the_decision_sees_the_job_as_it_is(store: Store) -> None:
    new = await store.new_recurring(every=MINUTE, queue="q", group="g")
    await store.create(new)
    seen: list[DueJob] = []

    def decide(job: DueJob) -> Plan:
        seen.append(job)
        return plan(job, store.now, store.at(MINUTE))

    await store.planning.plan(store.at(MINUTE), 10, store.now, decide)

    job = new.job
    cursor = Cursor(store.at(MINUTE), floor=store.now)
    assert seen == [DueJob(job.job_id, store.uid, 1, new.class_id, job.lanes, job.spec, cursor)]


async def test_what_is_not_yet_near_is_left_alone(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    before = await store.snapshot(job_id)

    planned = await store.plan(ahead=MINUTE - 1)

    assert planned == Planned(next_at=store.at(MINUTE))
    assert await store.snapshot(job_id) == before


async def test_with_no_jobs_there_is_nothing_to_come_back_for(store: Store) -> None:
    await store.one_shot()

    assert await store.plan(ahead=DAY) == Planned()


async def test_planning_again_plans_nothing_twice(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)

    assert await store.plan_all(ahead=HOUR) == 60
    assert await store.plan_all(ahead=HOUR) == 0
    assert nominals(await store.runs(job_id=job_id)) == [store.at(i * MINUTE) for i in range(1, 61)]
    assert await store.ledger(job_id) == []


async def test_what_has_run_is_not_planned_again(store: Store) -> None:
    """Its run has left, so only the floor remembers it; also when a scheduler died half-way, and the next one plans."""
    job_id = await store.recurring(every=MINUTE)
    worker = await store.worker()
    started: list[Instant | None] = []
    for _ in range(8):
        store.advance(MINUTE)
        await store.beat(worker)
        for _ in range(2):
            with suppress(StoreUnavailable):
                await store.plan()
            runs = await store.claim_due(worker)
            started += [run.nominal for run in runs]
            assert len(started) == len(set(started))
            await store.succeed(worker, *runs)

    assert started == [store.at(-i * MINUTE) for i in range(7, -1, -1)]
    assert len(await store.runs(job_id=job_id)) == 8


async def test_a_clock_that_goes_back_plans_nothing_twice(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.plan_all(ahead=10 * MINUTE)
    before = (await store.snapshot(job_id)).cursor

    store.advance(-HOUR)
    assert await store.plan_all(ahead=10 * MINUTE) == 0
    assert (await store.snapshot(job_id)).cursor == before
    store.advance(HOUR)
    assert await store.plan_all(ahead=11 * MINUTE) == 1


async def test_the_nearest_come_first_and_no_more_than_asked_for(store: Store) -> None:
    order = store.chance.sample(range(1, 11), 10)
    jobs = {i: await store.recurring(every=i * MINUTE) for i in order}

    planned = await store.plan(ahead=10 * MINUTE, limit=3)

    assert (planned.jobs, planned.next_at) == (3, store.at(4 * MINUTE))
    for i, job_id in jobs.items():
        assert bool((await store.snapshot(job_id)).waiting) == (i <= 3)


async def test_a_pass_is_bounded_by_runs_and_leaves_the_rest_as_it_is(store: Store) -> None:
    """After an outage every job has many: a transaction that created them all would time out, every time."""
    jobs = [await store.recurring(every=MINUTE, catch_up=CatchUp.ALL) for _ in range(5)]
    store.advance(HOUR)
    before = {job_id: await store.snapshot(job_id) for job_id in jobs}
    until = store.now

    def decide(job: DueJob) -> Plan:
        return plan(job, store.now, until)

    planned = await store.planning.plan(until, 10, store.now, decide, runs=100)

    assert (planned.jobs, planned.runs) == (2, 120)  # the second fills it; a job's step is complete or not taken
    left = [job_id for job_id in jobs if await store.snapshot(job_id) == before[job_id]]
    assert len(left) == 3
    assert planned.next_at == before[left[0]].cursor.next_at  # type: ignore[union-attr]  # they have one
    assert await store.plan_all() == 180
    for job_id in jobs:
        assert len(await store.runs(job_id=job_id)) == 60


async def test_who_has_decided_enough_leaves_the_rest_as_it_is(store: Store) -> None:
    jobs = [await store.recurring(every=MINUTE) for _ in range(4)]
    asked: list[JobId] = []

    def decide(job: DueJob) -> Plan | None:
        asked.append(job.job_id)
        return plan(job, store.now, store.at(MINUTE)) if len(asked) < 3 else None

    planned = await store.planning.plan(store.at(MINUTE), 10, store.now, decide)

    assert (planned.jobs, planned.runs, len(asked)) == (2, 2, 3)
    assert {job_id for job_id in jobs if await store.runs(job_id=job_id)} == set(asked[:2])
    assert await store.plan_all(ahead=MINUTE) == 2


async def test_those_before_a_given_instant_can_be_left_out(store: Store) -> None:
    early, late = await store.recurring(every=MINUTE), await store.recurring(every=HOUR)

    def decide(job: DueJob) -> Plan:
        return plan(job, store.now, store.at(HOUR))

    planned = await store.planning.plan(store.at(HOUR), 10, store.now, decide, since=store.at(HOUR))

    assert (planned.jobs, planned.runs, planned.next_at) == (1, 1, store.at(MINUTE))
    assert await store.runs(job_id=early) == []
    assert len(await store.runs(job_id=late)) == 1


async def test_planned_says_what_came_of_all_jobs(store: Store) -> None:
    await store.recurring(every=7 * SECOND)
    await store.recurring(every=5 * SECOND)

    planned = await store.plan(ahead=20 * SECOND)

    assert planned == Planned(jobs=2, runs=6, first_due=store.at(5 * SECOND), next_at=store.at(21 * SECOND))


async def test_planned_says_how_many_came_after_their_instant(store: Store) -> None:
    await store.recurring(store.every(5 * SECOND, jitter=Duration(4 * SECOND)))
    store.advance(6 * SECOND)

    planned = await store.plan(ahead=4 * SECOND)

    assert (planned.runs, planned.late) == (2, 1)


@pytest.mark.parametrize("policy", CatchUp)
async def test_what_nobody_planned_in_time_is_caught_up_with(store: Store, policy: CatchUp) -> None:
    job_id = await store.recurring(every=MINUTE, catch_up=policy, overlap=Overlap.ALLOW)
    missed = [store.at(i * MINUTE) for i in range(1, 11)]
    store.advance(10 * MINUTE + 30 * SECOND)

    await store.plan_all()
    runs, ledger = await store.runs(job_id=job_id), await store.ledger(job_id)

    assert {run.trigger for run in runs} <= {Trigger.CATCH_UP}
    assert set(await store.claimable()) == set(ids(runs))
    match policy:
        case CatchUp.ALL:
            assert (nominals(runs), ledger) == (missed, [])
        case CatchUp.LAST:
            into = occurrence_id(job_id, missed[-1])
            entry = Entry(job_id, missed[0], missed[-2], 9, Outcome.COALESCED, "catch_up is last", into)
            assert (nominals(runs), ledger) == (missed[-1:], [entry])
        case CatchUp.SKIP:
            entry = Entry(job_id, missed[0], missed[-1], 10, Outcome.MISSED, "catch_up is skip")
            assert (nominals(runs), ledger) == ([], [entry])


async def test_a_job_is_finished_after_its_last_run(store: Store) -> None:
    job_id = await store.recurring(store.every(MINUTE, max_runs=3))

    assert (await store.plan(ahead=HOUR)).runs == 3
    snap = await store.snapshot(job_id)

    assert (snap.job.status, snap.job.version, len(snap.waiting)) == (JobStatus.FINISHED, 1, 3)
    assert snap.cursor is None or snap.cursor.next_at == NEVER
    assert await store.plan(ahead=DAY) == Planned()
    store.advance(HOUR)
    worker = await store.worker()
    for _ in range(3):
        await store.succeed(worker, only(await store.claim_due(worker)))
    assert await store.claimable() == []


async def test_a_job_is_finished_at_its_end(store: Store) -> None:
    job_id = await store.recurring(store.every(MINUTE, end_at=store.at(3 * MINUTE)))

    await store.plan_all(ahead=HOUR)

    assert (await store.snapshot(job_id)).job.status is JobStatus.FINISHED
    assert nominals(await store.runs(job_id=job_id)) == [store.at(i * MINUTE) for i in (1, 2, 3)]


async def test_jitter_only_moves_the_due_instant(store: Store) -> None:
    job_id = await store.recurring(store.every(MINUTE, jitter=Duration(30 * SECOND)), overlap=Overlap.ALLOW)

    await store.plan_all(ahead=20 * MINUTE)
    runs = await store.runs(job_id=job_id)

    assert nominals(runs) == [store.at(i * MINUTE) for i in range(1, 21)]
    late = [run.due - run.nominal for run in runs if run.nominal is not None]
    assert all(0 <= moved <= 30 * SECOND for moved in late)
    assert len(set(late)) > 10
    assert all(run.wanted == run.due for run in runs)


async def test_a_planned_run_has_its_own_deadline(store: Store) -> None:
    await store.recurring(every=MINUTE, start_within=Duration(5 * SECOND))
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE + 5 * SECOND + 1)

    assert await store.claim_due(await store.worker()) == []
    assert len(await store.planning.expire(10, store.now)) == 1


async def test_a_decision_that_raises_leaves_nothing(store: Store) -> None:
    class Boom(Exception):
        pass

    def decide(job: DueJob) -> Plan:
        raise Boom

    job_id = await store.recurring(every=MINUTE)
    before = await store.snapshot(job_id)

    with suppress(Boom):
        await store.planning.plan(store.at(HOUR), 10, store.now, decide)

    assert await store.snapshot(job_id) == before
    assert await store.runs(job_id=job_id) == []
    assert await store.plan_all(ahead=HOUR) == 60  # and nothing stayed locked


async def test_a_pass_that_breaks_off_leaves_each_job_whole(store: Store) -> None:
    """Planned completely or not at all, each for itself: never runs without their cursor, nor a cursor without runs."""
    jobs = [await store.recurring(every=MINUTE) for _ in range(5)]
    seen = 0

    def decide(job: DueJob) -> Plan:
        nonlocal seen
        seen += 1
        if seen == 4:
            raise StoreUnavailable("the process dies here")
        return plan(job, store.now, store.at(3 * MINUTE))

    with suppress(StoreUnavailable):
        await store.planning.plan(store.at(3 * MINUTE), 10, store.now, decide)

    for job_id in jobs:
        snap = await store.snapshot(job_id)
        assert snap.cursor is not None
        assert (len(snap.waiting), snap.cursor.planned) in {(0, 0), (3, 3)}
    await store.plan_all(ahead=3 * MINUTE)
    assert (await store.counts())[Count.CREATED] == 15


async def test_paused_and_cancelled_jobs_are_not_planned(store: Store) -> None:
    paused, cancelled = await store.recurring(every=MINUTE), await store.recurring(every=MINUTE)
    await store.pause(paused)
    await store.jobs.cancel(None, cancelled, store.now)

    assert await store.plan(ahead=DAY) == Planned()


async def test_cron_in_a_zone_is_planned_through_the_year(store: Store) -> None:
    """The engine carries the schedule to the decision unharmed: 365 days, both changes of the clock among them."""
    schedule = Schedule(cron="30 2 * * *", timezone="Europe/Berlin")
    job_id = await store.recurring(schedule)

    assert await store.plan_all(ahead=365 * DAY) == 365
    assert len(set(nominals(await store.runs(job_id=job_id)))) == 365
