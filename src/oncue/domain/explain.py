"""Explain why a job or a run has or has not run: one reason, what it waits for, and what to do.

When several reasons hold, the first in the order of `Reason` is given: those that need an action come first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

import msgspec

from oncue.domain.ids import RunId
from oncue.domain.instants import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    NEVER,
    SECOND,
    Duration,
    Instant,
    rfc3339,
    show_duration,
)
from oncue.domain.job import JobStatus, Snapshot, Spec, decode_spec
from oncue.domain.lane import Held
from oncue.domain.missing_workers import Offered, no_worker_for
from oncue.domain.placement import ClassKey, Mismatch
from oncue.domain.policy import OnLost
from oncue.domain.run import RunView, State, Status, read_attempts, shown

STOPS_WITHIN = Duration(5 * SECOND)  # of its stop signal, by default 1.5 s; after that a function counts as stuck
MOST_COUNTED = 10_000  # engines count the runs before a run only up to here


class Reason(StrEnum):
    """In the order of checking; the first that holds is given."""

    FINISHED = "finished"
    RUNNING = "running"
    WORKER_LOST = "worker_lost"
    PAUSED = "paused"
    QUEUE_PAUSED = "queue_paused"
    NOT_DUE = "not_due"
    OVERLAP = "overlap"
    GROUP = "group"
    CONCURRENCY = "concurrency"
    RATE = "rate"
    NO_WORKER = "no_worker"
    NO_LABELS = "no_labels"
    TOO_BIG = "too_big"
    NO_CAPACITY = "no_capacity"


REASONS = {
    Mismatch.NO_TASK: Reason.NO_WORKER,
    Mismatch.NO_QUEUE: Reason.NO_WORKER,
    Mismatch.NO_LABELS: Reason.NO_LABELS,
    Mismatch.TOO_BIG: Reason.TOO_BIG,
}


class Explanation(msgspec.Struct, frozen=True):
    """One reason in words. `position` is the place in line, 1 for the next; `holder` is the run that blocks it; `until`
    is when it is over, if that is known.
    """

    state: str
    reason: Reason
    detail: str
    holder: RunId | None = None
    position: int | None = None
    until: str | None = None


class RunDiagnosis(msgspec.Struct, frozen=True):
    """A run, and what an engine knows of its surroundings."""

    run: RunView
    holder: RunId | None = None  # the first run that blocks it: in its serial lane, else at its gate
    place: int | None = None  # how many wait before it: for the lane or the gate that holds it, else among the due
    beat_at: Instant | None = None  # last heartbeat of the worker that runs it; None: that worker is gone
    lease: Duration | None = None


# --------------------------------------------------------------------------------------------------------------- a run


def explain(
    standing: RunDiagnosis,
    key: ClassKey,
    workers: Sequence[Offered],
    now: Instant,
    *,
    paused_queues: Collection[str] = (),
    holder: RunView | None = None,
) -> Explanation:
    """Explain one run. `key` is its class; `holder` is the run that `standing` names, if it can still be read."""
    run = standing.run
    state = _state(run, now)
    if run.state.final:
        return Explanation(state, Reason.FINISHED, _ended(run))
    if run.state is State.RUNNING:
        return _running(standing, state, now)
    if run.held & Held.PAUSED:
        return Explanation(state, Reason.PAUSED, _JOB_IS_PAUSED)
    if key.queue in paused_queues:
        return Explanation(state, Reason.QUEUE_PAUSED, _queue_is_paused(key.queue))
    spec = _spec(run)
    if run.due > now:
        return _to_come(run, spec, state, now)
    if run.held & (Held.LANE | Held.GATE):
        known = holder is not None and holder.run_id == standing.holder
        doing = _doing(holder, paused_queues, now) if holder is not None and known else "."
        return _behind(standing, spec, state, doing)
    if run.held & Held.RATE:
        return Explanation(state, Reason.RATE, f"Waiting for {_rate(spec)}. A scheduler assigns the start time.")
    return _unclaimed(standing, key, workers, state, now)


def _state(run: RunView, now: Instant) -> Status:
    tries = run.failures + run.losses
    return shown(run.state, due=run.due, tries=tries, cancelling=run.cancel_at is not None, now=now)


def _ended(run: RunView) -> str:
    when = "" if run.ended_at is None else f" at {_time(run.ended_at)}"
    match run.state:
        case State.DEAD:
            return f"Failed permanently{when}. Read the error, then run it again or discard this dead letter."
        case State.CANCELLED:
            return f"Cancelled{when}."
        case State.EXPIRED:
            return f"Expired{when}, because it did not start within start_within. This run will never start."
        case _:
            return f"Succeeded{when}."


def _running(standing: RunDiagnosis, state: Status, now: Instant) -> Explanation:
    run, beat_at, lease = standing.run, standing.beat_at, standing.lease
    if beat_at is None or lease is None:
        detail = f"Worker {run.worker_id} is gone. Within seconds {_after_loss(run)}."
        return Explanation(state, Reason.WORKER_LOST, detail)
    if is_silent(beat_at, lease, now):
        detail = (
            f"Worker {run.worker_id} has sent no heartbeat for {rough_length(now - beat_at)}. "
            f"Without a heartbeat by {_time(Instant(beat_at + lease))}, {_after_loss(run)}."
        )
        return Explanation(state, Reason.WORKER_LOST, detail)
    since = "" if run.started_at is None else f" for {rough_length(now - run.started_at)}"
    if (stuck := _stuck(run, now)) is not None:
        detail = f"Running on worker {run.worker_id}{since}; {stuck}. {_waited_for(run)}"
        return Explanation(state, Reason.RUNNING, detail)
    stopping = "" if run.cancel_at is None else f"; cancelled {rough_length(now - run.cancel_at)} ago, and stopping"
    return Explanation(state, Reason.RUNNING, f"Running on worker {run.worker_id}{since}{stopping}.")


def _stuck(run: RunView, now: Instant) -> str | None:
    """Say that the function of an active run does not stop although it was told to. None: it does, as far as known."""
    spec = _spec(run)
    if run.cancel_at is not None and now - run.cancel_at > STOPS_WITHIN:
        return f"it was cancelled {rough_length(now - run.cancel_at)} ago, and its function does not stop"
    if run.started_at is None or spec is None or now - run.started_at <= spec.timeout + STOPS_WITHIN:
        return None
    over = rough_length(now - run.started_at - spec.timeout)
    return f"its timeout of {show_duration(spec.timeout)} ended {over} ago, and its function does not stop"


def _waited_for(run: RunView) -> str:
    return (
        "No other run of its group or concurrency key starts beside it. "
        f"Let the function check ctx.cancelled; to end it now, restart worker {run.worker_id}. "
        "Jobs with on_left_behind release do not wait."
    )


def is_silent(beat_at: Instant, lease: Duration, now: Instant) -> bool:
    """Whether a worker's heartbeat is overdue, though its lease may not have ended."""
    return now - beat_at > lease // 3


def _after_loss(run: RunView) -> str:
    spec = _spec(run)
    if spec is not None and spec.on_lost is OnLost.DEAD:
        return "the run becomes a dead letter, because on_lost is dead"
    return "the run restarts on another worker; after three lost workers it becomes a dead letter"


def _to_come(run: RunView, spec: Spec | None, state: Status, now: Instant) -> Explanation:
    """Explain a run that is not due: a retry waits for its backoff, another run for the start its rate limit gave."""
    when, until = f"{_time(run.due)}, in {rough_length(run.due - now)}", _instant(run.due)
    rated = bool(run.held & Held.RATE)
    if run.failures + run.losses:
        later = f", or later: it then waits for {_rate(spec)}" if rated else ""
        detail = f"The last attempt did not succeed. The run retries at {when}{later}."
        return Explanation(state, Reason.NOT_DUE, detail, until=until)
    if run.wanted <= now and not rated and spec is not None and spec.rate is not None:
        return Explanation(state, Reason.RATE, f"Waiting for {_rate(spec)}. The run starts at {when}.", until=until)
    return Explanation(state, Reason.NOT_DUE, f"Due at {when}.", until=until)


def _rate(spec: Spec | None) -> str:
    if spec is None or spec.rate is None:
        return "its rate limit"
    rate = spec.rate
    return f"its rate limit of {rate.limit} per {show_duration(rate.per)} for the key {rate.key or spec.task!r}"


def _behind(standing: RunDiagnosis, spec: Spec | None, state: Status, doing: str) -> Explanation:
    position = None if standing.place is None else standing.place + 1
    reason, rule = _rule(standing.run, spec)
    waits = "This run waits for its turn." if standing.holder is None else f"Blocked by run {standing.holder}{doing}"
    return Explanation(state, reason, f"{rule[0].upper()}{rule[1:]}. {waits}", standing.holder, position)


def _rule(run: RunView, spec: Spec | None) -> tuple[Reason, str]:
    """Name the rule that blocks the run. A serial lane belongs to its group, or else to its job."""
    if not run.held & Held.LANE:
        gate = None if spec is None else spec.concurrency
        if gate is None:
            return Reason.CONCURRENCY, "its concurrency key has reached its limit"
        return Reason.CONCURRENCY, f"the concurrency key {gate.key!r} has a limit of {gate.limit}"
    if spec is not None and spec.group is not None:
        return Reason.GROUP, f"the group {spec.group!r} runs one run at a time"
    if spec is None and run.run_id == run.job_id:
        return Reason.GROUP, "its group runs one run at a time"
    return Reason.OVERLAP, "the job runs one run at a time"


def _doing(holder: RunView, paused_queues: Collection[str], now: Instant) -> str:
    match holder.state:
        case State.RUNNING if (stuck := _stuck(holder, now)) is not None:
            return f": {stuck}. {_waited_for(holder)}"
        case State.RUNNING if holder.started_at is not None:
            return f", which has been running for {rough_length(now - holder.started_at)}."
        case State.RUNNING:
            return ", which is running."
        case State.WAITING:
            return f", which {_waiting(holder, paused_queues, now)}."
        case _:
            return ", which has just ended."


def _waiting(holder: RunView, paused_queues: Collection[str], now: Instant) -> str:
    """Say what the blocking run itself waits for, checked in the order of `Reason`."""
    spec = _spec(holder)
    rated = bool(holder.held & Held.RATE)
    if holder.held & Held.PAUSED:
        return "cannot start because its job is paused"
    if spec is not None and spec.queue in paused_queues:
        return f"cannot start because the queue {spec.queue!r} is paused"
    if holder.due > now:
        does = "retries" if holder.failures + holder.losses else "is due"
        return f"{does} at {_time(holder.due)}{' at the earliest' if rated else ''}"
    if holder.held & (Held.LANE | Held.GATE):
        return f"is itself blocked: {_rule(holder, spec)[1]}"
    if rated:
        return f"waits for {_rate(spec)}"
    return "waits for a free slot on a worker"


# ------------------------------------------------------------------------------------------------------------- workers


def _unclaimed(
    standing: RunDiagnosis, key: ClassKey, workers: Sequence[Offered], state: Status, now: Instant
) -> Explanation:
    """Explain a run that is due and not held, so only workers can be missing."""
    spec = _spec(standing.run)
    missing = no_worker_for(standing.run.class_id, key, workers, now, None if spec is None else spec.resources)
    if missing is None:
        return _in_line(standing, state)
    lacking, detail = missing
    return Explanation(state, REASONS[lacking], detail)


def _in_line(standing: RunDiagnosis, state: Status) -> Explanation:
    """Explain a run that waits for a free slot. Its place counts runs of its class only; users share slots fairly."""
    place, before = standing.place, _for_newer(standing.run) + _preempted(standing.run)
    if place is None:
        return Explanation(state, Reason.NO_CAPACITY, f"{before}Due: starts when a worker has a free slot.")
    if place == 0:
        detail = "Next in line: starts when a worker has a free slot."
    else:
        many = f"At least {MOST_COUNTED:,}" if place >= MOST_COUNTED else f"{place:,}"
        verb = "run waits" if place == 1 else "runs wait"
        detail = f"{many} {verb} before it for the same workers. Wait, or start more workers."
    return Explanation(state, Reason.NO_CAPACITY, before + detail, position=place + 1)


def _for_newer(run: RunView) -> str:
    spec = _spec(run)
    return "A newer oncue defined this job; only workers of that version start it. " if spec and spec.unknown else ""


def _preempted(run: RunView) -> str:
    tried = read_attempts(run.attempts)
    if not tried or tried[-1].outcome != "preempted":
        return ""
    return f"Preempted by a high-priority run at {_time(tried[-1].ended_at)}. "


# --------------------------------------------------------------------------------------------------------------- a job


def telling(snap: Snapshot, now: Instant) -> RunId | None:
    """Pick the run that explains its job: the last that is due or active, else the next to come."""
    due = [run for run in snap.waiting if run.wanted <= now]
    if due:
        return max(due, key=lambda run: (run.wanted, run.run_id)).run_id
    if snap.going:
        return snap.going[-1]
    return min(snap.waiting, key=lambda run: (run.wanted, run.run_id)).run_id if snap.waiting else None


def explain_job(snap: Snapshot, now: Instant, *, paused_queues: Collection[str] = ()) -> Explanation:
    """Explain a job that has no run at the moment."""
    job, cursor = snap.job, snap.cursor
    match job.status:
        case JobStatus.CANCELLED:
            return Explanation(job.status, Reason.FINISHED, f"Cancelled at {_time(job.updated_at)}.")
        case JobStatus.FINISHED:
            why = _NO_MORE if job.spec.schedule.recurring else "The job ran once. Its run is no longer in the history."
            return Explanation(job.status, Reason.FINISHED, why)
        case JobStatus.PAUSED:
            return Explanation(job.status, Reason.PAUSED, "The job is paused. Resume it to continue its schedule.")
        case JobStatus.ACTIVE if job.spec.queue in paused_queues:
            return Explanation(job.status, Reason.QUEUE_PAUSED, _queue_is_paused(job.spec.queue))
        case JobStatus.ACTIVE:
            next_at = NEVER if cursor is None else cursor.next_at
            until = _instant(next_at) if next_at > now else None
            return Explanation(job.status, Reason.NOT_DUE, _next(next_at, now), until=until)


def _next(next_at: Instant, now: Instant) -> str:
    if next_at == NEVER:
        return _NO_MORE
    if next_at <= now:
        return f"The occurrence of {_time(next_at)} is not planned yet. If this lasts, check that a scheduler runs."
    return f"The next occurrence is at {_time(next_at)}, in {rough_length(next_at - now)}."


# --------------------------------------------------------------------------------------------------------------- words


_NO_MORE = "The schedule has no more occurrences."
_JOB_IS_PAUSED = "The job is paused. Resume it to start this run."


def _queue_is_paused(queue: str) -> str:
    return f"The queue {queue!r} is paused. An administrator can resume it."


def _spec(run: RunView) -> Spec | None:
    """Decode the definition. None: it cannot be read; the rest can still be explained."""
    try:
        return None if run.spec is None else decode_spec(run.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _time(at: Instant) -> str:
    """Format an instant, also one beyond the calendar, such as NEVER."""
    return _instant(at) or "a time beyond the calendar"


def _instant(at: Instant) -> str | None:
    try:
        return rfc3339(at)
    except OverflowError:
        return None


def rough_length(length: int) -> str:
    """Format a length of time roughly, in the largest unit of which there are at least two."""
    for unit, name in ((DAY, "days"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if length >= 2 * unit:
            return f"{length // unit} {name}"
    return f"{max(0, length) // MILLISECOND} ms"
