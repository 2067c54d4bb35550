"""What users see of jobs, runs, tasks and workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from oncue.domain.fingerprint import show_fingerprint
from oncue.domain.ids import ClassId, RunId, WorkerId, created_at
from oncue.domain.instants import MILLISECOND, NEVER, Instant, show_duration
from oncue.domain.job import Job, JobStatus, Snapshot
from oncue.domain.ledger import Entry as LedgerEntry
from oncue.domain.load import free_slots, read_load
from oncue.domain.placement import ClassKey, Offer, read_offer
from oncue.domain.planning import GRACE
from oncue.domain.reference import MARK, read_reference
from oncue.domain.run import Attempt, RunView, State, Status, Trigger, shown
from oncue.domain.shown_definition import show_definition, show_priority, show_resources
from oncue.domain.tried import attempt_number, attempts_of, lag_ms, last_failure, show_attempt, time_or_none
from oncue.engines.port import EndedRun, JobName, Task, Worker

Classes = Mapping[ClassId, ClassKey]

NOTHING = msgspec.Raw(b"null")
UNNAMED = JobName()
TRIGGERS = {one: one.name.lower() for one in Trigger}  # used for every run: the name of an enum is slow to read
LARGEST_SHOWN = 64 * 1024  # bytes of a payload that is shown with its run, unless the run is dead


def job(
    snap: Snapshot,
    user_id: str | None,
    last: dict[str, Any] | None,
    warnings: Sequence[Mapping[str, str]] = (),
    payload: bytes | None = None,
    recent: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Show a job: its definition as requested, with defaults filled in, and its status. `last`: its `last_run`.

    `payload`: as read from object storage; without it a large one is not shown. `recent`: its last ended runs, if they
    were asked for.
    """
    found = snap.job
    return {
        "job_id": found.job_id,
        "user_id": user_id,
        "status": found.status,
        **show_definition(found.spec),
        "payload": json_of(payload or found.payload),
        "large": _large(payload=found.payload),
        "recent": recent,
        "next_run_at": time_or_none(next_run_at(snap)),
        "last_run": last,
        "created_at": time_or_none(found.created_at),
        "updated_at": time_or_none(found.updated_at),
        "version": found.version,
        "warnings": warnings,
    }


def last_run(found: RunView, now: Instant) -> dict[str, Any]:
    """Show the part of a run that is shown with its job."""
    failed = None if found.attempts is None else last_failure(attempts_of(found))
    return {
        "run_id": found.run_id,
        "status": status(found, now),
        "scheduled_for": time_or_none(found.wanted if found.nominal is None else found.nominal),
        "start_time": time_or_none(found.started_at),
        "end_time": time_or_none(found.ended_at),
        "error_type": found.error_type or (failed and failed.error_type),
        "error_message": found.error or (failed and failed.error),
    }


def next_run_at(snap: Snapshot) -> Instant | None:
    """The first instant its schedule has yet to run, already planned or not. Runs started by hand do not count."""
    if snap.job.status is not JobStatus.ACTIVE:
        return None
    own = [run.wanted for run in snap.waiting if run.scheduled or run.run_id == snap.job.job_id]
    if snap.cursor is not None and snap.cursor.next_at != NEVER:
        own.append(snap.cursor.next_at)
    return min(own, default=None)


class Known(msgspec.Struct, frozen=True):
    """What is shown of runs beside themselves: their classes, what their jobs and their workers are called."""

    classes: Classes
    names: Mapping[RunId, JobName] = {}
    workers: Mapping[WorkerId, str] = {}


def run(found: RunView, known: Known, now: Instant, *, whole: bool = False) -> dict[str, Any]:
    """Show a run with all attempts; `whole`: with their tracebacks."""
    tried, class_, named = attempts_of(found), known.classes[found.class_id], known.names.get(found.run_id, UNNAMED)
    last = tried[-1] if tried else None
    failed = last_failure(tried)
    return {
        "run_id": found.run_id,
        "job_id": found.job_id,
        "job_name": named.name,
        "job_key": named.key,
        "task": class_.task,
        "queue": class_.queue,
        "priority": show_priority(class_.priority),
        "status": status(found, now),
        "trigger": TRIGGERS[found.trigger],
        "parent": found.parent,
        "scheduled_for": time_or_none(found.wanted if found.nominal is None else found.nominal),
        "start_time": time_or_none(found.started_at),
        "end_time": time_or_none(found.ended_at),
        "duration_ms": _duration_ms(found),
        "modified_time": time_or_none(_modified_at(found, last, now)),
        "attempt_number": attempt_number(found, tried),
        "executor_id": found.worker_id,
        "executor_name": None if found.worker_id is None else known.workers.get(found.worker_id),
        "error_type": found.error_type or (failed and failed.error_type),
        "error_message": found.error or (failed and failed.error),
        "lag_ms": lag_ms(found, tried),
        "progress": json_of(found.progress),
        "log_url": f"/v1/runs/{found.run_id}/logs",
        "result": json_of(found.result),
        "large": _large(result=found.result),
        "degraded": _degraded(found.result),
        "attempts": [show_attempt(one, whole=whole) for one in tried],
    }


def dead_letter(found: RunView, known: Known, now: Instant, kind: int | None = None) -> dict[str, Any]:
    shown = run(found, known, now, whole=True)
    shown["payload"] = json_of(found.payload)
    shown["large"] = _large(payload=found.payload, result=found.result)
    shown["fingerprint"] = None if kind is None else show_fingerprint(kind)
    return shown


def whole_run(found: RunView, known: Known, now: Instant, kind: int | None = None) -> dict[str, Any]:
    """Show a run with its payload, and with the tracebacks of its attempts."""
    shown, size = dead_letter(found, known, now, kind), len(found.payload or b"")
    if found.state is State.DEAD or size <= LARGEST_SHOWN or "payload" in shown["large"]:
        return shown
    return {**shown, "payload": NOTHING, "large": {"payload": size, **shown["large"]}}


def _duration_ms(found: RunView) -> int | None:
    if found.started_at is None or found.ended_at is None:
        return None
    return (found.ended_at - found.started_at) // MILLISECOND


def ended_run(found: EndedRun) -> dict[str, Any]:
    began, started = found.first_start, found.started_at
    return {
        "run_id": found.run_id,
        "status": Status[found.state.name],
        "scheduled_for": time_or_none(found.wanted if found.nominal is None else found.nominal),
        "start_time": time_or_none(started),
        "end_time": time_or_none(found.ended_at),
        "duration_ms": None if started is None else (found.ended_at - started) // MILLISECOND,
        "lag_ms": None if began is None else (began - found.wanted) // MILLISECOND,
    }


def status(found: RunView, now: Instant) -> Status:
    tries = found.failures + found.losses
    return shown(found.state, due=found.due, tries=tries, cancelling=found.cancel_at is not None, now=now)


def _modified_at(found: RunView, last: Attempt | None, now: Instant) -> Instant:
    """When the run last changed. The id of a run that was planned ahead contains a future time."""
    known = (found.started_at or 0, found.ended_at or 0, found.cancel_at or 0, (last and last.ended_at) or 0)
    return Instant(max(known)) if any(known) else min(created_at(found.run_id), now)


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
    kept = read_reference(result)
    return [] if kept is None or kept.key else ["result"]


def _large(**stored: bytes | None) -> dict[str, int]:
    """The sizes of those values that are in object storage."""
    references = {name: read_reference(value) for name, value in stored.items()}
    return {name: found.size for name, found in references.items() if found is not None and found.key}
