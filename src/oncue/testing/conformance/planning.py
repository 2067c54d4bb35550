"""Planning: every occurrence becomes one run or one line of the ledger, whoever plans, whenever, however often."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pytest

from oncue.domain.ids import JobId, occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, NEVER, SECOND, Duration, Instant
from oncue.domain.job import Cursor, JobStatus
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.planning import DueJob, Plan, plan
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import RunView, State, Trigger
from oncue.domain.schedule import Schedule
from oncue.engines.port import Count, Planned
from oncue.testing.conformance.store import Store, ids, only


def nominals(runs: Sequence[RunView]) -> list[Instant]:
    return sorted(run.nominal for run in runs if run.nominal is not None)


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
    """The run has left; only the floor remembers it."""
    job_id = await store.recurring(every=MINUTE)
    worker = await store.worker()
    store.advance(MINUTE)
    await store.plan()
    await store.succeed(worker, *await store.claim_due(worker))

    assert await store.plan_all() == 0
    assert len(await store.runs(job_id=job_id)) == 1


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


async def test_planned_says_what_came_of_all_jobs(store: Store) -> None:
    await store.recurring(every=7 * SECOND)
    await store.recurring(every=5 * SECOND)

    planned = await store.plan(ahead=20 * SECOND)

    assert planned == Planned(jobs=2, runs=6, first_due=store.at(5 * SECOND), next_at=store.at(21 * SECOND))


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
    assert await store.planning.expire(10, store.now) == 1


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


async def test_many_planners_at_once_plan_each_occurrence_once(store: Store) -> None:
    """P2, from two processes, two planners each."""
    stores = [store, await store.second()]
    jobs = [await store.recurring(every=MINUTE) for _ in range(30)]

    async def planner(one: Store) -> int:
        made = 0
        for ahead in range(1, 6):
            while (done := await one.plan(ahead * MINUTE, limit=4)).jobs:
                made += done.runs
        return made

    made = await asyncio.gather(*(planner(stores[n % 2]) for n in range(4)))
    await store.plan_all(ahead=5 * MINUTE)  # what each left to the other, who had just finished

    assert sum(made) <= 150
    for job_id in jobs:
        assert nominals(await store.runs(job_id=job_id)) == [store.at(i * MINUTE) for i in range(1, 6)]
    assert (await store.counts())[Count.CREATED] == 150


async def test_planners_an_editor_and_a_worker_at_once_miss_and_double_nothing(store: Store) -> None:
    """Runs leave as soon as they are made, so no unique key can save a planner that forgets what it has planned."""
    stores = [store, await store.second()]
    jobs = [await store.recurring(every=SECOND, overlap=Overlap.ALLOW) for _ in range(8)]
    began, seconds = store.now, 12
    started: Counter[tuple[JobId, Instant | None]] = Counter()
    over = False

    async def planner(n: int) -> None:
        while not over:
            await stores[n % 2].plan(limit=3)
            await asyncio.sleep(0)

    async def editor() -> None:
        while not over:
            await store.edit(store.chance.choice(jobs), payload=store.chance.randbytes(4).hex().encode())
            await asyncio.sleep(0)

    async def run_all_due(wanted: int) -> None:
        for _ in range(200):
            runs = await stores[1].claim_due(worker)
            started.update((run.job_id, run.nominal) for run in runs)
            await stores[1].succeed(worker, *runs)
            if started.total() >= wanted:
                break

    worker = await store.worker()
    others = [asyncio.create_task(one) for one in (planner(0), planner(1), planner(2), editor())]
    for i in range(seconds):
        store.advance(SECOND)
        await run_all_due((i + 1) * len(jobs))
    over = True
    await asyncio.gather(*others)

    wanted = {(job_id, Instant(began + i * SECOND)) for job_id in jobs for i in range(1, seconds + 1)}
    assert {occurrence for occurrence, n in started.items() if n > 1} == set()
    assert set(started) == wanted
    await store.check_counts()
