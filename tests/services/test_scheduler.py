"""The scheduler plans each occurrence once, whoever else plans, whatever fails and wherever clocks jump."""

import asyncio
from typing import Any

import msgspec
import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, parse_instant
from oncue.domain.job import Spec
from oncue.domain.ledger import Outcome
from oncue.domain.planning import MOST_LATE, MOST_RUNS, PLANNED_AT_ONCE, DueJob, Plan, plan
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State, Trigger
from oncue.domain.schedule import Schedule
from oncue.engines.hints import SOON
from oncue.engines.port import Hint, Topic
from oncue.engines.postgres import planning as postgres_planning
from oncue.engines.postgres import rows as postgres_rows
from oncue.engines.sqlite import planning as sqlite_planning
from oncue.engines.sqlite import rows as sqlite_rows
from oncue.engines.unreadable import NEWER_SCHEDULER_WAIT
from oncue.services import scheduler
from oncue.services.scheduler import HORIZON, OTHERS_AT_IT, Scheduler
from oncue.testing.conformance import Store
from oncue.testing.logs import capture_logs
from oncue.testing.rules import made_up
from oncue_conformance.store import nominals

IN_THE_YEAR_2200 = parse_instant("2199-12-31T00:00:00Z") + 2 * DAY


def on(store: Store) -> Scheduler:
    return Scheduler(store.engine, store.clock)


async def passes(one: Scheduler, most: int = 100) -> int:
    """Until there is nothing more to do at once; how many that took."""
    for n in range(1, most + 1):
        if await one.run_once() > OTHERS_AT_IT:
            return n
    raise AssertionError(f"still not done after {most} passes")


async def planned(store: Store, job_id: JobId) -> list[Instant]:
    return nominals(await store.runs(job_id=job_id))


def every(length: int, since: Instant, until: int) -> list[int]:
    return list(range(since + length, until + 1, length))


# ------------------------------------------------------------------------------------------------------- when and how


async def test_an_occurrence_is_planned_a_horizon_ahead_and_workers_are_told_of_late_plans(
    store: Store, hints: list[Hint]
) -> None:
    job_id = await store.recurring(every=MINUTE)
    due = store.at(MINUTE)

    store.advance(MINUTE - HORIZON - 1)
    assert await on(store).run_once() == 1
    assert (await planned(store, job_id), hints) == ([], [])

    store.advance(1)
    assert await on(store).run_once() == SECOND
    assert await planned(store, job_id) == [due]
    assert hints == []  # workers look by then

    store.advance(MINUTE + HORIZON - SOON)
    await on(store).run_once()
    assert hints == [Hint(Topic.RUNS, due=due + MINUTE)]


async def test_waits_are_capped_whatever_comes_next(store: Store) -> None:
    assert await on(store).run_once() == SECOND  # nothing at all
    await store.recurring(every=HOUR)
    assert await on(store).run_once() == SECOND


async def test_jobs_that_make_no_more_runs_keep_nobody_busy(store: Store) -> None:
    """A cursor left behind in the past would be looked at again and again."""
    paused, cancelled = await store.recurring(every=MINUTE), await store.recurring(every=MINUTE)
    finished = await store.recurring(store.every(MINUTE, max_runs=1))
    await store.pause(paused)
    await store.jobs.cancel(None, cancelled, store.now)
    store.advance(MINUTE)
    await on(store).run_once()
    store.advance(HOUR)

    assert await on(store).run_once() == SECOND
    assert len(await store.runs()) == len(await planned(store, finished)) == 1


async def test_a_full_batch_is_followed_by_the_next_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "BATCH", 2)
    jobs = [await store.recurring(every=MINUTE) for _ in range(5)]
    store.advance(MINUTE)

    assert [await on(store).run_once() for _ in range(3)] == [0, 0, SECOND]
    assert [await planned(store, job_id) for job_id in jobs] == [[store.now]] * 5


async def test_what_another_scheduler_is_planning_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Due, and nothing was given to us: a wait of zero would burn a processor until the other is done."""
    await store.recurring(every=MINUTE)
    store.advance(MINUTE)
    take = store.planning.plan

    async def nothing_left(until: Instant, limit: int, *rest: Any, **how: Any) -> Any:
        return await take(until, 0, *rest, **how)

    monkeypatch.setattr(store.planning, "plan", nothing_left)

    assert await on(store).run_once() == OTHERS_AT_IT


async def test_what_could_not_start_in_time_expires_and_whoever_waits_behind_it_is_told(
    store: Store, hints: list[Hint], logged: list[Any]
) -> None:
    late, next_one = await store.one_shots(2, apart=1, group="g", start_within=MINUTE)
    store.advance(MINUTE + 1)

    await on(store).run_once()

    assert await store.state(late) is State.EXPIRED
    assert await store.claimable() == [next_one]
    assert hints == [Hint(Topic.RUNS)]
    [line] = logged
    assert (line["kind"], line["run_id"], line["task"], line["seconds"]) == ("run_expired", str(late), "noop", 60)


async def test_a_full_batch_of_expired_runs_is_followed_by_the_next_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "BATCH", 2)
    runs = await store.one_shots(3, start_within=MINUTE)
    store.advance(MINUTE + 1)

    assert [await on(store).run_once() for _ in range(2)] == [0, SECOND]
    assert {await store.state(run_id) for run_id in runs} == {State.EXPIRED}


# -------------------------------------------------------------------------------------------- much at once, bit by bit


async def an_hour_away(store: Store, jobs: int) -> list[JobId]:
    new = [await store.new_recurring(every=3 * SECOND, catch_up=CatchUp.ALL) for _ in range(jobs)]
    await store.create(*new)
    store.advance(HOUR)
    return [one.job.job_id for one in new]


class Watched:
    """The verb `plan`, with what each call was asked for and came to."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        self.made: list[int] = []
        self.away = False
        self._plan = store.planning.plan
        monkeypatch.setattr(store.planning, "plan", self)

    async def __call__(self, until: Instant, limit: int, *asked: Any, **how: Any) -> Any:
        self.asked.append(limit)
        if self.away:
            raise StoreUnavailable("no answer in time")
        planned = await self._plan(until, limit, *asked, **how)
        self.made.append(planned.runs)
        return planned


async def test_after_an_hours_outage_no_pass_makes_more_than_it_may(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, watched, one = await an_hour_away(store, 4), Watched(store, monkeypatch), on(store)

    await passes(one)

    assert max(watched.made) <= PLANNED_AT_ONCE + MOST_RUNS
    for job_id in jobs:
        assert len(await planned(store, job_id)) == MOST_LATE + 1  # and one that is in time
        assert [entry.count for entry in await store.ledger(job_id)] == [HOUR // SECOND // 3 - 1 - MOST_LATE]


async def test_what_is_in_time_does_not_wait_for_what_is_late(store: Store) -> None:
    """One pass; thousands of late ones are nearer than the one that is due in a second."""
    await an_hour_away(store, 6)
    punctual = await store.recurring(every=SECOND)

    assert await on(store).run_once() == 0

    assert await planned(store, punctual) == [store.at(SECOND)]


async def test_a_pass_decides_for_a_short_time_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deciding takes a processor, on the loop or in the writer's turn: here it takes a second for each job."""
    jobs = [await store.recurring(every=MINUTE) for _ in range(3)]
    store.advance(MINUTE)

    elapsed = 0

    def slow(*asked: Any) -> Plan:
        nonlocal elapsed
        elapsed += SECOND
        return plan(*asked)

    monkeypatch.setattr(scheduler, "plan", slow)
    monkeypatch.setattr(store.clock, "monotonic", lambda: elapsed)
    one = on(store)

    assert [await one.run_once() for _ in range(2)] == [0, 0]
    assert [len(await planned(store, job_id)) for job_id in jobs] == [1, 1, 0]
    assert await passes(one) == 1
    assert [len(await planned(store, job_id)) for job_id in jobs] == [1, 1, 1]


async def test_after_a_timeout_half_as_many_are_taken_and_then_slowly_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, one = Watched(store, monkeypatch), on(store)
    watched.away = True
    for _ in range(12):
        with pytest.raises(StoreUnavailable):
            await one.run_once()
    assert watched.asked == [500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1, 1]
    watched.away = False
    watched.asked.clear()
    for _ in range(60):
        await one.run_once()

    assert watched.asked[:10] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
    assert watched.asked[-1] == 500


async def test_jobs_that_do_not_fit_are_not_taken_again_and_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await an_hour_away(store, 12)
    watched, one = Watched(store, monkeypatch), on(store)
    for _ in range(3):
        await one.run_once()

    assert watched.asked[1::2] == [500, 8, 8]


# ------------------------------------------------------------------------------------------- once, whoever and whatever


async def test_two_schedulers_in_turn_plan_each_occurrence_once(store: Store) -> None:
    other = await store.second()
    job_id, began = await store.recurring(every=SECOND, overlap=Overlap.ALLOW), store.now
    for i in range(60):
        store.advance(700_000)
        await on((store, other)[i % 2]).run_once()

    assert await planned(store, job_id) == every(SECOND, began, store.at(HORIZON))
    assert await store.ledger(job_id) == []


async def test_schedulers_at_once_plan_each_occurrence_once(store: Store) -> None:
    stores = [store, await store.second(), await store.second()]
    jobs, began = [await store.recurring(every=SECOND, overlap=Overlap.ALLOW) for _ in range(20)], store.now
    for _ in range(8):
        store.advance(SECOND)
        await asyncio.gather(*(on(one).run_once() for one in stores))
    await passes(on(store))

    expected = every(SECOND, began, store.at(HORIZON))
    assert [await planned(store, job_id) for job_id in jobs] == [expected] * 20
    await store.check_counts()


async def test_a_lost_answer_loses_and_doubles_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second pass its write happens and the answer is lost; what ran meanwhile is not planned again."""
    job_id, began, worker = await store.recurring(every=SECOND), store.now, await store.worker()
    plan_in_store = store.planning.plan
    ran: list[Instant | None] = []

    async def applied_but_unanswered(*asked: Any, **how: Any) -> Any:
        await plan_in_store(*asked, **how)
        raise StoreUnavailable("the answer was lost")

    for i in range(20):
        store.advance(SECOND)
        monkeypatch.setattr(store.planning, "plan", applied_but_unanswered if i % 2 else plan_in_store)
        if i % 2:
            with pytest.raises(StoreUnavailable):
                await on(store).run_once()
        else:
            await on(store).run_once()
        await store.beat(worker)
        runs = await store.claim_due(worker)
        ran += [run.nominal for run in runs]
        await store.succeed(worker, *runs)

    assert ran == every(SECOND, began, store.now)
    assert await planned(store, job_id) == every(SECOND, began, store.at(HORIZON))
    assert await store.ledger(job_id) == []


async def test_what_a_dead_scheduler_did_not_plan_the_next_one_does(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It decided and died before the write."""
    job_id = await store.recurring(every=MINUTE)
    store.advance(MINUTE)
    plan_in_store = store.planning.plan

    async def dies(until: Instant, limit: int, now: Instant, decide: Any, **how: Any) -> Any:
        def decide_and_die(job: DueJob) -> Plan:
            decide(job)
            raise StoreUnavailable("killed")

        return await plan_in_store(until, limit, now, decide_and_die, **how)

    monkeypatch.setattr(store.planning, "plan", dies)
    with pytest.raises(StoreUnavailable):
        await on(store).run_once()
    assert await planned(store, job_id) == []

    await on(await store.second()).run_once()
    assert await planned(store, job_id) == [store.now]


# ------------------------------------------------------------------------------------------------------ bad definitions


async def test_a_definition_that_cannot_be_planned_does_not_stop_its_neighbours(
    store: Store, logged: list[Any]
) -> None:
    before, new, after = [await store.new_recurring(every=MINUTE) for _ in range(3)]
    job = msgspec.structs.replace(new.job, spec=Spec("noop", schedule=Schedule(cron="no such thing")))
    bad = msgspec.structs.replace(new, job=job)
    await store.create(before, bad, after)
    floor = (await store.snapshot(job.job_id)).cursor.floor  # type: ignore[union-attr]
    store.advance(MINUTE)

    assert await on(store).run_once() == SECOND

    for fine in (before, after):
        assert await planned(store, fine.job.job_id) == [store.now]
    cursor = (await store.snapshot(job.job_id)).cursor
    assert cursor is not None
    assert (cursor.floor, cursor.next_at, cursor.planned) == (floor, store.at(MINUTE), 0)
    assert await planned(store, job.job_id) == []
    assert [(line["log_level"], line["job_id"]) for line in logged] == [("error", str(job.job_id))]
    assert "3 fields found" in str(logged[0]["exc_info"])


async def test_nothing_of_a_job_that_was_put_off_is_lost(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, began = await store.recurring(every=10 * SECOND, catch_up=CatchUp.ALL), store.now

    def fails(*_: Any) -> Plan:
        raise ZeroDivisionError

    monkeypatch.setattr(scheduler, "plan", fails)
    for _ in range(30):
        store.advance(SECOND)
        await on(store).run_once()
    monkeypatch.setattr(scheduler, "plan", plan)
    store.advance(MINUTE)
    await passes(on(store))

    assert await planned(store, job_id) == every(10 * SECOND, began, store.at(HORIZON))
    assert await store.ledger(job_id) == []


@pytest.mark.parametrize("stored", [b'{"task": "noop", "overlap": "newer"}', b"\xff", b""])
async def test_a_stored_definition_that_cannot_be_read_does_not_stop_its_neighbours(
    store: Store, monkeypatch: pytest.MonkeyPatch, logged: list[Any], stored: bytes
) -> None:
    bad, began = await unreadable_job(store, monkeypatch, stored), store.now
    fine = await store.recurring(every=MINUTE)
    store.advance(MINUTE)

    assert [await on(store).run_once() for _ in range(2)] == [0, scheduler.OTHERS_AT_IT]  # perhaps a newer one can
    assert await planned(store, fine) == every(MINUTE, began, store.at(HORIZON))
    assert logged == []
    store.advance(NEWER_SCHEDULER_WAIT)
    assert await on(store).run_once() == SECOND
    store.advance(MINUTE)
    await on(store).run_once()
    assert [line["job_id"] for line in logged] == [str(bad)]  # once in a while, and not at every pass
    store.advance(NEWER_SCHEDULER_WAIT)
    await on(store).run_once()

    assert await planned(store, fine) == every(MINUTE, began, store.at(HORIZON))
    assert [line["job_id"] for line in logged] == [str(bad)] * 2


async def test_nothing_of_a_job_that_could_not_be_read_is_lost(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while a newer scheduler and an older one work side by side."""
    job_id, began = await store.recurring(every=10 * SECOND, catch_up=CatchUp.ALL), store.now

    def too_new(stored: bytes) -> Spec:
        raise ValueError(stored)

    with monkeypatch.context() as patch:
        for planning in (sqlite_planning, postgres_planning):
            patch.setattr(planning, "understand_spec", too_new)
        store.advance(30 * SECOND)
        await on(store).run_once()
    assert await planned(store, job_id) == []
    store.advance(MINUTE)
    await passes(on(store))

    assert await planned(store, job_id) == every(10 * SECOND, began, store.at(HORIZON))
    assert await store.ledger(job_id) == []


async def unreadable_job(store: Store, monkeypatch: pytest.MonkeyPatch, stored: bytes) -> JobId:
    with monkeypatch.context() as patch:
        for rows in (sqlite_rows, postgres_rows):
            patch.setattr(rows, "encode_spec", lambda _: stored)
        return await store.recurring(every=MINUTE)


# ---------------------------------------------------------------------------------------------------- outages and jumps


@pytest.mark.parametrize("policy", list(CatchUp))
async def test_after_an_outage_the_catch_up_policy_decides_and_the_ledger_says_why(
    store: Store, policy: CatchUp
) -> None:
    job_id, began = await store.recurring(every=MINUTE, catch_up=policy), store.now
    store.advance(10 * MINUTE + 30 * SECOND)

    await passes(on(store))

    runs = await store.runs(job_id=job_id)
    ledger = [(one.outcome, one.reason, one.first, one.last, one.count) for one in await store.ledger(job_id)]
    missed = every(MINUTE, began, store.now)
    match policy:
        case CatchUp.ALL:
            assert (nominals(runs), ledger) == (missed, [])
        case CatchUp.LAST:
            assert nominals(runs) == missed[-1:]
            assert ledger == [(Outcome.COALESCED, "catch_up is last", missed[0], missed[-2], 9)]
        case CatchUp.SKIP:
            assert nominals(runs) == []
            assert ledger == [(Outcome.MISSED, "catch_up is skip", missed[0], missed[-1], 10)]
    assert {run.trigger for run in runs} <= {Trigger.CATCH_UP}


async def test_what_is_older_than_its_window_is_missed(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, catch_up=CatchUp.ALL, catch_up_window=Duration(5 * MINUTE))
    store.advance(HOUR)

    await passes(on(store))

    assert await planned(store, job_id) == every(MINUTE, store.at(-6 * MINUTE), store.now)
    [entry] = await store.ledger(job_id)
    assert (entry.count, entry.last, entry.reason) == (54, store.at(-6 * MINUTE), "older than catch_up_window")


async def test_catching_up_is_bounded_by_count(store: Store) -> None:
    job_id = await store.recurring(
        every=SECOND, catch_up=CatchUp.ALL, catch_up_window=Duration(DAY), overlap=Overlap.ALLOW
    )
    began = store.now
    store.advance(HOUR)

    await passes(on(store))

    nominal = await planned(store, job_id)
    missed = sum(entry.count for entry in await store.ledger(job_id))
    assert nominal == every(SECOND, nominal[0] - SECOND, store.at(HORIZON))
    assert 1_000 <= len(nominal) <= 2_000
    assert len(nominal) + missed == len(every(SECOND, began, store.at(HORIZON)))


async def test_a_jump_to_the_year_2200_costs_little_and_a_jump_back_repeats_nothing(store: Store) -> None:
    began = store.now
    jobs = [
        await store.recurring(every=SECOND, catch_up=CatchUp.ALL, overlap=Overlap.ALLOW),
        await store.recurring(Schedule(cron="* * * * *"), catch_up=CatchUp.ALL, overlap=Overlap.ALLOW),
    ]
    store.advance(IN_THE_YEAR_2200 - began)
    await store.maintenance.maintain(store.now, Duration(DAY))

    assert await passes(on(store)) <= 10
    after_the_jump = [await planned(store, job_id) for job_id in jobs]
    assert all(len(nominal) <= 2_000 for nominal in after_the_jump)

    store.advance(-DAY)
    assert await on(store).run_once() <= SECOND
    assert [await planned(store, job_id) for job_id in jobs] == after_the_jump


async def test_after_a_jump_back_planning_goes_on_where_it_was(store: Store) -> None:
    job_id, began = await store.recurring(every=HOUR, overlap=Overlap.ALLOW), store.now
    store.advance(HOUR)
    await on(store).run_once()

    store.advance(-30 * MINUTE)
    for _ in range(9):
        assert await on(store).run_once() <= SECOND
        store.advance(10 * MINUTE)

    await on(store).run_once()
    assert await planned(store, job_id) == every(HOUR, began, began + 2 * HOUR)
    assert await store.ledger(job_id) == []


# ---------------------------------------------------------------------------------------------------- time-zone rules


async def test_newer_rules_compute_anew_at_once_however_many_there_are(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "BATCH", 2)
    schedule = Schedule(cron="0 9 * * *", timezone="Europe/Berlin")
    jobs = [await store.recurring(schedule) for _ in range(5)]
    newer = Scheduler(store.engine, store.clock, made_up("9999a", Duration(3 * HOUR)))

    assert [await newer.run_once() for _ in range(3)] == [0, 0, SECOND]
    cursors = [(await store.snapshot(job_id)).cursor for job_id in jobs]
    assert [cursor and cursor.next_at for cursor in cursors] == [store.at(6 * HOUR)] * 5


async def test_whoever_has_older_rules_says_so_once(store: Store) -> None:
    older, newer = on(store), Scheduler(store.engine, store.clock, made_up("9999a", Duration(0)))
    await store.recurring(Schedule(cron="0 9 * * *", timezone="Europe/Berlin"))
    await newer.run_once()

    with capture_logs() as logs:
        store.advance(10 * HOUR)
        await newer.run_once()
        assert [await older.run_once() for _ in range(2)] == [SECOND] * 2  # and is not kept busy by what is due
        store.advance(2 * MINUTE)
        await older.run_once()

    said = [(one["log_level"], one.get("newer")) for one in logs]
    assert said == [("warning", "9999a"), ("info", None)]


async def test_a_job_that_cannot_be_planned_is_put_off_by_whatever_rules(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cursor names them, or it would be taken again at once."""

    def wrong(*_: Any) -> Plan:
        raise ValueError("wrong")

    await store.recurring(Schedule(cron="0 9 * * *", timezone="Europe/Berlin"))
    newer = Scheduler(store.engine, store.clock, made_up("9999a", Duration(0)))
    monkeypatch.setattr(scheduler, "plan", wrong)

    with capture_logs() as logs:
        for _ in range(3):
            assert await newer.run_once() == SECOND
    assert len(logs) == 1
