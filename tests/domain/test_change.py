"""What users do to jobs, as decisions: edit, pause, resume, run now, backfill."""

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from oncue.domain.change import (
    MOST_AT_ONCE,
    JobChange,
    backfill,
    edit,
    first_cursor,
    only_run,
    pause,
    resume,
    run_now,
)
from oncue.domain.errors import Conflict, Invalid
from oncue.domain.following import followed, is_outdated
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, NEVER, SECOND, Duration, Instant, parse_instant
from oncue.domain.job import Cursor, Job, JobStatus, Snapshot, Spec, WaitingRun, decode_spec
from oncue.domain.lane import Held
from oncue.domain.planning import DueJob, plan
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import Trigger
from oncue.domain.schedule import Schedule

NOW = parse_instant("2027-01-31T09:00:00Z")
JOB = JobId(UUID(int=5))
ORIGIN = UUID(int=77)
CLASS = ClassId(3)


def tick(i: float) -> Instant:
    return Instant(NOW + int(i * MINUTE))


def recurring(
    *planned: int,
    floor: float = 0,
    status: JobStatus = JobStatus.ACTIVE,
    going: tuple[RunId, ...] = (),
    counted: int | None = None,
    schedule: Schedule | None = None,
    **spec: Any,
) -> Snapshot:
    """An every-minute job with these ticks planned and waiting."""
    definition = Spec("noop", schedule or Schedule(every=MINUTE, anchor=NOW), **spec)
    job = Job(JOB, UserNumber(1), definition, b"1", NOW, NOW, version=4, status=status)
    paused = status is JobStatus.PAUSED
    held = Held.PAUSED if paused else Held.NO
    waiting = tuple(WaitingRun(occurrence_id(JOB, tick(i)), tick(i), tick(i), True, held) for i in planned)
    last = max([floor, *planned])
    cursor = Cursor(NEVER if paused else tick(last + 1), tick(last), len(planned) if counted is None else counted)
    return Snapshot(job, CLASS, cursor, waiting, going)


def one_shot(*, status: JobStatus = JobStatus.ACTIVE, started: bool = False, **spec: Any) -> Snapshot:
    job = Job(JOB, UserNumber(1), Spec("noop", Schedule(at=tick(5)), **spec), b"1", NOW, NOW, status=status)
    held = Held.PAUSED if status is JobStatus.PAUSED else Held.NO
    waiting = () if started else (WaitingRun(RunId(JOB), tick(5), tick(5), True, held),)
    return Snapshot(job, CLASS, None, waiting, started=started)


def change_spec(snap: Snapshot, now: Instant = NOW, payload: bytes | None = b"2", **fields: Any) -> JobChange:
    return edit(snap, replace(snap.job.spec, **fields), payload, CLASS, now)


def added(change: JobChange) -> list[Instant | None]:
    return [run.nominal for run in change.add]


def ledger(change: JobChange) -> list[tuple[Instant, Instant, int, str]]:
    return [(entry.first, entry.last, entry.count, entry.reason) for entry in change.ledger]


def ids(*ticks: int) -> tuple[RunId, ...]:
    return tuple(occurrence_id(JOB, tick(i)) for i in ticks)


class TestCreating:
    def test_nothing_before_now_is_owed(self) -> None:
        assert first_cursor(Schedule(every=MINUTE, anchor=Instant(NOW - HOUR)), tick(0.5)) == Cursor(tick(1), tick(0.5))

    def test_a_schedule_without_occurrences_is_refused(self) -> None:
        with pytest.raises(Invalid, match="no more occurrences"):
            first_cursor(Schedule(every=MINUTE, anchor=NOW, end_at=NOW), NOW)

    def test_the_run_of_a_one_shot_is_the_job(self) -> None:
        job = one_shot(start_within=Duration(SECOND), group="g").job
        run = only_run(job, CLASS, NOW)

        assert (run.run_id, run.job_id, run.wanted, run.payload) == (JOB, JOB, tick(5), b"1")
        assert run.spec is not None
        assert decode_spec(run.spec) == job.spec
        assert (run.expires_at, run.lanes, run.updated_at) == (tick(5) + SECOND, job.lanes, None)
        assert only_run(replace(job, spec=Spec("noop")), CLASS, NOW).wanted == NOW

    def test_a_one_shot_in_the_past_has_its_whole_time_to_start(self) -> None:
        job = one_shot(start_within=Duration(SECOND)).job

        assert only_run(job, CLASS, tick(9)).expires_at == tick(9) + SECOND

    def test_a_one_shot_in_the_past_is_late_only_from_when_it_was_asked_for(self) -> None:
        run = only_run(one_shot().job, CLASS, tick(9))

        assert (run.nominal, run.wanted) == (tick(5), tick(9))

    def test_an_edit_without_another_schedule_makes_an_overdue_one_shot_no_less_late(self) -> None:
        snap = one_shot()
        past = replace(snap.job.spec, schedule=Schedule(at=tick(6)))
        specs = replace(snap.job.spec, max_retries=9), past
        assert [edit(snap, spec, None, CLASS, tick(9)).add[0].wanted for spec in specs] == [tick(5), tick(9)]

        moved = replace(snap, job=replace(snap.job, spec=past), waiting=(replace(snap.waiting[0], wanted=tick(9)),))
        assert edit(moved, replace(past, max_retries=9), None, CLASS, tick(20)).add[0].wanted == tick(9)


class TestEditing:
    def test_planned_ticks_come_back_with_the_new_version(self) -> None:
        change = change_spec(recurring(1, 2, 3), tick(1.5), max_retries=9)

        assert change.withdraw == ids(1, 2, 3)
        assert added(change) == [tick(1), tick(2), tick(3)]
        assert {run.job_version for run in change.add} == {5}
        assert (change.ledger, change.cursor) == ((), Cursor(tick(4), tick(3), 3))
        assert change.job is not None
        assert (change.job.version, change.job.payload, change.job.updated_at) == (5, b"2", tick(1.5))

    def test_it_is_guarded_by_all_that_was_read(self) -> None:
        change = change_spec(recurring(1))

        assert (change.expect_version, change.expect_status, change.expect_floor) == (4, JobStatus.ACTIVE, tick(1))

    def test_another_schedule_replans_what_lies_ahead(self) -> None:
        every_other = Schedule(every=Duration(2 * MINUTE), anchor=NOW)
        change = change_spec(recurring(1, 2, 3, 4), tick(1.5), schedule=every_other)

        assert added(change) == [tick(1), tick(2), tick(4)]  # the first is due: it stays owed
        assert ledger(change) == [(tick(3), tick(3), 1, "edited")]
        assert change.cursor == Cursor(tick(6), tick(4), 3)

    def test_another_schedule_starts_now_and_says_what_the_old_one_left(self) -> None:
        change = change_spec(recurring(floor=0), tick(2.5), schedule=Schedule(every=HOUR, anchor=NOW))

        assert ledger(change) == [(tick(1), tick(2), 2, "edited")]
        assert change.cursor == Cursor(tick(60), tick(2.5), 0)

    def test_the_same_schedule_still_owes_what_nobody_planned_yet(self) -> None:
        change = change_spec(recurring(floor=0), tick(2.5), max_retries=9)

        assert (change.ledger, change.cursor) == ((), Cursor(tick(1), tick(0), 0))

    def test_what_is_going_keeps_its_version(self) -> None:
        snap = recurring(2, going=ids(1))
        tried = WaitingRun(ids(1)[0], tick(1), tick(1), scheduled=False)

        assert change_spec(replace(snap, waiting=(tried, *snap.waiting)), tick(1)).withdraw == ids(2)

    def test_a_paused_job_stays_paused(self) -> None:
        change = change_spec(recurring(1, 2, status=JobStatus.PAUSED))

        assert change.job is not None
        assert change.job.status is JobStatus.PAUSED
        assert change.cursor is not None
        assert change.cursor.next_at == NEVER
        assert {run.held for run in change.add} == {Held.PAUSED}

    def test_a_one_shot_is_replaced_by_itself(self) -> None:
        change = change_spec(one_shot(), schedule=Schedule(at=tick(9)))

        [run] = change.add
        assert change.withdraw == (JOB,)
        assert (run.run_id, run.wanted, run.payload, run.job_version, run.updated_at) == (JOB, tick(9), b"2", 2, NOW)
        assert (change.job, change.dissolve) == (None, False)

    def test_a_paused_one_shot_stays_paused(self) -> None:
        assert change_spec(one_shot(status=JobStatus.PAUSED)).add[0].held is Held.PAUSED

    def test_a_one_shot_that_started_cannot_be_edited(self) -> None:
        with pytest.raises(Conflict, match="has already started"):
            change_spec(one_shot(started=True))

    @pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELLED])
    def test_what_is_over_cannot_be_changed(self, status: JobStatus) -> None:
        snap = recurring(status=status)
        for decide in (change_spec, lambda snap: pause(snap, NOW), lambda snap: resume(snap, CatchUp.LAST, NOW)):
            with pytest.raises(Conflict, match=status):
                decide(snap)

    def test_recurring_to_one_shot_dissolves_the_definition(self) -> None:
        change = change_spec(recurring(1, 2), schedule=Schedule(at=tick(9)))

        assert (change.dissolve, change.withdraw, change.job, change.cursor) == (True, ids(1, 2), None, None)
        assert [(run.run_id, run.wanted, run.job_version) for run in change.add] == [(JOB, tick(9), 5)]

    def test_one_shot_to_recurring_starts_a_cursor(self) -> None:
        change = change_spec(one_shot(), schedule=Schedule(every=MINUTE, anchor=NOW))

        assert (change.withdraw, change.add, change.cursor) == ((JOB,), (), Cursor(tick(1), NOW))
        assert change.job is not None
        paused = change_spec(one_shot(status=JobStatus.PAUSED), schedule=Schedule(every=MINUTE, anchor=NOW))
        assert paused.cursor == Cursor(NEVER, NOW)

    def test_replanning_keeps_to_max_runs(self) -> None:
        dense = Schedule(every=SECOND, anchor=NOW, max_runs=5)
        change = change_spec(recurring(1, 2, 3), schedule=dense)

        assert change.cursor is not None
        assert len(change.add) == 5
        assert change.cursor.planned == 5

    def test_an_edit_to_a_schedule_that_is_over_is_refused_or_finishes_the_job(self) -> None:
        """Otherwise it stays active for ever, with nothing that would ever look at it again."""
        over = Schedule(every=MINUTE, anchor=NOW, end_at=tick(1))
        try:
            change = change_spec(recurring(floor=0), tick(5), schedule=over)
        except Invalid:
            return
        assert change.job is not None
        assert change.job.status is JobStatus.FINISHED


def test_more_than_one_edit_may_plan_anew_follow_it() -> None:
    change = change_spec(replace(recurring(1, 2), crowded=True), timeout=MINUTE)

    assert (change.crowded, change.withdraw) == (True, ())
    with pytest.raises(Conflict, match="Wait until they have run"):
        change_spec(replace(recurring(1, 2), crowded=True), schedule=Schedule(at=tick(9)))


class TestFollowing:
    """Ticks 1 and 2 were due when the job was edited, at 2.5; 3 and 4 were planned ahead."""

    @pytest.mark.parametrize(("every", "kept", "gone"), [(1, [1, 2, 3, 4], []), (2, [1, 2, 4], [3])])
    def test_what_was_due_comes_back_and_what_is_to_come_if_its_schedule_has_it(
        self, every: int, kept: list[int], gone: list[int]
    ) -> None:
        snap = recurring(1, 2, 3, 4, schedule=Schedule(every=Duration(every * MINUTE), anchor=NOW))
        job = replace(snap.job, updated_at=tick(2.5))

        found = followed(job, snap.class_id, snap.waiting, None, tick(9))

        assert sorted(run.nominal for run in found.add) == [tick(n) for n in kept]
        assert {run.job_version for run in found.add} == {job.version}
        assert [(entry.first, entry.reason) for entry in found.ledger] == [(tick(n), "edited") for n in gone]
        assert found.uncounted == 2

    def test_what_a_resume_drops_is_in_the_ledger(self) -> None:
        snap = recurring(1, 2, 3)
        old = [run for run in snap.waiting if is_outdated(replace(snap.job, version=0), run, tick(3))]

        found = followed(snap.job, snap.class_id, old, tick(3), tick(9))

        assert (found.add, found.uncounted) == ((), 2)
        assert [(entry.first, entry.reason) for entry in found.ledger] == [(tick(1), "paused"), (tick(2), "paused")]


class TestPausing:
    def test_what_was_planned_is_held_not_lost(self) -> None:
        change = pause(recurring(1, 2), NOW)

        assert change.pauses_or_resumes  # and so all that waits follows
        assert (change.withdraw, change.add) == ((), ())
        assert change.cursor == Cursor(NEVER, tick(2), 2)
        assert change.job is not None
        assert (change.job.status, change.job.version) == (JobStatus.PAUSED, 4)

    def test_a_one_shot_is_held(self) -> None:
        assert pause(one_shot(), NOW).hold == (JOB,)
        with pytest.raises(Conflict, match="has already started"):
            pause(one_shot(started=True), NOW)


class TestResuming:
    """Ticks 1 and 2 were planned before the pause; at 5.5 it ends."""

    @pytest.mark.parametrize(
        ("missed", "released", "made", "skipped"),
        [
            (CatchUp.ALL, [1, 2], [3, 4, 5], []),
            (CatchUp.LAST, [], [5], [(1, 1, 1), (2, 2, 1), (3, 4, 2)]),
            (CatchUp.SKIP, [], [], [(1, 1, 1), (2, 2, 1), (3, 5, 3)]),
        ],
    )
    def test_what_the_pause_swallowed(
        self, missed: CatchUp, released: list[int], made: list[int], skipped: list[tuple[int, int, int]]
    ) -> None:
        change = resume(recurring(1, 2, status=JobStatus.PAUSED), missed, tick(5.5))

        assert change.pauses_or_resumes
        assert set(change.withdraw) == set(ids(*{1, 2} - set(released)))
        assert added(change) == [tick(i) for i in made]
        assert ledger(change) == [(tick(first), tick(last), count, "paused") for first, last, count in skipped]
        assert change.cursor == Cursor(tick(6), tick(5.5), len(released) + len(made))
        assert change.job is not None
        assert change.job.status is JobStatus.ACTIVE

    @pytest.mark.parametrize("missed", CatchUp)
    def test_what_is_still_ahead_is_released(self, missed: CatchUp) -> None:
        change = resume(recurring(1, 2, status=JobStatus.PAUSED), missed, tick(0.5))

        assert (change.pauses_or_resumes, change.withdraw, change.add, change.ledger) == (True, (), (), ())
        assert change.cursor == Cursor(tick(3), tick(2), 2)

    def test_the_last_one_may_be_one_that_was_planned(self) -> None:
        change = resume(recurring(1, 2, status=JobStatus.PAUSED), CatchUp.LAST, tick(2.5))

        assert (change.withdraw, change.add) == (ids(1), ())
        assert ledger(change) == [(tick(1), tick(1), 1, "paused")]

    def test_the_last_one_is_the_latest_in_whatever_order_they_were_read(self) -> None:
        snap = recurring(1, 2, status=JobStatus.PAUSED)
        change = resume(replace(snap, waiting=snap.waiting[::-1]), CatchUp.LAST, tick(2.5))

        assert change.withdraw == ids(1)

    @pytest.mark.parametrize("missed", [CatchUp.LAST, CatchUp.SKIP])
    def test_more_than_one_step_may_hold_are_dropped_later(self, missed: CatchUp) -> None:
        crowded = replace(recurring(1, 2, 3, status=JobStatus.PAUSED), crowded=True)

        change = resume(crowded, missed, tick(5.5))

        last = missed is CatchUp.LAST
        assert (change.crowded, change.pauses_or_resumes, change.withdraw) == (True, True, ())
        assert change.drop_before == (tick(5) if last else tick(5.5) + 1)
        assert added(change) == ([tick(5)] if last else [])
        assert ledger(change) == [(tick(4), tick(4), 1, "paused") if last else (tick(4), tick(5), 2, "paused")]
        assert change.cursor is not None
        assert (change.cursor.floor, change.cursor.planned) == (tick(5.5), 4 if last else 3)

    def test_all_of_more_than_one_step_may_hold_are_released(self) -> None:
        crowded = replace(recurring(1, 2, 3, status=JobStatus.PAUSED), crowded=True)

        change = resume(crowded, CatchUp.ALL, tick(5.5))

        assert (change.crowded, change.pauses_or_resumes, change.withdraw) == (False, True, ())

    def test_a_one_shot_is_released(self) -> None:
        change = resume(one_shot(status=JobStatus.PAUSED), CatchUp.SKIP, tick(9))

        assert (change.release, change.withdraw) == ((JOB,), ())

    def test_too_many_to_catch_up_with_are_refused(self) -> None:
        snap = recurring(status=JobStatus.PAUSED)
        late = Instant(NOW + (MOST_AT_ONCE + 1) * MINUTE)

        with pytest.raises(Invalid, match="backfill"):
            resume(snap, CatchUp.ALL, late)
        assert len(resume(snap, CatchUp.ALL, Instant(late - MINUTE)).add) == MOST_AT_ONCE

    def test_a_year_of_seconds_is_one_line(self) -> None:
        snap = recurring(status=JobStatus.PAUSED, schedule=Schedule(every=SECOND, anchor=NOW))
        change = resume(snap, CatchUp.LAST, Instant(NOW + 365 * DAY))

        assert added(change) == [NOW + 365 * DAY]
        assert len(change.ledger) == 1
        assert change.ledger[0].reason.endswith("there were more")

    def test_catching_up_keeps_to_max_runs(self) -> None:
        limited = Schedule(every=MINUTE, anchor=NOW, max_runs=3)
        change = resume(recurring(1, status=JobStatus.PAUSED, schedule=limited), CatchUp.ALL, tick(9.5))

        assert (change.withdraw, len(change.add)) == ((), 2)

    def test_resuming_after_the_end_finishes_the_job(self) -> None:
        """Its end came during the pause. Active without a next instant, nobody would ever look at it again."""
        over = Schedule(every=MINUTE, anchor=NOW, end_at=tick(2))
        change = resume(recurring(floor=0, status=JobStatus.PAUSED, schedule=over), CatchUp.SKIP, tick(9))

        assert change.job is not None
        assert change.job.status is JobStatus.FINISHED

    def test_resuming_what_is_not_paused_skips_nothing(self) -> None:
        """A double click, or a repeat after a lost answer: the next tick may be due and not yet planned."""
        change = resume(recurring(floor=0), CatchUp.SKIP, tick(1))

        assert change.ledger == ()
        assert change.cursor is None or change.cursor.floor == tick(0)


class TestRunNow:
    def test_it_is_beside_the_schedule(self) -> None:
        run_id = RunId(UUID(int=9))
        change = run_now(recurring(1), run_id, tick(0.5))

        [run] = change.add
        assert (run.run_id, run.origin, run.wanted, run.nominal) == (run_id, run_id, tick(0.5), None)
        assert (run.trigger, run.job_version, run.spec, run.held) == (Trigger.RUN_NOW, 4, None, Held.NO)
        assert (change.cursor, change.job, change.expect_floor) == (None, None, None)

    def test_of_a_one_shot_it_carries_the_definition(self) -> None:
        snap = one_shot(started=True, status=JobStatus.FINISHED)
        [run] = run_now(snap, RunId(UUID(int=9)), NOW).add

        assert run.spec is not None
        assert (decode_spec(run.spec), run.payload, run.job_id) == (snap.job.spec, b"1", JOB)

    @pytest.mark.parametrize("overlap", Overlap)
    def test_while_busy_only_skip_refuses(self, overlap: Overlap) -> None:
        snap = recurring(going=ids(1), overlap=overlap)
        if overlap is Overlap.SKIP:
            with pytest.raises(Conflict, match="is active"):
                run_now(snap, RunId(UUID(int=9)), NOW)
        else:
            assert len(run_now(snap, RunId(UUID(int=9)), NOW).add) == 1

    def test_a_cancelled_job_is_not_run(self) -> None:
        with pytest.raises(Conflict, match="cancelled"):
            run_now(recurring(status=JobStatus.CANCELLED), RunId(UUID(int=9)), NOW)


class TestBackfill:
    def test_both_ends_belong_to_the_stretch(self) -> None:
        change = backfill(recurring(), ORIGIN, tick(10), tick(12), tick(20))

        assert added(change) == [tick(10), tick(11), tick(12)]
        assert [run.wanted for run in change.add] == [tick(20), tick(20) + 1, tick(20) + 2]
        assert {(run.trigger, run.origin) for run in change.add} == {(Trigger.BACKFILL, ORIGIN)}
        assert change.add[0].run_id == occurrence_id(JOB, tick(10), ORIGIN) != occurrence_id(JOB, tick(10))

    def test_too_long_a_stretch_is_refused(self) -> None:
        assert len(backfill(recurring(), ORIGIN, tick(1), tick(MOST_AT_ONCE), NOW).add) == MOST_AT_ONCE
        with pytest.raises(Invalid, match="shorter"):
            backfill(recurring(), ORIGIN, tick(1), tick(MOST_AT_ONCE + 1), NOW)

    def test_a_cancelled_job_is_not_backfilled(self) -> None:
        with pytest.raises(Conflict, match="cancelled"):
            backfill(recurring(status=JobStatus.CANCELLED), ORIGIN, tick(1), tick(2), tick(9))

    def test_a_one_shot_has_nothing_to_backfill_and_says_so(self) -> None:
        """Not in words about a cron expression that nobody wrote."""
        with pytest.raises((Conflict, Invalid)) as refused:
            backfill(one_shot(), ORIGIN, tick(1), tick(2), tick(9))

        assert "cron" not in str(refused.value)


def test_edits_and_planning_together_miss_and_double_nothing() -> None:
    """A job edited every few ticks, planned in between: each instant once, with the version of its time."""
    snap, seen = recurring(), []
    for i in range(20):
        now = tick(i + 0.5)
        cursor = snap.cursor
        assert cursor is not None
        made = plan(
            DueJob(JOB, UserNumber(1), snap.job.version, CLASS, snap.job.lanes, snap.job.spec, cursor),
            now,
            tick(i + 3),
        )
        new = [WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=True) for run in made.runs]
        started = [run for run in (*snap.waiting, *new) if run.wanted <= now]
        seen += [run.nominal for run in started]
        waiting = tuple(run for run in (*snap.waiting, *new) if run not in started)
        change = change_spec(replace(snap, cursor=made.cursor, waiting=waiting), now, priority=i % 3)
        again = tuple(WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=True) for run in change.add)
        assert change.job is not None
        snap = replace(snap, job=change.job, cursor=change.cursor, waiting=again)
        assert change.ledger == ()

    assert seen == [tick(i) for i in range(1, 20)]
    assert snap.cursor is not None
    assert snap.cursor.planned == 22
