"""Decide who is told of what happened to a run. A notice is itself a run, of the built-in task `notify`.

Notices carry their own definition, which has no `notify`: nobody is told of a notice, so none leads to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from oncue.domain.ids import NO_CLASS, NOTICES, JobId, RunId, UserNumber, notice_id
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Rate, Spec, encode_spec
from oncue.domain.ledger import Outcome
from oncue.domain.notify import NO_DEFAULT, STREAK_EVENTS, Entry, Event, NotifyDefault
from oncue.domain.placement import NOTIFY, SYSTEM_QUEUE
from oncue.domain.planning import Plan
from oncue.domain.policy import Retry
from oncue.domain.run import (
    NO_STREAK,
    Claimed,
    NewRun,
    Notice,
    Notices,
    RunView,
    Settlement,
    State,
    Step,
    Streak,
)

PER_MINUTE = 20  # messages to one target
LONGEST_ERROR = 500  # characters
MOST_WAITING = 10_000  # notices of one user; later ones are dropped
TIMEOUT = Duration(60 * SECOND)  # of an attempt; sending alone has 20 s
WEBHOOK_RETRY = (12, Retry(Duration(5 * SECOND), 6.0, Duration(8 * HOUR)))
OTHER_RETRY = (10, Retry(Duration(10 * SECOND), 3.0, HOUR))
_LATE = -1  # in place of a token: told once a run
_TEST = -2

_FAILED = (Event.DEAD, Event.FAILED, Event.FAILING)  # of a run that ends without success: the first that is asked for


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a notice tells: the payload of its run. Instants as stored; who sends it shows them."""

    event: Event
    entry: Entry
    job_id: JobId
    run_id: RunId
    task: str
    status: str
    name: str | None = None
    scheduled_for: Instant | None = None
    start_time: Instant | None = None
    end_time: Instant | None = None
    attempt_number: int = 0
    lag_ms: int | None = None
    error_type: str | None = None
    error_message: str | None = None
    streak: Streak | None = None
    missed: int = 0  # occurrences that had no run
    notice_id: RunId | None = None  # of this notice, in whichever message it is sent; None: an older release made it


_encode = msgspec.json.Encoder().encode
read_told = msgspec.json.Decoder(Told).decode


def entries_of(spec: Spec, default: NotifyDefault) -> tuple[Entry, ...]:
    return default.entries if spec.notify is None else spec.notify


def notices(
    run: Claimed, spec: Spec, settlement: Settlement, default: NotifyDefault = NO_DEFAULT, rate: int = PER_MINUTE
) -> Notices | None:
    """Return what is to be told of this end of an attempt, and under which condition. None: nothing, whatever was."""
    entries = entries_of(spec, default)
    failed = settlement.failures > run.failures
    if not entries or run.job_id == NOTICES or settlement.state is State.CANCELLED:
        return None
    if settlement.state is State.WAITING and not failed:
        return None
    alone = not spec.schedule.recurring
    step = None if alone or not any(STREAK_EVENTS & set(entry.on) for entry in entries) else _step(settlement)
    made: list[Notice] = []
    if default.muted_until is None or settlement.ended_at >= default.muted_until:
        told = _told(run, spec, settlement)
        for place, entry in enumerate(entries):
            for event, least, most in _events(entry, settlement, failures=run.failures, alone=alone):
                what = replace(told, event=event, entry=entry)
                made.append(Notice(_run(run.uid, what, run.token, place, settlement.ended_at, rate), least, most))
    return Notices(step, tuple(made)) if made or step is not None else None


def _step(settlement: Settlement) -> Step:
    match settlement.state:
        case State.SUCCEEDED:
            return Step.OVER
        case State.WAITING:
            return Step.FAILED
        case _:
            return Step.ENDED


Condition = tuple[Event, int, int]
_MANY = 1 << 31


def _events(entry: Entry, settlement: Settlement, *, failures: int, alone: bool) -> Iterable[Condition]:
    """Return what this entry is told, with the bounds of the streak before. A one-shot is its own streak."""
    on = set(entry.on)
    if settlement.state is State.SUCCEEDED:
        over = 0 if Event.FAILING in on else 1
        if alone:
            recovered = Event.RECOVERED in on and not over and failures > 0
            ended = Event.RECOVERED if recovered else Event.SUCCEEDED
            return [(ended, NO_STREAK, _MANY)] if ended in on else []
        found = [(Event.RECOVERED, over, _MANY)] if Event.RECOVERED in on else []
        most = over - 1 if found else _MANY
        return [*found, (Event.SUCCEEDED, NO_STREAK, most)] if Event.SUCCEEDED in on else found
    if settlement.state is State.WAITING:
        first = not alone or failures == 0
        return [(Event.FAILING, NO_STREAK, _MANY if alone else NO_STREAK)] if Event.FAILING in on and first else []
    event = next((one for one in _FAILED if one in on), None)
    if event is None or (alone and event is Event.FAILING and failures > 0):
        return []
    most = _MANY if alone or event is Event.DEAD else 0 if event is Event.FAILED else NO_STREAK
    return [(event, NO_STREAK, most)]


def _told(run: Claimed, spec: Spec, settlement: Settlement) -> Told:
    error = settlement.error
    started_at = settlement.started_at
    return Told(
        event=Event.DEAD,
        entry=Entry(()),
        job_id=run.job_id,
        run_id=run.run_id,
        task=spec.task,
        status="retrying" if settlement.state is State.WAITING else settlement.state.name.lower(),
        name=spec.name,
        scheduled_for=run.wanted if run.nominal is None else run.nominal,
        start_time=started_at,
        end_time=settlement.ended_at,
        attempt_number=0 if started_at is None else run.attempt,
        lag_ms=None if started_at is None else max(0, started_at - run.eligible) // MILLISECOND,
        error_type=settlement.error_type,
        error_message=None if error is None else error[:LONGEST_ERROR],
    )


def _run(uid: UserNumber, told: Told, token: int, place: int, at: Instant, rate: int) -> NewRun:
    """Build the run of a notice. The number of its class is the engine's to find."""
    entry = told.entry
    max_retries, retry = WEBHOOK_RETRY if entry.webhook is not None else OTHER_RETRY
    spec = Spec(
        task=NOTIFY,
        queue=SYSTEM_QUEUE,
        max_retries=max_retries,
        retry=retry,
        timeout=TIMEOUT,
        rate=Rate(1, Duration(MINUTE // rate), f"{NOTIFY} {entry.target}"),  # evenly: each takes along what waits
    )
    made = notice_id(told.run_id, token, place, at)
    return NewRun(
        run_id=made,
        job_id=NOTICES,
        uid=uid,
        class_id=NO_CLASS,
        wanted=at,
        nominal=at,
        lanes=spec.lanes(uid, NOTICES),
        spec=encode_spec(spec),
        payload=_encode(replace(told, notice_id=made)),
    )


def trial_notice(uid: UserNumber, entry: Entry, run_id: RunId, now: Instant, rate: int = PER_MINUTE) -> NewRun:
    """Build a notice that tells only that it arrives. `run_id` is a new id, of no run."""
    told = Told(Event.TEST, entry, JobId(run_id), run_id, NOTIFY, "test", scheduled_for=now)
    return _run(uid, told, _TEST, 0, now, rate)


def muted_notices(
    run: Claimed, told: Told, shown: str, default: NotifyDefault, now: Instant, rate: int = PER_MINUTE
) -> list[NewRun]:
    """Build the notices that tell a user's other targets, each once, that this notice's target is muted."""
    others = {entry.target: entry for entry in default.entries if entry.target != told.entry.target}
    plain = Told(Event.MUTED, Entry(()), JobId(run.run_id), run.run_id, NOTIFY, "muted", name=shown)
    return [
        _run(run.uid, replace(plain, entry=entry), _TEST, place, now, rate)
        for place, entry in enumerate(others.values())
    ]


# ------------------------------------------------------------------------------------------------------- in the engine


def fold(
    settled: Iterable[Settlement], streaks: Mapping[JobId, Streak]
) -> tuple[list[NewRun], dict[JobId, Streak | None]]:
    """Return the notices to insert and the streaks to write (None: it is over), given the streaks before."""
    made: list[NewRun] = []
    after: dict[JobId, Streak | None] = {}
    for one in sorted(settled, key=lambda one: (one.ended_at, one.run.run_id)):
        if one.notices is None:
            continue
        job_id, step = one.run.job_id, one.notices.step
        before = after[job_id] if job_id in after else streaks.get(job_id)
        runs = NO_STREAK if before is None else before.runs
        now = before if step is None else _stepped(before, step, one.ended_at)
        shown = before if step is Step.OVER else now
        made += [
            _with_streak(notice.run, shown) for notice in one.notices.notices if notice.least <= runs <= notice.most
        ]
        if now != before:
            after[job_id] = now
    return made, after


def _stepped(before: Streak | None, step: Step, at: Instant) -> Streak | None:
    match step:
        case Step.OVER:
            return None
        case Step.FAILED:
            return before or Streak(at)
        case Step.ENDED:
            return Streak(at, 1) if before is None else Streak(before.since, before.runs + 1)


def _with_streak(run: NewRun, streak: Streak | None) -> NewRun:
    if streak is None or run.payload is None:
        return run
    return replace(run, payload=_encode(replace(read_told(run.payload), streak=streak)))


# ---------------------------------------------------------------------------------------------------------------- late


def watches(spec: Spec, default: NotifyDefault = NO_DEFAULT) -> bool:
    return any(Event.LATE in entry.on for entry in entries_of(spec, default))


def late_notices(
    run: NewRun, spec: Spec, default: NotifyDefault = NO_DEFAULT, rate: int = PER_MINUTE
) -> tuple[NewRun, ...]:
    """Return notices to plan with a run: each looks, once the run should have started, and tells if it has not."""
    late = [(place, entry) for place, entry in enumerate(entries_of(spec, default)) if Event.LATE in entry.on]
    if not late:
        return ()
    told = _of_late(run.job_id, run.run_id, spec, run.wanted if run.nominal is None else run.nominal)
    return tuple(
        _run(run.uid, replace(told, entry=entry), _LATE, place, Instant(run.wanted + entry.late_after), rate)
        for place, entry in late
    )


def missed_notices(
    plan: Plan, now: Instant, default: NotifyDefault = NO_DEFAULT, rate: int = PER_MINUTE
) -> tuple[NewRun, ...]:
    """Return notices of occurrences that were missed: one for each entry of the ledger."""
    job = plan.job
    if default.muted_until is not None and now < default.muted_until:
        return ()
    made: list[NewRun] = []
    for line in plan.ledger:
        if line.outcome is not Outcome.MISSED:
            continue
        told = replace(_of_late(job.job_id, RunId(job.job_id), job.spec, line.last), missed=line.count, status="missed")
        made += [
            _run(job.uid, replace(told, entry=entry), line.last, place, now, rate)
            for place, entry in enumerate(entries_of(job.spec, default))
            if Event.LATE in entry.on
        ]
    return tuple(made)


def with_notices(plan: Plan, now: Instant, default: NotifyDefault = NO_DEFAULT, rate: int = PER_MINUTE) -> Plan:
    """Return the plan with the notices that go with its runs and its missed occurrences."""
    if not watches(plan.job.spec, default):
        return plan
    late = [notice for run in plan.runs for notice in late_notices(run, plan.job.spec, default, rate)]
    return replace(plan, notices=(*late, *missed_notices(plan, now, default, rate)))


def _of_late(job_id: JobId, run_id: RunId, spec: Spec, scheduled_for: Instant) -> Told:
    return Told(Event.LATE, Entry(()), job_id, run_id, spec.task, "late", name=spec.name, scheduled_for=scheduled_for)


def late_now(told: Told, run: RunView | None, now: Instant) -> Instant | None:
    """Look whether a run is late. Returns when to tell of it: now or earlier, or when to look again; None: never."""
    if told.missed:
        return now
    if run is None or run.state is not State.WAITING or run.failures or run.losses or run.attempts is not None:
        return None
    return Instant(run.wanted + told.entry.late_after)
