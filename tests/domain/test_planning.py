"""Planning: each nominal instant gets its one fate, and a call never costs more than a little."""

from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oncue.domain.cron import DstGap
from oncue.domain.ids import ClassId, JobId, UserNumber, occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, NEVER, SECOND, Duration, Instant, parse_instant
from oncue.domain.job import Cursor, Spec
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.planning import GRACE, MOST_LATE, MOST_RUNS, DueJob, Plan, plan
from oncue.domain.policy import CatchUp
from oncue.domain.run import Trigger
from oncue.domain.schedule import Schedule, occurrences

NOW = parse_instant("2027-01-31T09:00:00Z")
JOB = JobId(UUID(int=5))


def due_job(schedule: Schedule, floor: int, planned: int = 0, **spec: Any) -> DueJob:
    definition = Spec("noop", schedule, **spec)
    lanes = definition.lanes(UserNumber(1), JOB)
    cursor = Cursor(NOW, Instant(floor), planned)
    return DueJob(JOB, UserNumber(1), 1, ClassId(1), lanes, definition, cursor)


def every(length: int, **how: Any) -> Schedule:
    return Schedule(every=Duration(length), anchor=Instant(0), **how)


def plan_all(job: DueJob, now: Instant, until: Instant, most: int = 10_000) -> list[Plan]:
    """Called again while the cursor is not past `until`, as planners do."""
    plans = []
    for _ in range(most):
        plans.append(plan(job, now, until))
        job = replace(job, cursor=plans[-1].cursor)
        if job.cursor.next_at > until:
            return plans
    raise AssertionError("planning does not come to an end")


def nominals(plans: list[Plan]) -> list[Instant]:
    return [run.nominal for made in plans for run in made.runs if run.nominal is not None]


def entries(plans: list[Plan]) -> list[Entry]:
    return [entry for made in plans for entry in made.ledger]


def test_what_comes_soon_is_planned_in_time() -> None:
    made = plan(due_job(every(MINUTE), NOW), NOW, Instant(NOW + 2 * MINUTE))

    assert nominals([made]) == [NOW + MINUTE, NOW + 2 * MINUTE]
    assert made.cursor == Cursor(Instant(NOW + 3 * MINUTE), Instant(NOW + 2 * MINUTE), 2)
    assert (made.ledger, made.finished) == ((), False)
    assert {run.trigger for run in made.runs} == {Trigger.SCHEDULE}
    assert made.runs[0].run_id == occurrence_id(JOB, Instant(NOW + MINUTE))


@pytest.mark.parametrize(
    ("policy", "caught_up", "outcome"),
    [
        (CatchUp.ALL, [1, 2, 3, 4, 5], None),
        (CatchUp.LAST, [5], (1, 4, 4, Outcome.COALESCED)),
        (CatchUp.SKIP, [], (1, 5, 5, Outcome.MISSED)),
    ],
)
def test_five_were_missed(policy: CatchUp, caught_up: list[int], outcome: tuple[int, int, int, Outcome] | None) -> None:
    """Nobody planned for five and a half minutes; the sixth is on time."""
    now = Instant(NOW + 5 * MINUTE + 30 * SECOND)
    made = plan(due_job(every(MINUTE), NOW, catch_up=policy), now, Instant(NOW + 6 * MINUTE))

    assert nominals([made]) == [NOW + i * MINUTE for i in [*caught_up, 6]]
    triggers = [Trigger.CATCH_UP] * len(caught_up) + [Trigger.SCHEDULE]
    assert [run.trigger for run in made.runs] == triggers
    assert [(e.first, e.last, e.count, e.outcome) for e in made.ledger] == (
        [] if outcome is None else [(NOW + outcome[0] * MINUTE, NOW + outcome[1] * MINUTE, *outcome[2:])]
    )


def test_what_was_coalesced_names_the_run_it_went_into() -> None:
    now = Instant(NOW + 5 * MINUTE + 30 * SECOND)
    made = plan(due_job(every(MINUTE), NOW, catch_up=CatchUp.LAST), now, now)

    assert [entry.run_id for entry in made.ledger] == [made.runs[0].run_id]


@pytest.mark.parametrize(("late", "missed"), [(0, False), (GRACE, False), (GRACE + 1, True)])
def test_a_planner_that_is_a_little_late_has_missed_nothing(late: int, missed: bool) -> None:
    now = Instant(NOW + MINUTE + late)
    made = plan(due_job(every(MINUTE), NOW, catch_up=CatchUp.SKIP), now, now)

    assert (len(made.runs), len(made.ledger)) == ((0, 1) if missed else (1, 0))


def test_what_is_older_than_the_window_is_given_up() -> None:
    now = Instant(NOW + 10 * MINUTE + 30 * SECOND)
    job = due_job(every(MINUTE), NOW, catch_up=CatchUp.ALL, catch_up_window=Duration(3 * MINUTE))
    made = plan(job, now, now)

    assert nominals([made]) == [NOW + i * MINUTE for i in (8, 9, 10)]
    [entry] = made.ledger
    assert (entry.first, entry.last, entry.count, entry.outcome) == (
        NOW + MINUTE,
        NOW + 7 * MINUTE,
        7,
        Outcome.MISSED,
    )


def test_after_max_runs_it_is_finished() -> None:
    job = due_job(every(MINUTE, max_runs=5), NOW, planned=3)
    made = plan(job, NOW, Instant(NOW + HOUR))

    assert nominals([made]) == [NOW + MINUTE, NOW + 2 * MINUTE]
    assert (made.finished, made.cursor.next_at, made.cursor.planned) == (True, NEVER, 5)


def test_after_its_end_it_is_finished() -> None:
    job = due_job(every(MINUTE, end_at=Instant(NOW + 2 * MINUTE)), NOW)
    made = plan(job, NOW, Instant(NOW + HOUR))

    assert (len(made.runs), made.finished, made.cursor.next_at) == (2, True, NEVER)


def test_with_more_to_come_it_is_not_finished() -> None:
    assert not plan(due_job(every(MINUTE, max_runs=5), NOW), NOW, Instant(NOW + MINUTE)).finished


def test_a_deadline_counts_from_when_it_could_start() -> None:
    job = due_job(every(MINUTE), NOW, start_within=Duration(10 * SECOND), catch_up=CatchUp.ALL)
    now = Instant(NOW + MINUTE + 30 * SECOND)
    made = plan(job, now, Instant(NOW + 2 * MINUTE))

    assert [run.expires_at for run in made.runs] == [now + 10 * SECOND, NOW + 2 * MINUTE + 10 * SECOND]


@pytest.mark.parametrize("policy", CatchUp)
@pytest.mark.parametrize("window", [HOUR, 400 * DAY])
def test_a_year_of_seconds_costs_little(policy: CatchUp, window: int) -> None:
    """Each call is bounded in what it looks at and returns; together they end, with the newest thousand at most."""
    job = due_job(every(SECOND), NOW - 365 * DAY, catch_up=policy, catch_up_window=Duration(window))
    step = plan(job, NOW, NOW)
    assert len(step.runs) + len(step.ledger) <= MOST_LATE + 2
    assert step.cursor.floor > job.cursor.floor

    recent = replace(job, cursor=Cursor(NOW, Instant(NOW - HOUR)))
    plans = plan_all(recent, NOW, NOW, most=10)
    assert len(nominals(plans)) == {CatchUp.ALL: MOST_LATE + 3, CatchUp.LAST: 4, CatchUp.SKIP: 3}[policy]


def test_catching_up_takes_steps_and_comes_to_the_newest_thousand_all_the_same() -> None:
    job = due_job(every(3 * SECOND), NOW - HOUR, catch_up=CatchUp.ALL)
    plans = plan_all(job, NOW, Instant(NOW + SECOND), most=10)

    assert max(len(step.runs) for step in plans) == MOST_RUNS
    late = [run for step in plans for run in step.runs if run.trigger is Trigger.CATCH_UP]
    missed = list(occurrences(job.spec.schedule, Instant(NOW - HOUR), Instant(NOW - GRACE - 1)))
    assert [run.nominal for run in late] == missed[-MOST_LATE:]
    assert [(e.count, e.last, e.reason) for e in entries(plans)] == [
        (len(missed) - MOST_LATE, missed[-MOST_LATE - 1], "more than 1000 were missed")
    ]


def test_a_job_planned_far_ahead_takes_steps_as_well() -> None:
    plans = plan_all(due_job(every(SECOND), NOW), NOW, Instant(NOW + HOUR))

    assert max(len(step.runs) for step in plans) == MOST_RUNS
    assert nominals(plans) == [NOW + n * SECOND for n in range(1, 3601)]


def test_after_max_runs_it_is_finished_whatever_the_steps() -> None:
    job = due_job(every(SECOND, max_runs=MOST_RUNS + 10), NOW - 600 * SECOND, catch_up=CatchUp.ALL)
    plans = plan_all(job, NOW, NOW)

    assert [len(step.runs) for step in plans] == [MOST_RUNS, 10]
    assert [step.finished for step in plans] == [False, True]


def test_a_clock_that_jumps_to_2199_costs_little() -> None:
    job = due_job(every(SECOND), NOW)
    far = parse_instant("2199-12-31T00:00:00Z")
    plans = plan_all(job, far, far, most=10)

    assert len(nominals(plans)) <= 4
    assert entries(plans)[0].reason.endswith("there were more")


def test_a_clock_that_goes_back_plans_nothing() -> None:
    job = due_job(every(MINUTE), NOW + HOUR)
    made = plan(job, NOW, Instant(NOW + MINUTE))

    assert (made.runs, made.ledger, made.cursor.floor) == ((), (), NOW + HOUR)


schedules = st.one_of(
    st.integers(SECOND, 3 * HOUR).map(every),
    st.sampled_from(["*/5 * * * *", "30 2 * * *", "0 9 * * 1-5", "0 0 31 * *"]).map(
        lambda cron: Schedule(cron=cron, timezone="Europe/Berlin")
    ),
)


@given(
    schedule=schedules,
    policy=st.sampled_from(CatchUp),
    behind=st.integers(0, 2 * DAY),
    ahead=st.integers(0, HOUR),
    window=st.sampled_from([MINUTE, HOUR, 7 * DAY]),
)
def test_each_instant_is_exactly_once_in_runs_or_ledger(
    schedule: Schedule, policy: CatchUp, behind: int, ahead: int, window: int
) -> None:
    """P2 and rule 11: nothing twice, nothing silent."""
    floor, until = Instant(NOW - behind), Instant(NOW + ahead)
    plans = plan_all(due_job(schedule, floor, catch_up=policy, catch_up_window=Duration(window)), NOW, until)
    oracle = list(islice(occurrences(schedule, floor, until), 200_000))
    planned = nominals(plans)

    assert len(planned) == len(set(planned))
    fates = [{at for at in oracle if e.first <= at <= e.last} for e in entries(plans)] + [set(planned)]
    assert sum(map(len, fates)) == len(oracle)
    assert set().union(*fates) == set(oracle)
    assert all(e.count == len(f) or "more" in e.reason for e, f in zip(entries(plans), fates, strict=False))
    floors = [made.cursor.floor for made in plans]
    assert floors == sorted(floors)


@given(
    policy=st.sampled_from(CatchUp),
    behind=st.integers(0, 2 * HOUR),
    between=st.lists(st.integers(0, 5 * MINUTE), min_size=1, max_size=30),
)
def test_each_instant_has_one_fate_though_time_goes_on_between_the_steps(
    policy: CatchUp, behind: int, between: list[int]
) -> None:
    """As when other jobs have their turn between two steps of one, or the store is away for a while."""
    schedule, now, floor = every(SECOND), NOW, Instant(NOW - behind)
    job, plans = due_job(schedule, floor, catch_up=policy), []
    for length in between:
        plans.append(plan(job, now, Instant(now + SECOND)))
        assert len(plans[-1].runs) <= MOST_RUNS
        job, now = replace(job, cursor=plans[-1].cursor), Instant(now + length)

    decided = set(occurrences(schedule, floor, job.cursor.floor))
    fates = [{at for at in decided if e.first <= at <= e.last} for e in entries(plans)] + [set(nominals(plans))]
    assert sum(map(len, fates)) == len(decided)
    assert set().union(*fates) == decided
    assert len(nominals(plans)) == sum(len(step.runs) for step in plans) == job.cursor.planned


@given(st.lists(st.integers(1, 30 * MINUTE), min_size=1, max_size=20), schedules)
def test_planning_in_steps_comes_to_the_same_as_at_once(steps: list[int], schedule: Schedule) -> None:
    job, until = due_job(schedule, NOW), NOW
    in_steps: list[Plan] = []
    for step in steps:
        until = Instant(until + step)
        in_steps += plan_all(replace(job, cursor=in_steps[-1].cursor if in_steps else job.cursor), NOW, until)

    assert nominals(in_steps) == nominals(plan_all(job, NOW, until))


def test_what_a_gap_swallows_is_in_the_ledger() -> None:
    """02:15 and 02:45 do not exist on 28 March 2027 in Berlin: one run right after the gap, the other is recorded."""
    schedule = Schedule(cron="15,45 2 * * *", timezone="Europe/Berlin")
    night = parse_instant("2027-03-28T00:00:00Z")

    made = plan(due_job(schedule, night), night, Instant(night + 2 * HOUR))

    gap_end = parse_instant("2027-03-28T01:00:00Z")
    assert nominals([made]) == [gap_end]
    assert [(e.first, e.count, e.outcome, e.run_id) for e in made.ledger] == [
        (gap_end, 1, Outcome.COALESCED, occurrence_id(JOB, gap_end))
    ]


def test_what_a_gap_skips_is_in_the_ledger_once() -> None:
    schedule = Schedule(cron="30 2 * * *", timezone="Europe/Berlin", dst_gap=DstGap.SKIP)
    eve = parse_instant("2027-03-27T00:00:00Z")

    plans = []
    job = due_job(schedule, eve)
    for day in range(4):
        plans.append(plan(job, Instant(eve + day * DAY), Instant(eve + (day + 1) * DAY)))
        job = replace(job, cursor=plans[-1].cursor)

    assert nominals(plans) == [
        parse_instant(f"2027-03-{at}") for at in ("27T01:30:00Z", "29T00:30:00Z", "30T00:30:00Z")
    ]
    [entry] = entries(plans)
    assert (entry.first, entry.count, entry.outcome) == (parse_instant("2027-03-28T01:00:00Z"), 1, Outcome.SKIPPED)
    assert "does not exist" in entry.reason
