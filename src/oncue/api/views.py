"""What users see of jobs, runs, tasks and workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from oncue.domain.fingerprint import show_fingerprint
from oncue.domain.ids import ClassId, JobId, RunId, WorkerId, created_at
from oncue.domain.instants import MILLISECOND, NEVER, Instant, show_duration
from oncue.domain.job import Job, JobStatus, Snapshot
from oncue.domain.ledger import Entry as LedgerEntry
from oncue.domain.load import free_slots, read_load
from oncue.domain.placement import ClassKey, Offer, read_offer
from oncue.domain.planning import GRACE
from oncue.domain.reference import MARK, read_reference
from oncue.domain.run import ENDED, Attempt, RunView, State, Status, Trigger, shown
from oncue.domain.shown_definition import DEFINITION, show_priority, show_resources, shown_values
from oncue.domain.tried import (
    ShownAttempt,
    attempt_number,
    attempts_of,
    lag_ms,
    last_failure,
    show_attempt,
    time_or_none,
)
from oncue.engines.port import EndedRun, JobName, Task, Worker

Classes = Mapping[ClassId, ClassKey]

NOTHING = msgspec.Raw(b"null")
UNNAMED = JobName()
TRIGGERS = {one: one.name.lower() for one in Trigger}  # used for every run: the name of an enum is slow to read
LARGEST_SHOWN = 64 * 1024  # bytes of a payload that is shown with its run, unless the run is dead


# Pages have a thousand of these. To make a dict of so many fields takes five times as long as a struct, and to encode
# it half as long again; and structs without cycles are nothing for the garbage collector.
ShownJob: Any = msgspec.defstruct(
    "ShownJob",
    [
        *("job_id", "user_id", "status", *DEFINITION, "payload", "large", "recent"),
        *("next_run_at", "last_run", "created_at", "updated_at", "version", "warnings"),
    ],
    frozen=True,
    gc=False,
)


class ShownLastRun(msgspec.Struct, frozen=True, gc=False):
    run_id: RunId
    status: Status
    scheduled_for: str | None
    start_time: str | None
    end_time: str | None
    error_type: str | None
    error_message: str | None


def job(
    snap: Snapshot,
    user_id: str | None,
    last: ShownLastRun | None,
    warnings: Sequence[Mapping[str, str]] = (),
    payload: bytes | None = None,
    recent: list[ShownEndedRun] | None = None,
) -> Any:
    """Show a job: its definition as requested, with defaults filled in, and its status. `last`: its `last_run`.

    `payload`: as read from object storage; without it a large one is not shown. `recent`: its last ended runs, if they
    were asked for.
    """
    found = snap.job
    return ShownJob(
        found.job_id,
        user_id,
        found.status,
        *shown_values(found.spec),
        json_of(payload or found.payload),
        _large(payload=found.payload),
        recent,
        time_or_none(next_run_at(snap)),
        last,
        time_or_none(found.created_at),
        time_or_none(found.updated_at),
        found.version,
        warnings,
    )


def last_run(found: RunView, now: Instant) -> ShownLastRun:
    """Show the part of a run that is shown with its job."""
    failed = None if found.attempts is None else last_failure(attempts_of(found))
    return ShownLastRun(
        found.run_id,
        status(found, now),
        time_or_none(found.wanted if found.nominal is None else found.nominal),
        time_or_none(found.started_at),
        time_or_none(found.ended_at),
        found.error_type or (None if failed is None else failed.error_type),
        found.error or (None if failed is None else failed.error),
    )


def next_run_at(snap: Snapshot) -> Instant | None:
    """The first instant its schedule has yet to run, already planned or not. Runs started by hand do not count."""
    if snap.job.status is not JobStatus.ACTIVE:
        return None
    first = None if snap.cursor is None or snap.cursor.next_at == NEVER else snap.cursor.next_at
    for run in snap.waiting:
        if (first is None or run.wanted < first) and (run.scheduled or run.run_id == snap.job.job_id):
            first = run.wanted
    return first


class Known(msgspec.Struct, frozen=True):
    """What is shown of runs beside themselves: their classes, what their jobs and their workers are called."""

    classes: Classes
    names: Mapping[RunId, JobName] = {}
    workers: Mapping[WorkerId, str] = {}


class ShownRun(msgspec.Struct, frozen=True, gc=False):
    run_id: RunId
    job_id: JobId
    job_name: str | None
    job_key: str | None
    task: str
    queue: str
    priority: str
    status: Status
    trigger: str
    parent: RunId | None
    scheduled_for: str | None
    due_time: str | None
    start_time: str | None
    end_time: str | None
    duration_ms: int | None
    modified_time: str | None
    attempt_number: int
    executor_id: WorkerId | None
    executor_name: str | None
    error_type: str | None
    error_message: str | None
    lag_ms: int | None
    progress: msgspec.Raw
    log_url: str
    result: msgspec.Raw
    large: dict[str, int]
    degraded: list[str]
    attempts: list[ShownAttempt]


class ShownLetter(ShownRun, frozen=True, gc=False):
    payload: msgspec.Raw
    fingerprint: str | None


def run(found: RunView, known: Known, now: Instant) -> ShownRun:
    """Show a run with all attempts."""
    return ShownRun(*_run_values(found, known, now, _large(result=found.result)))


def _run_values(
    found: RunView, known: Known, now: Instant, large: dict[str, int], *, whole: bool = False
) -> tuple[Any, ...]:
    """`whole`: with the tracebacks of its attempts."""
    tried, class_, named = attempts_of(found), known.classes[found.class_id], known.names.get(found.run_id, UNNAMED)
    last = tried[-1] if tried else None
    failed = last_failure(tried)
    due = time_or_none(found.wanted)
    return (
        found.run_id,
        found.job_id,
        named.name,
        named.key,
        class_.task,
        class_.queue,
        show_priority(class_.priority),
        status(found, now),
        TRIGGERS[found.trigger],
        found.parent,
        due if found.nominal is None or found.nominal == found.wanted else time_or_none(found.nominal),
        due,
        time_or_none(found.started_at),
        time_or_none(found.ended_at),
        _duration_ms(found),
        time_or_none(_modified_at(found, last, now)),
        attempt_number(found, tried),
        found.worker_id,
        None if found.worker_id is None else known.workers.get(found.worker_id),
        found.error_type or (failed and failed.error_type),
        found.error or (failed and failed.error),
        lag_ms(found, tried),
        json_of(found.progress),
        f"/v1/runs/{found.run_id}/logs",
        json_of(found.result),
        large,
        _degraded(found.result),
        [show_attempt(one, whole=whole) for one in tried],
    )


def dead_letter(found: RunView, known: Known, now: Instant, kind: int | None = None) -> ShownLetter:
    large = _large(payload=found.payload, result=found.result)
    own = json_of(found.payload), None if kind is None else show_fingerprint(kind)
    return ShownLetter(*(*_run_values(found, known, now, large, whole=True), *own))


def whole_run(found: RunView, known: Known, now: Instant, kind: int | None = None) -> ShownLetter:
    """Show a run with its payload, and with the tracebacks of its attempts."""
    shown, size = dead_letter(found, known, now, kind), len(found.payload or b"")
    if found.state is State.DEAD or size <= LARGEST_SHOWN or "payload" in shown.large:
        return shown
    return msgspec.structs.replace(shown, payload=NOTHING, large={"payload": size, **shown.large})


def _duration_ms(found: RunView) -> int | None:
    if found.started_at is None or found.ended_at is None:
        return None
    return (found.ended_at - found.started_at) // MILLISECOND


class ShownEndedRun(msgspec.Struct, frozen=True, gc=False):
    run_id: RunId
    status: Status
    scheduled_for: str | None
    start_time: str | None
    end_time: str | None
    duration_ms: int | None
    lag_ms: int | None


def ended_run(found: EndedRun) -> ShownEndedRun:
    began, started = found.first_start, found.started_at
    return ShownEndedRun(
        found.run_id,
        ENDED[found.state],
        time_or_none(found.wanted if found.nominal is None else found.nominal),
        time_or_none(started),
        time_or_none(found.ended_at),
        None if started is None else (found.ended_at - started) // MILLISECOND,
        None if began is None else (began - found.wanted) // MILLISECOND,
    )


def status(found: RunView, now: Instant) -> Status:
    tries = found.failures + found.losses
    return shown(found.state, due=found.due, tries=tries, cancelling=found.cancel_at is not None, now=now)


def _modified_at(found: RunView, last: Attempt | None, now: Instant) -> Instant:
    """When the run last changed. The id of a run that was planned ahead contains a future time."""
    known = max(found.started_at or 0, found.ended_at or 0, found.cancel_at or 0, 0 if last is None else last.ended_at)
    return Instant(known) if known else min(created_at(found.run_id), now)


def task(found: Task) -> dict[str, Any]:
    return {
        "name": found.name,
        "schema": msgspec.Raw(found.schema),
        "defaults": msgspec.Raw(found.defaults),
        "roles": found.roles,
        "announced_at": time_or_none(found.announced_at),
    }


def worker(found: Worker, now: Instant) -> dict[str, Any]:
    offer, load = read_offer(found.info), read_load(found.load)
    return {
        "worker_id": found.worker_id,
        "name": found.name,
        "host": found.host,
        "started_at": time_or_none(found.started_at),
        "seen_at": time_or_none(found.beat_at),
        "lease": show_duration(found.lease),
        "status": found.status(now),
        "draining": found.draining,
        "drain_requested_at": time_or_none(found.drain_at),
        "version": (offer.version if offer is not None else None) or None,
        "running": None if load is None else load.running,
        "slots": {} if load is None else load.slots,
        "free_slots": {} if load is None else free_slots(load),
        "resources_used": None if load is None else {"cpu": load.cpu_milli / 1_000, "memory_mb": load.memory_mb},
        "tasks": sorted(offer.tasks) if offer is not None else [],
        "queues": sorted(offer.queues) if offer is not None else [],
        "labels": sorted(offer.labels) if offer is not None else [],
        "offer": _offer(offer),
    }


def _offer(found: Offer | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "tasks": sorted(found.tasks),
        "queues": sorted(found.queues),
        "labels": sorted(found.labels),
        "resources": show_resources(found.resources),
        "slots": dict(found.slots),
    }


def class_(found: ClassKey) -> dict[str, Any]:
    return {
        "task": found.task,
        "priority": show_priority(found.priority),
        "labels": found.labels,
        "resources": show_resources(found.size),
    }


def occurrence(found: RunView | LedgerEntry) -> dict[str, Any]:
    """Show the outcome of an occurrence, or of a time range of occurrences that share one."""
    if isinstance(found, RunView):
        return _occurrence_of_run(found)
    return {
        "scheduled_for": time_or_none(found.first),
        "outcome": found.outcome,
        "reason": found.reason,
        "run_id": found.run_id,
        "lag_ms": None,
        "until": time_or_none(found.last) if found.count > 1 else None,
        "count": found.count,
    }


def outcome_of(found: RunView) -> str:
    """The outcome of an occurrence that has a run."""
    tried = attempts_of(found)
    return _fate(found, lag_ms(found, tried), started=bool(tried) or found.started_at is not None)[0]


def _occurrence_of_run(found: RunView) -> dict[str, Any]:
    tried = attempts_of(found)
    lag = lag_ms(found, tried)
    outcome, reason = _fate(found, lag, started=bool(tried) or found.started_at is not None)
    return {
        "scheduled_for": time_or_none(found.wanted if found.nominal is None else found.nominal),
        "outcome": outcome,
        "reason": reason,
        "run_id": found.run_id,
        "lag_ms": lag,
        "until": None,
        "count": 1,
    }


def _fate(found: RunView, lag: int | None, *, started: bool) -> tuple[str, str | None]:
    asked_by = None if found.trigger is Trigger.SCHEDULE else found.trigger.name.lower()
    if started:
        return "late" if lag is not None and lag * MILLISECOND > GRACE else "started", asked_by
    match found.state:
        case State.CANCELLED:
            return "skipped", "cancelled"
        case State.EXPIRED:
            return "missed", "expired"
        case _:
            return "waiting", asked_by


def etag(found: Job) -> str:
    """The ETag of this version of this job: another job with its key starts with the same version numbers."""
    return f'"{found.version}-{found.job_id.hex[-8:]}"'


def json_of(stored: bytes | None) -> msgspec.Raw:
    """Send stored JSON as it is; null for a value that is in object storage."""
    return NOTHING if stored is None or stored.startswith(MARK) else msgspec.Raw(stored)


def _degraded(result: bytes | None) -> list[str]:
    if not _is_kept(result):
        return []
    kept = read_reference(result)
    return [] if kept is None or kept.key else ["result"]


def _large(payload: bytes | None = None, result: bytes | None = None) -> dict[str, int]:
    """The sizes of those values that are in object storage."""
    if not (_is_kept(payload) or _is_kept(result)):
        return {}
    references = {"payload": read_reference(payload), "result": read_reference(result)}
    return {name: found.size for name, found in references.items() if found is not None and found.key}


def _is_kept(stored: bytes | None) -> bool:
    """Whether it may be a reference to object storage, which few are: to read one takes longer."""
    return stored is not None and stored.startswith(MARK)
