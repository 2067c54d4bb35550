"""Decide what a user's action changes in a job: a snapshot in, a `JobChange` out, which an engine applies in one write.

If the job changed after the snapshot was read, the engine writes nothing; the caller reads and decides again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import islice
from uuid import UUID

import msgspec

from oncue.domain.errors import Conflict, Invalid
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, occurrence_id
from oncue.domain.instants import LONG_AGO, NEVER, Instant
from oncue.domain.job import MOST_READ, Cursor, Job, JobStatus, Snapshot, Spec, WaitingRun, encode_spec
from oncue.domain.lane import Held
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.placement import ClassKey
from oncue.domain.planning import MOST_LATE, DueJob, planned_run
from oncue.domain.policy import CatchUp, Overlap, expires_at
from oncue.domain.quota import Usage
from oncue.domain.reference import size_of
from oncue.domain.run import NewRun, Trigger
from oncue.domain.schedule import Schedule, due_at, last_occurrence, next_occurrence, occurrences, rules_of

MOST_AT_ONCE = 10_000


class JobChange(msgspec.Struct, frozen=True):
    """Everything that one action changes in one job. Applied as a whole, or not at all when a guard fails."""

    job_id: JobId
    uid: UserNumber
    # guards: what was read
    expect_version: int
    expect_status: JobStatus
    expect_floor: Instant | None = None  # None: any floor
    # the new definition and cursor; None: unchanged
    job: Job | None = None
    class_id: ClassId = ClassId(0)
    new_class: ClassKey | None = None  # what `class_id` 0 stands for, also in `add`: found or created with the change
    cursor: Cursor | None = None
    dissolve: bool = False  # delete definition and cursor: a recurring job becomes a one-shot
    # runs
    withdraw: tuple[RunId, ...] = ()  # each must still be waiting, untried, at `expect_version`
    add: tuple[NewRun, ...] = ()  # a run that exists already, in any state, is not added again
    hold: tuple[RunId, ...] = ()  # of a one-shot; each must still be waiting
    release: tuple[RunId, ...] = ()
    ledger: tuple[Entry, ...] = ()
    grows: int = 0  # bytes by which the payload grows
    # more runs wait than one change may hold: `domain.following` updates them in batches before they start
    crowded: bool = False
    drop_before: Instant | None = None  # if crowded: drop the occurrences before this one

    def adds(self, fresh: Set[RunId]) -> Usage:
        """Return what this adds to its owner's usage, if the runs in `fresh` are new."""
        by_hand = sum(run.origin is not None for run in self.add if run.run_id in fresh)
        return Usage(payload=max(0, self.grows), runs=by_hand)

    @property
    def pauses_or_resumes(self) -> bool:
        """Whether the engine has to hold or release all waiting runs: a recurring job's status applies to them all."""
        paused = JobStatus.PAUSED
        return self.job is not None and (self.job.status is paused) != (self.expect_status is paused)


def first_cursor(schedule: Schedule, now: Instant) -> Cursor:
    """Return the cursor of a new recurring job; its first occurrence is after `now`."""
    first = next_occurrence(schedule, now)
    if first is None:
        raise _never_fires()
    return Cursor(first, floor=now, rules=rules_of(schedule))


def _never_fires() -> Invalid:
    return Invalid.of("schedule", "never_fires", "the schedule has no more occurrences; check end_at and the years")


def only_run(
    job: Job, class_id: ClassId, now: Instant, held: Held = Held.NO, scheduled_at: Instant | None = None
) -> NewRun:
    """Build the run of a one-shot job. It *is* the job: it has the same id and carries the definition.

    `scheduled_at`: when the job got its schedule, if not now. An instant that was past by then is wanted from then on.
    """
    at = job.spec.schedule.at
    nominal = now if at is None else at
    run_id = RunId(job.job_id)
    wanted = max(due_at(job.spec.schedule, nominal, run_id), now if scheduled_at is None else scheduled_at)
    return NewRun(
        run_id=run_id,
        job_id=job.job_id,
        uid=job.uid,
        class_id=class_id,
        wanted=wanted,
        nominal=nominal,
        job_version=job.version,
        lanes=job.lanes,
        spec=encode_spec(job.spec),
        payload=job.payload,
        held=held,
        expires_at=expires_at(job.spec.start_within, max(wanted, now)),
        updated_at=job.updated_at if job.version > 1 else None,
    )


def edit(snap: Snapshot, spec: Spec, payload: bytes | None, class_id: ClassId, now: Instant) -> JobChange:
    """Edit every occurrence that has not started. `class_id` 0: the change finds or creates the class."""
    _still_open(snap.job)
    _understood(snap.job)
    job = msgspec.structs.replace(snap.job, spec=spec, payload=payload, version=snap.job.version + 1, updated_at=now)
    if snap.cursor is None and snap.started:
        raise Conflict("This job has already started. A job that runs once can be edited only before it starts.")
    if snap.crowded and (snap.cursor is None or not spec.schedule.recurring):
        raise Conflict(
            f"More than {MOST_READ} runs of this job wait, too many to change the kind of its schedule. "
            "Wait until they have run, or cancel this job and create another."
        )
    if not spec.schedule.recurring:
        decided = _edit_to_one_shot(snap, job, class_id, now)
    elif snap.cursor is None:
        decided = _one_shot_to_recurring(snap, job, class_id, now)
    else:
        decided = _edit_recurring(snap, snap.cursor, job, class_id, now)
    grows = size_of(payload) - size_of(snap.job.payload)
    return msgspec.structs.replace(decided, grows=grows, new_class=None if class_id else spec.class_key)


def classed(change: JobChange, class_id: ClassId) -> JobChange:
    """Fill in the number of the class."""
    add = tuple(msgspec.structs.replace(run, class_id=class_id) for run in change.add)
    return msgspec.structs.replace(change, class_id=class_id, new_class=None, add=add)


def _edit_to_one_shot(snap: Snapshot, job: Job, class_id: ClassId, now: Instant) -> JobChange:
    held = Held.PAUSED if job.status is JobStatus.PAUSED else Held.NO
    scheduled_at = now
    if job.spec.schedule == snap.job.spec.schedule:
        scheduled_at = next((run.wanted for run in snap.waiting if run.run_id == job.job_id), now)
    return _change(
        snap,
        dissolve=snap.cursor is not None,
        withdraw=_untried(snap.waiting),
        add=(only_run(job, class_id, now, held, scheduled_at),),
    )


def _one_shot_to_recurring(snap: Snapshot, job: Job, class_id: ClassId, now: Instant) -> JobChange:
    cursor = first_cursor(job.spec.schedule, now)
    if job.status is JobStatus.PAUSED:
        cursor = msgspec.structs.replace(cursor, next_at=NEVER)
    return _change(snap, job=job, class_id=class_id, cursor=cursor, withdraw=_untried(snap.waiting))


def _edit_recurring(snap: Snapshot, cursor: Cursor, job: Job, class_id: ClassId, now: Instant) -> JobChange:
    """Withdraw the planned runs. Those already due are added under the new version; the others are planned again."""
    schedule = job.spec.schedule
    owed = [] if snap.crowded else [run for run in snap.waiting if run.scheduled]
    planned = cursor.planned - len(owed)
    overdue = [run.nominal for run in owed if run.nominal is not None and run.nominal <= now]
    replanned = islice(occurrences(schedule, now, cursor.floor), MOST_LATE)
    wanted = [*overdue, *replanned][: _room(schedule, planned)]
    gone = [run.nominal for run in owed if run.nominal is not None and run.nominal not in wanted]
    ledger = tuple(skipped(job, [at], "edited") for at in gone)
    floor = cursor.floor
    if schedule != snap.job.spec.schedule and floor < now:
        ledger += _passed_over(snap.job, floor, now, "edited")
        floor = now
    after = _cursor(schedule, floor, planned + len(wanted))
    if after.next_at == NEVER and not wanted and schedule != snap.job.spec.schedule:
        raise _never_fires()
    return _change(
        snap,
        job=job if job.status is JobStatus.PAUSED else _active(job, after),
        class_id=class_id,
        cursor=msgspec.structs.replace(after, next_at=NEVER) if job.status is JobStatus.PAUSED else after,
        withdraw=tuple(run.run_id for run in owed),
        add=runs_at(job, class_id, wanted, now),
        ledger=ledger,
        crowded=snap.crowded,
    )


def pause(snap: Snapshot, now: Instant) -> JobChange:
    """Pause a job: no planned run starts until the job is resumed. Planned runs are held, not lost."""
    _still_open(snap.job)
    if snap.cursor is None:
        if snap.started:
            raise Conflict("This job has already started. To stop it, cancel its run.")
        return _change(snap, hold=tuple(run.run_id for run in snap.waiting))
    return _change(
        snap,
        job=msgspec.structs.replace(snap.job, status=JobStatus.PAUSED, updated_at=now),
        cursor=msgspec.structs.replace(snap.cursor, next_at=NEVER),
    )


def resume(snap: Snapshot, missed: CatchUp, now: Instant) -> JobChange:
    """Resume a job from now on; `missed` decides which occurrences of the pause still run."""
    _still_open(snap.job)
    if snap.job.status is not JobStatus.PAUSED:
        return _unguarded_by_cursor(snap)
    _understood(snap.job)
    if snap.cursor is None:
        return _change(snap, release=tuple(run.run_id for run in snap.waiting if Held.PAUSED in run.held))
    schedule = snap.job.spec.schedule
    swallowed = [run for run in snap.waiting if run.scheduled and run.nominal is not None and run.nominal <= now]
    if snap.crowded and missed is not CatchUp.ALL:
        return _resume_crowded(snap, snap.cursor, missed, now)
    kept, ledger = _make_up(snap.job, snap.cursor, swallowed, missed, now)
    dropped = {run.run_id for run in swallowed if run.nominal not in kept}
    standing = {run.nominal for run in swallowed}
    planned = snap.cursor.planned - len(dropped)
    wanted = [at for at in kept if at not in standing][: _room(schedule, planned)]
    cursor = _cursor(schedule, max(snap.cursor.floor, now), planned + len(wanted))
    active = _active(msgspec.structs.replace(snap.job, updated_at=now), cursor)
    return _change(
        snap,
        job=active,
        cursor=cursor,
        withdraw=tuple(dropped),
        add=runs_at(active, snap.class_id, wanted, now, Trigger.CATCH_UP),
        ledger=ledger,
    )


def _resume_crowded(snap: Snapshot, cursor: Cursor, missed: CatchUp, now: Instant) -> JobChange:
    """Resume a job with too many waiting runs: planned ones are dropped in batches, at most one missed one is added."""
    schedule = snap.job.spec.schedule
    last = last_occurrence(schedule, LONG_AGO, now) if missed is CatchUp.LAST else None
    wanted = [last] if last is not None and last > cursor.floor else []
    wanted = wanted[: _room(schedule, cursor.planned)]
    after = _cursor(schedule, max(cursor.floor, now), cursor.planned + len(wanted))
    active = _active(msgspec.structs.replace(snap.job, updated_at=now), after)
    return _change(
        snap,
        job=active,
        cursor=after,
        add=runs_at(active, snap.class_id, wanted, now, Trigger.CATCH_UP),
        ledger=_passed_over(snap.job, cursor.floor, now, "paused", but=wanted),
        crowded=True,
        drop_before=Instant(now + 1) if last is None else last,
    )


def _room(schedule: Schedule, planned: int) -> int | None:
    """Return how many runs `max_runs` still allows; None: no limit."""
    return None if schedule.max_runs is None else max(0, schedule.max_runs - planned)


def _cursor(schedule: Schedule, floor: Instant, planned: int) -> Cursor:
    next_at = None if _room(schedule, planned) == 0 else next_occurrence(schedule, floor)
    return Cursor(NEVER if next_at is None else next_at, floor, planned, rules_of(schedule))


def _active(job: Job, cursor: Cursor) -> Job:
    """Set the status: active if an occurrence follows, else finished, as the planner does."""
    return msgspec.structs.replace(job, status=JobStatus.FINISHED if cursor.next_at == NEVER else JobStatus.ACTIVE)


def _make_up(
    job: Job, cursor: Cursor, swallowed: list[WaitingRun], missed: CatchUp, now: Instant
) -> tuple[list[Instant], tuple[Entry, ...]]:
    """Return the missed instants that still run, and ledger entries for the others."""
    planned = sorted(run.nominal for run in swallowed if run.nominal is not None)
    schedule = job.spec.schedule
    match missed:
        case CatchUp.ALL:
            unplanned = list(islice(occurrences(schedule, cursor.floor, now), MOST_AT_ONCE + 1))
            if len(unplanned) > MOST_AT_ONCE:
                raise Invalid.of(
                    "missed",
                    "too_many",
                    f"more than {MOST_AT_ONCE} occurrences were missed; resume with last or skip, then backfill",
                )
            return planned + unplanned, ()
        case CatchUp.LAST:
            last = last_occurrence(schedule, cursor.floor, now)
            kept = planned[-1:] if last is None else [last]
        case CatchUp.SKIP:
            kept = []
    ledger = tuple(skipped(job, [at], "paused") for at in planned if at not in kept)
    return kept, ledger + _passed_over(job, cursor.floor, now, "paused", but=kept)


def run_now(snap: Snapshot, run_id: RunId, now: Instant, own: tuple[Spec, bytes | None] | None = None) -> JobChange:
    """Add a run that is due now. It neither moves the cursor nor counts towards `max_runs`, but obeys the lane.

    `own`: a definition and a payload for this run alone, which it carries.
    """
    if snap.job.status is JobStatus.CANCELLED:
        raise Conflict("This job is cancelled.")
    _understood(snap.job)
    if snap.going and snap.job.spec.overlap is Overlap.SKIP:
        raise Conflict("A run of this job is active, and its overlap policy is skip. Wait until that run has ended.")
    run = _extra_run(snap, run_id, run_id, None, now, Trigger.RUN_NOW)
    if own is not None:
        run = msgspec.structs.replace(run, spec=encode_spec(own[0]), payload=own[1])
    return _unguarded_by_cursor(snap, (run,))


def backfill(snap: Snapshot, origin: UUID, after: Instant, until: Instant, now: Instant) -> JobChange:
    """Add runs for the occurrences in [after, until], due now, in nominal order. Ignores `start_at`."""
    _still_open(snap.job)
    _understood(snap.job)
    if not snap.job.spec.schedule.recurring:
        raise Conflict("This job runs once and has no past occurrences. Run it now instead.")
    schedule = msgspec.structs.replace(snap.job.spec.schedule, start_at=None)
    found = list(islice(occurrences(schedule, Instant(after - 1), until), MOST_AT_ONCE + 1))
    if len(found) > MOST_AT_ONCE:
        raise Invalid.of(
            "to", "too_many", f"the time range has more than {MOST_AT_ONCE} occurrences; choose a shorter one"
        )
    add = tuple(
        _extra_run(snap, occurrence_id(snap.job.job_id, at, origin), origin, at, Instant(now + i), Trigger.BACKFILL)
        for i, at in enumerate(found)
    )
    return _unguarded_by_cursor(snap, add)


def _extra_run(
    snap: Snapshot,
    run_id: RunId,
    origin: UUID,
    nominal: Instant | None,
    wanted: Instant,
    trigger: Trigger,
) -> NewRun:
    job, inline = snap.job, snap.cursor is None
    return NewRun(
        run_id=run_id,
        job_id=job.job_id,
        uid=job.uid,
        class_id=snap.class_id,
        wanted=wanted,
        nominal=nominal,
        job_version=job.version,
        origin=origin,
        trigger=trigger,
        lanes=job.lanes,
        spec=encode_spec(job.spec) if inline else None,
        payload=job.payload if inline else None,
        expires_at=expires_at(job.spec.start_within, wanted),
    )


def _still_open(job: Job) -> None:
    if job.status in (JobStatus.FINISHED, JobStatus.CANCELLED):
        raise Conflict(f"This job is {job.status}.")


def _understood(job: Job) -> None:
    """Refuse a job with unreadable values in known fields: they may decide about runs. New fields are kept as is."""
    if unread := job.spec.not_understood:
        fields = ", ".join(unread)
        raise Conflict(f"A newer oncue defined this job; this server cannot read its {fields}. Upgrade this server.")


def _untried(waiting: tuple[WaitingRun, ...]) -> tuple[RunId, ...]:
    return tuple(run.run_id for run in waiting if run.scheduled)


def runs_at(
    job: Job, class_id: ClassId, at: list[Instant], now: Instant, trigger: Trigger = Trigger.SCHEDULE
) -> tuple[NewRun, ...]:
    due = DueJob(job.job_id, job.uid, job.version, class_id, job.lanes, job.spec, Cursor(NEVER, NEVER))
    held = Held.PAUSED if job.status is JobStatus.PAUSED and trigger is Trigger.SCHEDULE else Held.NO
    return tuple(msgspec.structs.replace(planned_run(due, nominal, now, trigger), held=held) for nominal in at)


def skipped(job: Job, at: list[Instant], reason: str) -> Entry:
    return Entry(job.job_id, at[0], at[-1], len(at), Outcome.SKIPPED, reason)


def given_up(job: Job, cursor: Cursor, now: Instant) -> tuple[Entry, ...]:
    """Return what the ledger says of occurrences that are due and not planned when the job is cancelled."""
    if job.status in (JobStatus.FINISHED, JobStatus.CANCELLED) or job.spec.not_understood:
        return ()
    return _passed_over(job, cursor.floor, now, "cancelled", most=_room(job.spec.schedule, cursor.planned))


def _passed_over(
    job: Job, after: Instant, until: Instant, reason: str, but: Sequence[Instant] = (), most: int | None = None
) -> tuple[Entry, ...]:
    """Write one ledger row for the occurrences in (after, until]; the count is exact up to a thousand."""
    seen = list(islice(occurrences(job.spec.schedule, after, until), MOST_LATE + 1))[:most]
    if len(seen) > MOST_LATE:
        return (Entry(job.job_id, seen[0], until, len(seen), Outcome.SKIPPED, f"{reason}; there were more"),)
    rest = [at for at in seen if at not in but]
    return (skipped(job, rest, reason),) if rest else ()


def _change(snap: Snapshot, **parts: object) -> JobChange:
    """Build a change that is guarded by everything in the snapshot."""
    return msgspec.structs.replace(
        _unguarded_by_cursor(snap), expect_floor=snap.cursor.floor if snap.cursor else None, **parts
    )


def _unguarded_by_cursor(snap: Snapshot, add: tuple[NewRun, ...] = ()) -> JobChange:
    """Build a change that leaves definition and cursor alone, so that concurrent planning is no conflict."""
    return JobChange(snap.job.job_id, snap.job.uid, snap.job.version, snap.job.status, class_id=snap.class_id, add=add)
