"""What the server tells, as frozen values. Fields it adds later are passed over; statuses and the like stay text, so
that a value this client has never heard of is kept as it came. Times are aware datetimes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

FINAL = frozenset({"succeeded", "dead", "cancelled", "expired"})


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a run on a worker."""

    number: int
    executor_id: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    outcome: str | None = None
    error_type: str | None = None
    error_message: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    done: int | float | None = None
    total: int | float | None = None


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a run that is shown with its job."""

    run_id: str
    status: str
    scheduled_for: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    error_type: str | None = None
    error_message: str | None = None


class Run(LastRun, frozen=True, kw_only=True):
    """One execution of a job."""

    job_id: str
    task: str | None = None
    modified_time: datetime | None = None
    attempt_number: int = 0
    executor_id: str | None = None
    lag_ms: int | None = None
    progress: Progress | None = None
    log_url: str | None = None
    result: Any = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def final(self) -> bool:
        """Nothing will ever change about it."""
        return self.status in FINAL


class DeadLetter(Run, frozen=True, kw_only=True):
    """A run that used up its attempts, with what it was given."""

    payload: Any = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its definition with every default filled in, and how it stands."""

    job_id: str
    task: str
    status: str
    user_id: str | None = None
    name: str | None = None
    schedule: dict[str, Any] = {}
    payload: Any = None
    queue: str = "default"
    priority: str = "normal"
    tags: tuple[str, ...] = ()
    max_retries: int | None = None
    retry: dict[str, Any] = {}
    timeout: str | None = None
    overlap: str | None = None
    catch_up: str | None = None
    catch_up_window: str | None = None
    start_within: str | None = None
    on_lost: str | None = None
    key: str | None = None
    group: str | None = None
    concurrency: dict[str, Any] | None = None
    rate: dict[str, Any] | None = None
    resources: dict[str, Any] = {}
    labels: tuple[str, ...] = ()
    preemptible: bool = False
    notify: tuple[dict[str, Any], ...] | None = None
    next_run_at: datetime | None = None
    last_run: LastRun | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int | None = None


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `jobs.status`."""

    job_id: str
    latest_run: Run | None = None


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one nominal instant, or of a stretch of `count` of them up to `until` that share one fate."""

    scheduled_for: datetime
    outcome: str
    reason: str | None = None
    run_id: str | None = None
    lag_ms: int | None = None
    until: datetime | None = None
    count: int = 1


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why something has or has not run yet. `holder` is the run in its way, `position` its place in the line."""

    state: str
    reason: str
    detail: str = ""
    holder: str | None = None
    position: int | None = None


class PreviewedOccurrence(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    local: str = ""
    note: str | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule fires, in words and as instants. `skipped` tells which ones `dst_gap: skip` takes away."""

    description: str = ""
    occurrences: tuple[PreviewedOccurrence, ...] = ()
    skipped: tuple[str, ...] = ()


class Requeued(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters were requeued, and the runs that were made of them."""

    count: int
    run_ids: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Code that can be run, known by name; `schema` is the JSON Schema of its payload."""

    name: str
    schema: Any = None
    defaults: dict[str, Any] = {}
    roles: tuple[str, ...] = ()
    announced_at: datetime | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused_since: datetime | None = None
    depth: int = 0
    classes: tuple[dict[str, Any], ...] = ()
    workers: tuple[str, ...] = ()


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    name: str | None = None
    host: str | None = None
    started_at: datetime | None = None
    seen_at: datetime | None = None
    lease: str | None = None
    draining: bool = False
    offer: dict[str, Any] | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    user_id: str
    role: str
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Whose key a client asks with."""

    user_id: str
    role: str
    key_id: str


class NewKey(Key, frozen=True, kw_only=True):
    """A key with its secret, which is told this once."""

    key: str

    def __repr__(self) -> str:  # what is printed ends in logs
        return f"NewKey(key_id={self.key_id!r}, user_id={self.user_id!r}, role={self.role!r}, key=…)"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something changed. `kind` says what about: `run`, `job`, or `resync`."""

    kind: str
    id: str | None = None
    data: Any = None

    @property
    def resync(self) -> bool:
        """Changes may have been missed before this one: read anew whatever you keep a copy of."""
        return self.kind == "resync"


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list. It may be short, even empty, while the token says that there is more."""

    items: tuple[T, ...]
    next_page_token: str | None = None
