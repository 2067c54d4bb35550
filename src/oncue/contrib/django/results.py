"""A run of oncue as the result of a Django task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from oncue.contrib.django.framework import Task, TaskError, TaskResult, TaskResultStatus
from oncue.domain.ids import created_at
from oncue.domain.instants import moment
from oncue.shapes.runs import Attempt, Run

_STATUSES = {
    "scheduled": TaskResultStatus.READY,
    "queued": TaskResultStatus.READY,
    "retrying": TaskResultStatus.READY,
    "running": TaskResultStatus.RUNNING,
    "cancelling": TaskResultStatus.RUNNING,
    "succeeded": TaskResultStatus.SUCCESSFUL,
}
_FAILURES = ("failed", "timed_out", "lost")
_NO_EXCEPTION = "oncue.client.errors.RunFailed"  # of runs that ended without an exception of the task
_TIMEOUT = "builtins.TimeoutError"


def created(identifier: UUID) -> datetime:
    """Return when a job was created, by its id. Ids of stand-ins in tests say nothing of time."""
    found: datetime = moment(created_at(identifier)) if identifier.version == 7 else timezone.now()
    return found


def new_result(task: Task, result_id: str, args: list[Any] | tuple[Any, ...], kwargs: dict[str, Any]) -> TaskResult:
    """Return the result of a task that was just enqueued. TypeError, ValueError: an argument is not JSON."""
    return TaskResult(
        task=task,
        id=result_id,
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def result_of(run: Run, task: Task, args: list[Any], kwargs: dict[str, Any], value: Any) -> TaskResult:
    """Return what is known of a run. `value` is what the task returned."""
    status = _STATUSES.get(run.status, TaskResultStatus.FAILED)
    first = run.attempts[0].start_time if run.attempts else run.start_time
    result = TaskResult(
        task=task,
        id=str(run.run_id),
        status=status,
        enqueued_at=created(run.run_id),
        started_at=first,
        finished_at=run.end_time,
        last_attempted_at=run.start_time,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=list(_errors(run)),
        worker_ids=list(_workers(run, running=status == TaskResultStatus.RUNNING)),
    )
    object.__setattr__(result, "_return_value", value)  # as Django's own backends do: no parameter is for it
    return result


def result_of_row(
    identifier: UUID, task: Task, args: list[Any], kwargs: dict[str, Any], row: Mapping[str, Any]
) -> TaskResult:
    """Return what is known of a job in the outbox. One that was refused cannot start, unless somebody retries it."""
    result = new_result(task, str(identifier), args, kwargs)
    object.__setattr__(result, "enqueued_at", created(identifier))
    if row["refused"]:
        object.__setattr__(result, "status", TaskResultStatus.FAILED)
        result.errors.append(TaskError(exception_class_path=_NO_EXCEPTION, traceback=f"{row['why']}\n"))
    return result


def _workers(run: Run, *, running: bool) -> Iterator[str]:
    """Yield the worker of every attempt, also of the one that runs."""
    yield from (str(attempt.executor_id) for attempt in run.attempts)
    if running:
        yield str(run.executor_id)


def _errors(run: Run) -> Iterator[TaskError]:
    yield from (_error(attempt) for attempt in run.attempts if attempt.outcome in _FAILURES)
    if run.status in ("cancelled", "expired"):
        yield TaskError(exception_class_path=_NO_EXCEPTION, traceback=f"The run is {run.status}.\n")


def _error(attempt: Attempt) -> TaskError:
    kind = attempt.error_class or (_TIMEOUT if attempt.outcome == "timed_out" else _NO_EXCEPTION)
    said = attempt.traceback or f"{attempt.error_type}: {attempt.error_message}\n"
    return TaskError(exception_class_path=kind, traceback=said)
