"""Tasks, queues, workers, and what the self-audit found."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec


class TaskInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Code that jobs can run, identified by its name. `schema` is the JSON Schema of its payload."""

    name: str
    schema: Any = None
    defaults: dict[str, Any] = {}
    roles: tuple[str, ...] = ()
    announced_at: datetime | None = None
    workers: int = 0
    """live workers that have it and take runs"""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused_since: datetime | None = None
    """null: the queue is not paused"""
    paused_by: str | None = None
    """the user who paused it; for administrators, and null if it is not known"""
    depth: int = 0
    """scheduled, waiting and running runs"""
    due: int = 0
    """runs that could start now: due, and held by nothing; counted up to 10,000 over all queues"""
    more: bool = False
    """whether more may be due than were counted"""
    running: int = 0
    """runs that workers execute now"""
    oldest_due_seconds: float | None = None
    """how long the first of the due runs has been due; null: none is"""
    lag_p50_ms: float | None = None
    """how late half of the attempts started that ended in the last five minutes; null: unknown"""
    lag_p99_ms: float | None = None
    """the same for 99 of 100"""
    rate_per_minute: float | None = None
    """attempts that ended a minute, over the last five minutes; null: unknown"""
    drain_seconds: float | None = None
    """until all due runs have started at this rate; null: unknown, or never"""
    classes: tuple[dict[str, Any], ...] = ()
    """the classes of its runs: `task`, `priority`, `labels`, `resources`, and `depth` and `due` of each"""
    workers: tuple[UUID, ...] = ()
    """ids of the live workers that take runs from it, without draining ones"""
    draining_workers: tuple[UUID, ...] = ()
    """ids of the live workers that would take runs from it, and are draining"""


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: UUID
    name: str | None = None
    host: str | None = None
    started_at: datetime | None = None
    seen_at: datetime | None = None
    """its last heartbeat"""
    lease: str | None = None
    status: str | None = None
    """`active`, `draining` (takes no new runs) or `no_heartbeat` (for longer than its lease)"""
    draining: bool = False
    drain_requested_at: datetime | None = None
    """when an administrator drained it; null: it takes runs, or drains because its process stops"""
    version: str | None = None
    """of oncue; null: too old to say"""
    running: int | None = None
    """runs that it executes, as of its last heartbeat; null: it has not said"""
    slots: dict[str, int] = {}
    """how many runs of each kind it takes at a time: `loop`, `thread`, `process`"""
    free_slots: dict[str, int] = {}
    """of these, not in use"""
    resources_used: dict[str, float] | None = None
    """`cpu` and `memory_mb` that its runs asked for"""
    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    offer: dict[str, Any] | None = None
    """what it can run, with `resources` and `slots` by task"""


class QueueScaling(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers a queue needs, and why."""

    queue: str
    workers: int = 0
    """live workers that take runs from it"""
    desired: int = 0
    """how many there should be"""
    utilisation: float = 0.0
    """share of their slots or event loops in use, 0 to 1"""
    due: int = 0
    """runs that could start now; counted up to 10,000 over all queues"""
    more: bool = False
    """whether there are more than were counted"""
    oldest_due_seconds: float = 0.0
    seconds_of_work: float = 0.0
    """what one worker would need for the due runs"""


class EnqueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that an application enqueued in its own transaction and that is not created yet."""

    job_id: UUID
    """the id that the job will have"""
    status: str
    """`waiting`, or `refused`: it stays until an administrator retries or discards it"""
    task: str
    user_id: str = ""
    db_role: str = ""
    """the role of the database that enqueued it"""
    enqueued_at: datetime | None = None
    retry_at: datetime | None = None
    """when it is tried again, if it was tried"""
    why: str | None = None
    """why it was not created"""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something stored that is not as it must be: a bug in oncue, or a database that was changed from outside."""

    check: str
    """`cursor`, `unplannable` and `occurrence` of a job, `lane`, `orphan`, `expiry` and `forgotten_run` of a run, \
`sums` of all"""
    object_id: UUID | None = None
    """the job or run; null: all of them"""
    detail: str = ""
    """what is wrong"""
    first_seen: datetime | None = None
    seen_at: datetime | None = None
    cleared_at: datetime | None = None
    """when the check held again; null: it is open"""
