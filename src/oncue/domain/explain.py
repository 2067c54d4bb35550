"""Why a job or a run has or has not run yet: one reason, and a sentence that says what it waits for or what to do.

Of several things in its way the first in the order of `Reason` is told, most of which somebody has to act on first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, NEVER, SECOND, Duration, Instant, rfc3339
from oncue.domain.job import JobStatus, Snapshot, Spec, decode_spec
from oncue.domain.lane import Held
from oncue.domain.placement import ClassKey, Offer, Resources, misfit
from oncue.domain.policy import OnLost
from oncue.domain.run import RunView, State, Status, shown

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
    """`position` is its place in the line it stands in, from 1; `holder` the run it waits for."""

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


class Standing(Protocol):
    """What an engine knows of where a run stands."""

    @property
    def run(self) -> RunView: ...
    @property
    def holder(self) -> RunId | None: ...
    @property
    def place(self) -> int | None: ...
    @property
    def beat_at(self) -> Instant | None: ...
    @property
    def lease(self) -> Duration | None: ...


_read_offer = msgspec.json.Decoder(Offer).decode
show_offer = msgspec.json.Encoder().encode


def read_offer(info: bytes | None) -> Offer | None:
    """What a worker says of itself. None: nothing that can be read: it may be older or newer than we are."""
    try:
        return None if info is None else _read_offer(info)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


# --------------------------------------------------------------------------------------------------------------- a run


def explain(
    standing: Standing,
    key: ClassKey,
    workers: Sequence[Offered],
    now: Instant,
    *,
    queue_paused: bool = False,
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
        return Explanation(state, Reason.PAUSED, "its job is paused: it starts after the job is resumed")
    if queue_paused:
        return Explanation(state, Reason.QUEUE_PAUSED, _queue_is_paused(key.queue))
    spec = _spec(run)
    if run.due > now:
        return _to_come(run, spec, state, now)
    if run.held & (Held.LANE | Held.GATE):
        return _behind(standing, spec, state, holder, now)
    if run.held & Held.RATE:
        return Explanation(state, Reason.RATE, f"{_rate(spec)}: it is given a start as soon as one is free")
    return _unclaimed(standing, key, workers, state, now)


def _state(run: RunView, now: Instant) -> Status:
    tries = run.failures + run.losses
    return shown(run.state, due=run.due, tries=tries, cancelling=run.cancel_at is not None, now=now)


def _ended(run: RunView) -> str:
    when = "" if run.ended_at is None else f" at {_time(run.ended_at)}"
    match run.state:
        case State.DEAD:
            return f"it used up its attempts{when}: look at its error, then requeue or discard the dead letter"
        case State.CANCELLED:
            return f"it was cancelled{when}, and will not run"
        case State.EXPIRED:
            return f"it could not start within start_within, and expired{when}: it will not run"
        case _:
            return f"it succeeded{when}"


def _running(standing: Standing, state: Status, now: Instant) -> Explanation:
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
    if run.failures + run.losses:
        return Explanation(state, Reason.NOT_DUE, f"its last attempt ended without success; it retries at {when}")
    if run.wanted <= now and spec is not None and spec.rate is not None:
        return Explanation(state, Reason.RATE, f"{_rate(spec)}: it was given the start at {when}")
    return Explanation(state, Reason.NOT_DUE, f"it is due at {when}")


def _rate(spec: Spec | None) -> str:
    if spec is None or spec.rate is None:
        return "it waits for its rate"
    rate = spec.rate
    return f"it waits for its rate, {rate.limit} in any {_length(rate.per)} for the key {rate.key or spec.task!r}"


def _behind(standing: Standing, spec: Spec | None, state: Status, holder: RunView | None, now: Instant) -> Explanation:
    position = None if standing.place is None else standing.place + 1
    reason, what = _lane(standing.run, spec)
    waits = "it waits for its turn" if standing.holder is None else f"it waits for run {standing.holder}"
    doing = _doing(holder, now) if holder is not None and holder.run_id == standing.holder else ""
    return Explanation(state, reason, f"{waits} {what}{doing}", standing.holder, position)


def _lane(run: RunView, spec: Spec | None) -> tuple[Reason, str]:
    """A serial lane is its group's, or else its job's own."""
    if not run.held & Held.LANE:
        gate = None if spec is None else spec.concurrency
        many = "" if gate is None else f": at most {gate.limit} at a time for {gate.key!r}"
        return Reason.CONCURRENCY, f"of the same concurrency key{many}"
    if spec is not None and spec.group is not None:
        return Reason.GROUP, f"of the same group {spec.group!r}"
    if spec is None and run.run_id == run.job_id:
        return Reason.GROUP, "of the same group"
    return Reason.OVERLAP, "of the same job, which does not run twice at a time"


def _doing(holder: RunView, now: Instant) -> str:
    match holder.state:
        case State.RUNNING if holder.started_at is not None:
            return f", which has run for {_length(now - holder.started_at)}"
        case State.WAITING if holder.failures + holder.losses and holder.due > now:
            return f", which retries at {_time(holder.due)}"
        case State.WAITING if holder.due > now:
            return f", which is due at {_time(holder.due)}"
        case State.WAITING:
            return ", which is let in and waits for a worker"
        case _:
            return ", which has just ended"


# ------------------------------------------------------------------------------------------------------------- workers


def _unclaimed(
    standing: Standing, key: ClassKey, workers: Sequence[Offered], state: Status, now: Instant
) -> Explanation:
    """Due, and nothing holds it: whatever keeps it from running is a matter of workers. The closest one decides."""
    live = [worker for worker in workers if not worker.draining and worker.live_until >= now]
    offers = [worker.offer for worker in live if worker.offer is not None]
    takes_it = any(worker.offer is None and standing.run.class_id in worker.classes for worker in live)
    misfits = {misfit(key, offer) for offer in offers}
    if takes_it or None in misfits:
        return _in_line(standing, state)
    if Reason.TOO_BIG in misfits:
        return Explanation(state, Reason.TOO_BIG, _too_big(key, offers))
    if Reason.NO_LABELS in misfits:
        return Explanation(state, Reason.NO_LABELS, _missing_labels(key, offers))
    return Explanation(state, Reason.NO_WORKER, _missing_task(key, offers))


def _in_line(standing: Standing, state: Status) -> Explanation:
    place = standing.place
    if place is None:
        return Explanation(state, Reason.NO_CAPACITY, "it is due and waits for room on a worker")
    if place == 0:
        detail = "it is the next of its kind, and starts as soon as a worker has room"
    else:
        many = f"at least {MOST_COUNTED:,}" if place >= MOST_COUNTED else f"{place:,}"
        detail = (
            f"the workers that can run it are busy; of its kind {many} wait before it: let them work, or start more"
        )
    return Explanation(state, Reason.NO_CAPACITY, detail, position=place + 1)


def _too_big(key: ClassKey, offers: Iterable[Offer]) -> str:
    """Compared with the largest of those that have all the rest."""
    fitting = [offer.resources for offer in offers if misfit(key, offer) == Reason.TOO_BIG]
    largest = max(fitting, key=lambda has: (has.cpu_milli, has.memory_mb, has.slots))
    return (
        f"it asks for {_size(key.size)}, and the largest live worker that could take it has {_size(largest)}: "
        "ask for less, or start a larger one"
    )


def _size(size: Resources) -> str:
    return f"{size.cpu_milli / 1_000:g} cpu, {size.memory_mb} MB and {size.slots} slots"


def _missing_labels(key: ClassKey, offers: Iterable[Offer]) -> str:
    able = [offer for offer in offers if misfit(key, offer) == Reason.NO_LABELS]
    fewest = min((sorted(set(key.labels) - offer.labels) for offer in able), key=len)
    return (
        f"no live worker with the task {key.task!r} on the queue {key.queue!r} has the labels {', '.join(fewest)}: "
        f"start one with --labels {','.join(key.labels)}"
    )


def _missing_task(key: ClassKey, offers: Iterable[Offer]) -> str:
    if any(key.task in offer.tasks for offer in offers):
        return (
            f"live workers have the task {key.task!r}, but none of them takes from the queue {key.queue!r}: "
            f"start one with --queues {key.queue}"
        )
    return f"no live worker has the task {key.task!r}: start one that has it, with --tasks"


# --------------------------------------------------------------------------------------------------------------- a job


def telling(snap: Snapshot, now: Instant) -> RunId | None:
    """The run of a job that tells how it stands: the last that is due or going, else the first to come."""
    due = [run for run in snap.waiting if run.wanted <= now]
    if due:
        return max(due, key=lambda run: (run.wanted, run.run_id)).run_id
    if snap.going:
        return snap.going[-1]
    return min(snap.waiting, key=lambda run: (run.wanted, run.run_id)).run_id if snap.waiting else None


def explain_job(snap: Snapshot, now: Instant, *, queue_paused: bool = False) -> Explanation:
    """A job that has no run at the moment."""
    job, cursor = snap.job, snap.cursor
    match job.status:
        case JobStatus.CANCELLED:
            return Explanation(job.status, Reason.FINISHED, f"it was cancelled at {_time(job.updated_at)}")
        case JobStatus.FINISHED:
            return Explanation(job.status, Reason.FINISHED, "its schedule has no occurrence left")
        case JobStatus.PAUSED:
            return Explanation(job.status, Reason.PAUSED, "it is paused: resume it, and its schedule goes on")
        case JobStatus.ACTIVE if queue_paused:
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
