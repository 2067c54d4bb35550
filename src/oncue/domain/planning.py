"""Plan a due job: decide which occurrences become runs, which go to the ledger, and how the cursor moves.

Pure and bounded: one call examines at most a few thousand occurrences and creates a few hundred runs; the next call
does the rest. So neither an hour's outage nor a clock that jumps to the year 2200 makes one call expensive.
"""

from __future__ import annotations

from itertools import islice
from typing import assert_never

import msgspec

from oncue.domain.cron import DstGap
from oncue.domain.cron.text import skipped_between, swallowed
from oncue.domain.ids import SCHEDULE, ClassId, JobId, RunId, UserNumber, occurrence_id
from oncue.domain.instants import MICROSECOND, NEVER, SECOND, Duration, Instant
from oncue.domain.job import Cursor, Spec
from oncue.domain.lane import Lanes
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.policy import CatchUp, expires_at
from oncue.domain.run import NewRun, Trigger
from oncue.domain.schedule import cron_of, due_at, next_occurrence, occurrences, rules_of
from oncue.domain.zones import PACKAGED, Rules, zone

GRACE = Duration(2 * SECOND)  # an occurrence planned later than this after its instant counts as missed
MOST_LATE = 1_000  # late occurrences to catch up with at a time: the newest
MOST_RUNS = 250  # new runs of one job per step; the rest follows in the next step, after other jobs
PLANNED_AT_ONCE = 1_000  # runs in one transaction: from here on it plans no further job


class DueJob(msgspec.Struct, frozen=True):
    """A recurring job whose next instant is near, as the scheduler reads it under its lock."""

    job_id: JobId
    uid: UserNumber
    version: int
    class_id: ClassId
    lanes: Lanes
    spec: Spec
    cursor: Cursor


class Plan(msgspec.Struct, frozen=True):
    """The result of planning one job. `finished`: its schedule has no more occurrences."""

    job: DueJob
    runs: tuple[NewRun, ...]
    cursor: Cursor
    ledger: tuple[Entry, ...] = ()
    finished: bool = False
    notices: tuple[NewRun, ...] = ()  # to store with the runs; the engine finds their class


def plan(job: DueJob, now: Instant, until: Instant, rules: Rules = PACKAGED) -> Plan:
    """Decide about every occurrence in (floor, until]; if there are many, about the first ones.

    Also for a job that is not due but whose cursor follows other time-zone rules: then only the cursor changes;
    occurrences that these rules move into the past count as late.
    """
    schedule, cursor = job.spec.schedule, job.cursor
    floor, ledger = _give_up_on_old(job, now, rules)
    found = list(islice(occurrences(schedule, floor, until, rules), 2 * MOST_LATE))
    late = [at for at in found if is_late(at, now)]
    if len(late) == 2 * MOST_LATE:  # more follow: the newest of these may run, and are left for the next call
        found = late = late[: -MOST_LATE if job.spec.catch_up is CatchUp.ALL else -1]
        caught_up: list[Instant] = []
    else:
        caught_up = _caught_up(job.spec.catch_up, late)
    ledger += _not_caught_up(job, late[: len(late) - len(caught_up)], caught_up)
    left = None if schedule.max_runs is None else max(0, schedule.max_runs - cursor.planned)
    wanted = (caught_up + found[len(late) :])[:left]
    if len(wanted) > MOST_RUNS:  # the next call finds the later ones again
        wanted = wanted[:MOST_RUNS]
        found = [at for at in found if at <= wanted[-1]]
    floor = max([cursor.floor, floor, *found[-1:]])
    ledger += _lost_to_the_clock(job, found, floor, rules)
    next_at = None if left == len(wanted) else next_occurrence(schedule, floor, rules)
    planned = cursor.planned + len(wanted)
    after = Cursor(NEVER if next_at is None else next_at, floor, planned, rules_of(schedule, rules))
    runs = tuple(planned_run(job, at, now, _asked_by(at, now)) for at in wanted)
    return Plan(job, runs, after, ledger, finished=next_at is None)


def is_late(at: Instant, now: Instant) -> bool:
    return at < now - GRACE


def planned_run(job: DueJob, nominal: Instant, now: Instant, trigger: Trigger = Trigger.SCHEDULE) -> NewRun:
    run_id = occurrence_id(job.job_id, nominal, SCHEDULE)
    wanted = due_at(job.spec.schedule, nominal, run_id)
    return NewRun(
        run_id=run_id,
        job_id=job.job_id,
        uid=job.uid,
        class_id=job.class_id,
        wanted=wanted,
        nominal=nominal,
        job_version=job.version,
        trigger=trigger,
        lanes=job.lanes,
        expires_at=expires_at(job.spec.start_within, max(wanted, now)),
    )


def _give_up_on_old(job: DueJob, now: Instant, rules: Rules) -> tuple[Instant, tuple[Entry, ...]]:
    """Skip all occurrences older than the catch-up window in one step, however long planning has stopped."""
    oldest, floor = Instant(now - job.spec.catch_up_window), job.cursor.floor
    seen = list(islice(occurrences(job.spec.schedule, floor, Instant(oldest - MICROSECOND), rules), MOST_LATE + 1))
    if not seen:
        return floor, ()
    if len(seen) <= MOST_LATE:
        return seen[-1], (_entry(job, seen, Outcome.MISSED, "older than catch_up_window"),)
    many = Entry(
        job.job_id,
        seen[0],
        Instant(oldest - MICROSECOND),
        len(seen),
        Outcome.MISSED,
        "older than catch_up_window; there were more",
    )
    return many.last, (many,)


def _asked_by(at: Instant, now: Instant) -> Trigger:
    return Trigger.CATCH_UP if is_late(at, now) else Trigger.SCHEDULE


def _caught_up(policy: CatchUp, late: list[Instant]) -> list[Instant]:
    """Return the late occurrences that still run."""
    match policy:
        case CatchUp.ALL:
            return late[-MOST_LATE:]
        case CatchUp.LAST:
            return late[-1:]
        case CatchUp.SKIP:
            return []
        case _:
            assert_never(policy)


def _not_caught_up(job: DueJob, dropped: list[Instant], caught_up: list[Instant]) -> tuple[Entry, ...]:
    if not dropped:
        return ()
    if job.spec.catch_up is CatchUp.LAST:
        into = occurrence_id(job.job_id, caught_up[0]) if caught_up else None
        return (_entry(job, dropped, Outcome.COALESCED, "catch_up is last", into),)
    why = "catch_up is skip" if job.spec.catch_up is CatchUp.SKIP else f"more than {MOST_LATE} were missed"
    return (_entry(job, dropped, Outcome.MISSED, why),)


def _lost_to_the_clock(job: DueJob, found: list[Instant], floor: Instant, rules: Rules) -> tuple[Entry, ...]:
    """Return entries for nominal times that a forward clock change removed: skipped, or coalesced into one run."""
    schedule = job.spec.schedule
    if rules_of(schedule) is None:
        return ()
    cron, here = cron_of(schedule), zone(schedule.timezone, rules=rules)
    if schedule.dst_gap is DstGap.SKIP:
        gaps = skipped_between(cron, here, job.cursor.floor, floor)
        return tuple(Entry(job.job_id, gap.at, gap.at, gap.count, Outcome.SKIPPED, gap.note) for gap in gaps)
    counted = ((at, swallowed(cron, here, at)) for at in found)
    return tuple(
        Entry(job.job_id, at, at, n, Outcome.COALESCED, "clocks went forward", occurrence_id(job.job_id, at))
        for at, n in counted
        if n
    )


def _entry(job: DueJob, at: list[Instant], outcome: Outcome, reason: str, run_id: RunId | None = None) -> Entry:
    return Entry(job.job_id, at[0], at[-1], len(at), outcome, reason, run_id)
