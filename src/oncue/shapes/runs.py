"""A run and its attempts, and dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

FINAL = frozenset({"succeeded", "dead", "cancelled", "expired"})


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a run on a worker."""

    number: int
    executor_id: UUID | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    outcome: str | None = None
    error_type: str | None = None
    error_class: str | None = None
    """the dotted path of the exception's class"""
    error_message: str | None = None
    traceback: str | None = None
    """the end of it; only where a single run or a dead letter is shown"""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    done: int | float | None = None
    total: int | float | None = None


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a run that is shown with its job."""

    run_id: UUID
    """the run of a one-shot job has the job's id"""
    status: str
    """`scheduled`, `queued`, `running`, `retrying`, `cancelling`, `succeeded`, `dead`, `cancelled`, `expired`: see \
[states](states.md)"""
    scheduled_for: datetime | None = None
    """the nominal instant"""
    start_time: datetime | None = None
    """when a worker took it for the last attempt"""
    end_time: datetime | None = None
    """null until it is final"""
    error_type: str | None = None
    """of the last failure or loss; a preemption is neither"""
    error_message: str | None = None
    """its message"""


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, as it is shown with its job."""

    run_id: UUID
    status: str
    scheduled_for: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    duration_ms: int | None = None
    lag_ms: int | None = None


class Run(LastRun, frozen=True, kw_only=True):
    """One execution of a job."""

    job_id: UUID
    job_name: str | None = None
    """the name of its job"""
    job_key: str | None = None
    """the stable key of its job"""
    task: str | None = None
    queue: str | None = None
    priority: str | None = None
    trigger: str | None = None
    """what created it: `schedule`, `run_now`, `backfill`, `requeue` (run again), `catch_up`"""
    parent: UUID | None = None
    """the run that it runs again"""
    due_time: datetime | None = None
    """when its first attempt was due: `scheduled_for` and the jitter; of what was asked for afterwards, to run it \
again or as a backfill, when that was"""
    duration_ms: int | None = None
    """how long the last attempt took; null until the run is final"""
    modified_time: datetime | None = None
    """the time of the last change"""
    attempt_number: int = 0
    """how many attempts have started; a preempted one counts, one that returned to the queue because its worker \
stopped does not"""
    executor_id: UUID | None = None
    """the worker"""
    executor_name: str | None = None
    """the worker's name; null when the worker is gone for longer than the history is kept"""
    lag_ms: int | None = None
    """how long after `due_time` the first attempt started; one that returned to the queue because its worker stopped \
does not count"""
    progress: Progress | None = None
    """`{"done", "total"}` while it is running, if the task reports it"""
    log_url: str | None = None
    """the path of its log"""
    result: Any = None
    """the task's return value"""
    large: dict[str, int] = {}
    """values that are too large for this answer, where they are null, and their sizes in bytes, like \
`{"result": 20000000}`; `GET /v1/runs/{id}/result` and `/payload` return them"""
    degraded: tuple[str, ...] = ()
    """`["result"]` if the run succeeded but its result could not be kept"""
    attempts: tuple[Attempt, ...] = ()
    """the last 50 ended attempts, each with `number`, `executor_id`, `start_time`, `end_time`, `outcome` \
(`failed`, `timed_out`, `lost`, `preempted`, `cancelled`, `succeeded`), `error_type`, `error_class`, `error_message`, \
`traceback`"""

    @property
    def final(self) -> bool:
        """Whether the run has ended. An ended run never changes."""
        return self.status in FINAL


class WholeRun(Run, frozen=True, kw_only=True):
    """A run with its payload, and with the tracebacks of its attempts."""

    payload: Any = None
    """null above 64 KiB, unless the run is dead: `large` has its size then"""
    fingerprint: str | None = None
    """the [group of errors](#error-groups) that its last error belongs to, while it is an open dead letter"""


class DeadLetter(WholeRun, frozen=True, kw_only=True):
    """A run that failed permanently, with its payload."""


class ValueLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link by which anyone can read a large value from object storage for a while, without an API key."""

    url: str
    expires_at: datetime
    size: int
    sha256: str
    """of the bytes, to compare them with"""


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one field."""

    path: str
    code: str
    message: str


class RefusedLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter that its new payload does not fit. It stays a dead letter."""

    run_id: UUID
    errors: tuple[FieldProblem, ...] = ()


class Requeued(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters run again, and the ids of their new runs."""

    count: int
    run_ids: tuple[UUID, ...] = ()
    refused: tuple[RefusedLetter, ...] = ()
    """those that the new payload does not fit, up to 1,000"""
