"""Why a job or a run has or has not run yet: one reason, and a sentence that says what it waits for or what to do.

Of several things in its way the first in the order of `Reason` is told, most of which somebody has to act on first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import assert_never

import msgspec

from oncue.domain.ids import ClassId, RunId
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
from oncue.domain.placement import ClassKey, Mismatch, Offer, Resources, mismatch
from oncue.domain.policy import OnLost
from oncue.domain.run import RunView, State, Status, read_attempts, shown

MOST_COUNTED = 10_000  # as far as engines count those before a run


class Reason(StrEnum):
    """In the order in which they are looked at; the first that holds is told."""

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


class Explanation(msgspec.Struct, frozen=True):
    """`position` is its place among those that wait in the same line, 1 for the next; `holder` the run in its way."""

    state: str
    reason: Reason
    detail: str
    holder: RunId | None = None
    position: int | None = None


class Offered(msgspec.Struct, frozen=True):
    """A registered worker, as far as it matters here."""

    classes: tuple[ClassId, ...]  # those it says it takes now
    live_until: Instant  # when its lease ends, unless it beats again
    draining: bool = False
    offer: Offer | None = None  # None: it does not say, so its classes have to do


class RunDiagnosis(msgspec.Struct, frozen=True):
    """Where a run stands, as far as an engine knows: what explaining needs beyond the run itself."""

    run: RunView
    holder: RunId | None = None  # the first run in its way: in its serial lane, else at its gate
    place: int | None = None  # how many wait before it: for the lane or the gate that holds it, else among the due
    beat_at: Instant | None = None  # of the worker that runs it; None: no such worker (any more)
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
    """`key` is the class of the run; `holder` is the run that `standing` names as such, if it can still be read."""
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
        doing = _doing(holder, paused_queues, now) if holder is not None and known else ""
        return _behind(standing, spec, state, doing)
    if run.held & Held.RATE:
        return Explanation(state, Reason.RATE, f"it waits for {_rate(spec)}: a scheduler gives it the next free start")
    return _unclaimed(standing, key, workers, state, now)


def _state(run: RunView, now: Instant) -> Status:
    tries = run.failures + run.losses
    return shown(run.state, due=run.due, tries=tries, cancelling=run.cancel_at is not None, now=now)


def _ended(run: RunView) -> str:
    when = "" if run.ended_at is None else f" at {_time(run.ended_at)}"
    match run.state:
        case State.DEAD:
            return f"it failed for good{when}: look at its error; this dead letter can be requeued"
        case State.CANCELLED:
            return f"it was cancelled{when}"
        case State.EXPIRED:
            return f"it could not start within start_within, and expired{when}: it will not run"
        case _:
            return f"it succeeded{when}"


def _running(standing: RunDiagnosis, state: Status, now: Instant) -> Explanation:
    run, beat_at, lease = standing.run, standing.beat_at, standing.lease
    if beat_at is None or lease is None:
        detail = f"its worker {run.worker_id} is gone: the loss is noticed within seconds, and then {_after_loss(run)}"
        return Explanation(state, Reason.WORKER_LOST, detail)
    if now - beat_at > lease // 3:
        detail = (
            f"its worker {run.worker_id} has been silent for {_length(now - beat_at)}: "
            f"unless it is heard by {_time(Instant(beat_at + lease))}, {_after_loss(run)}"
        )
        return Explanation(state, Reason.WORKER_LOST, detail)
    since = "" if run.started_at is None else f" for {_length(now - run.started_at)}"
    stopping = "" if run.cancel_at is None else f", and was asked to stop {_length(now - run.cancel_at)} ago"
    return Explanation(state, Reason.RUNNING, f"it runs on the worker {run.worker_id}{since}{stopping}")


def _after_loss(run: RunView) -> str:
    spec = _spec(run)
    if spec is not None and spec.on_lost is OnLost.DEAD:
        return "it becomes a dead letter, because its on_lost is dead"
    return "it starts again elsewhere, unless it has cost three workers"


def _to_come(run: RunView, spec: Spec | None, state: Status, now: Instant) -> Explanation:
    """Not due: retries wait out their backoff, and what was due before waits for the start that its rate gave it."""
    when = f"{_time(run.due)}, in {_length(run.due - now)}"
    rated = bool(run.held & Held.RATE)
    if run.failures + run.losses:
        earliest = f", at the earliest: then it waits for {_rate(spec)}" if rated else ""
        detail = f"its last attempt ended without success; it retries at {when}{earliest}"
        return Explanation(state, Reason.NOT_DUE, detail)
    if run.wanted <= now and not rated and spec is not None and spec.rate is not None:
        return Explanation(state, Reason.RATE, f"it waits for {_rate(spec)}: it was given the start at {when}")
    return Explanation(state, Reason.NOT_DUE, f"it is due at {when}")


def _rate(spec: Spec | None) -> str:
    if spec is None or spec.rate is None:
        return "its rate"
    rate = spec.rate
    return f"its rate, {rate.limit} in any {show_duration(rate.per)} for the key {rate.key or spec.task!r}"


def _behind(standing: RunDiagnosis, spec: Spec | None, state: Status, doing: str) -> Explanation:
    position = None if standing.place is None else standing.place + 1
    reason, rule = _rule(standing.run, spec)
    waits = "it waits for its turn" if standing.holder is None else f"it waits for run {standing.holder}{doing}"
    return Explanation(state, reason, f"{rule}: {waits}", standing.holder, position)


def _rule(run: RunView, spec: Spec | None) -> tuple[Reason, str]:
    """What keeps it out. A serial lane is its group's, or else its job's own."""
    if not run.held & Held.LANE:
        gate = None if spec is None else spec.concurrency
        many = "only so many" if gate is None else f"at most {gate.limit}"
        return Reason.CONCURRENCY, f"{many} run at a time with the concurrency key{f' {gate.key!r}' if gate else ''}"
    if spec is not None and spec.group is not None:
        return Reason.GROUP, f"the group {spec.group!r} runs one at a time"
    if spec is None and run.run_id == run.job_id:
        return Reason.GROUP, "its group runs one at a time"
    return Reason.OVERLAP, "its job does not run twice at a time"


def _doing(holder: RunView, paused_queues: Collection[str], now: Instant) -> str:
    match holder.state:
        case State.RUNNING if holder.started_at is not None:
            return f", which has run for {_length(now - holder.started_at)}"
        case State.RUNNING:
            return ", which is running"
        case State.WAITING:
            return f", which {_waiting(holder, paused_queues, now)}"
        case _:
            return ", which has just ended"


def _waiting(holder: RunView, paused_queues: Collection[str], now: Instant) -> str:
    """What a run that others wait for waits for itself. It is asked about in the order of `Reason`, as any other."""
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
        return f"waits itself: {_rule(holder, spec)[1]}"
    if rated:
        return f"waits itself for {_rate(spec)}"
    return "is let in and waits for a worker"


# ------------------------------------------------------------------------------------------------------------- workers


def _unclaimed(
    standing: RunDiagnosis, key: ClassKey, workers: Sequence[Offered], state: Status, now: Instant
) -> Explanation:
    """Due, and nothing holds it: whatever keeps it from running is a matter of workers. The closest one decides."""
    live = [worker for worker in workers if not worker.draining and worker.live_until >= now]
    if any(worker.offer is None and standing.run.class_id in worker.classes for worker in live):
        return _in_line(standing, state)
    offers = [worker.offer for worker in live if worker.offer is not None]
    payload_problems = [mismatch(key, offer) for offer in offers]
    if None in payload_problems:
        return _in_line(standing, state)
    closest = max((lack for lack in payload_problems if lack is not None), default=Mismatch.NO_TASK)
    nearly = [offer for offer, lack in zip(offers, payload_problems, strict=True) if lack is closest]
    match closest:
        case Mismatch.NO_TASK:
            detail = f"no live worker has the task {key.task!r}: start one that has it, with --tasks"
            return Explanation(state, Reason.NO_WORKER, detail)
        case Mismatch.NO_QUEUE:
            detail = f"live workers have the task {key.task!r}, but none of them takes from the queue {key.queue!r}"
            return Explanation(state, Reason.NO_WORKER, f"{detail}: start one with --queues {key.queue}")
        case Mismatch.NO_LABELS:
            return Explanation(state, Reason.NO_LABELS, _missing_labels(key, nearly))
        case Mismatch.TOO_BIG:
            return Explanation(state, Reason.TOO_BIG, _too_big(standing.run, key, nearly))
        case _:
            assert_never(closest)


def _in_line(standing: RunDiagnosis, state: Status) -> Explanation:
    """Other kinds wait in lines of their own, and users take turns: room is not all that it waits for."""
    place, before = standing.place, _for_newer(standing.run) + _gave_way(standing.run)
    if place is None:
        return Explanation(state, Reason.NO_CAPACITY, f"{before}it is due and waits for room on a worker")
    if place == 0:
        detail = "it is the next of its kind, and starts when a worker has room for it and it is its turn"
    else:
        many = f"at least {MOST_COUNTED:,}" if place >= MOST_COUNTED else f"{place:,}"
        detail = f"of its kind {many} wait before it for the workers that can run it: let them work, or start more"
    return Explanation(state, Reason.NO_CAPACITY, before + detail, position=place + 1)


def _for_newer(run: RunView) -> str:
    spec = _spec(run)
    return "a newer oncue defined it, and only workers of that version start it; " if spec and spec.unknown else ""


def _gave_way(run: RunView) -> str:
    tried = read_attempts(run.attempts)
    if not tried or tried[-1].outcome != "preempted":
        return ""
    return f"it gave way to one of high priority at {_time(tried[-1].ended_at)}; "


def _too_big(run: RunView, key: ClassKey, offers: Iterable[Offer]) -> str:
    """Compared with the one that lacks the least."""
    spec = _spec(run)
    asks = key.size if spec is None else spec.resources
    closest = max((offer.room_for(key.task) for offer in offers), key=lambda has: _closeness(key.size, has))
    return (
        f"it asks for {_amounts(asks, asks)}, and the closest live worker with its task, queue and labels has "
        f"{_amounts(closest, asks)} in all: ask for less, or start a larger one"
    )


def _closeness(size: Resources, has: Resources) -> tuple[int, int, int, int]:
    enough = (size.cpu_milli <= has.cpu_milli, size.memory_mb <= has.memory_mb, size.slots <= has.slots)
    return sum(enough), has.cpu_milli, has.memory_mb, has.slots


def _amounts(of: Resources, asked: Resources) -> str:
    """Of whatever is asked for."""
    cpu = [f"{of.cpu_milli / 1_000:g} cpu"] if asked.cpu_milli else []
    memory = [f"{of.memory_mb} MB"] if asked.memory_mb else []
    slots = f"{of.slots} slot{'s' * (of.slots != 1)}"
    return f"{', '.join(cpu + memory)} and {slots}" if cpu or memory else slots


def _missing_labels(key: ClassKey, offers: Iterable[Offer]) -> str:
    fewest = min((sorted(set(key.labels) - offer.labels) for offer in offers), key=len)
    return (
        f"no live worker with the task {key.task!r} on the queue {key.queue!r} has all the labels it asks for, and "
        f"the closest lacks {', '.join(fewest)}: start one with --labels {','.join(key.labels)}"
    )


# --------------------------------------------------------------------------------------------------------------- a job


def telling(snap: Snapshot, now: Instant) -> RunId | None:
    """The run of a job that tells how it stands: the last that is due or going, else the first to come."""
    due = [run for run in snap.waiting if run.wanted <= now]
    if due:
        return max(due, key=lambda run: (run.wanted, run.run_id)).run_id
    if snap.going:
        return snap.going[-1]
    return min(snap.waiting, key=lambda run: (run.wanted, run.run_id)).run_id if snap.waiting else None


def explain_job(snap: Snapshot, now: Instant, *, paused_queues: Collection[str] = ()) -> Explanation:
    """A job that has no run at the moment."""
    job, cursor = snap.job, snap.cursor
    match job.status:
        case JobStatus.CANCELLED:
            return Explanation(job.status, Reason.FINISHED, f"it was cancelled at {_time(job.updated_at)}")
        case JobStatus.FINISHED:
            return Explanation(job.status, Reason.FINISHED, "its schedule has no occurrence left")
        case JobStatus.PAUSED:
            return Explanation(job.status, Reason.PAUSED, "it is paused: resume it, and its schedule goes on")
        case JobStatus.ACTIVE if job.spec.queue in paused_queues:
            return Explanation(job.status, Reason.QUEUE_PAUSED, _queue_is_paused(job.spec.queue))
        case JobStatus.ACTIVE:
            next_at = NEVER if cursor is None else cursor.next_at
            return Explanation(job.status, Reason.NOT_DUE, _next(next_at, now))


def _next(next_at: Instant, now: Instant) -> str:
    if next_at == NEVER:
        return "nothing is planned for it, and its schedule has no further occurrence"
    if next_at <= now:
        return f"its occurrence of {_time(next_at)} is not planned yet: if that lasts, see that a scheduler runs"
    return f"its next occurrence is at {_time(next_at)}, in {_length(next_at - now)}"


# --------------------------------------------------------------------------------------------------------------- words


_JOB_IS_PAUSED = "its job is paused: nothing of it starts until somebody resumes it"


def _queue_is_paused(queue: str) -> str:
    return f"the queue {queue!r} is paused: nothing of it starts until an administrator resumes it"


def _spec(run: RunView) -> Spec | None:
    """None: it cannot be read, which must not keep anybody from learning the rest."""
    try:
        return None if run.spec is None else decode_spec(run.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _time(at: Instant) -> str:
    """Some instants are beyond all calendars."""
    try:
        return rfc3339(at)
    except OverflowError:
        return "no time in sight"


def _length(length: int) -> str:
    """Roughly, for people: two digits or more of a unit that they would use themselves."""
    for unit, name in ((DAY, "days"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if length >= 2 * unit:
            return f"{length // unit} {name}"
    return f"{max(0, length) // MILLISECOND} ms"
