"""Calls on the server, tasks, queues, workers, statistics, groups of errors, the audit log and the self-audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from oncue.client.call import Call, Id, Page, anything, change, field, get, model, page_of, path
from oncue.shapes.accounts import AuditLine
from oncue.shapes.errors import ErrorGroup
from oncue.shapes.fleet import EnqueuedJob, Finding, Queue, QueueScaling, TaskInfo, Worker
from oncue.shapes.lookup import Lookup
from oncue.shapes.runs import Run
from oncue.shapes.server import Process, Server


def server() -> Call[Server]:
    """Get the server's version, limits and time."""
    return get(path("server"), model(Server))


def processes() -> Call[tuple[Process, ...]]:
    """List the API, scheduler and worker processes that run on the server's database."""
    return get(path("processes"), field("processes", tuple[Process, ...]))


def tasks() -> Call[tuple[TaskInfo, ...]]:
    """List the tasks that workers have registered."""
    return get(path("tasks"), field("tasks", tuple[TaskInfo, ...]))


def register_tasks(tasks: Iterable[Mapping[str, Any]]) -> Call[tuple[TaskInfo, ...]]:
    """Register tasks without a worker, each with its `name`, and perhaps `schema`, `defaults` and `roles`: jobs can be
    created before the first worker that has them starts. For administrators."""
    return change("PUT", path("tasks"), field("tasks", tuple[TaskInfo, ...]), {"tasks": list(tasks)})


def workers() -> Call[tuple[Worker, ...]]:
    """List the registered workers."""
    return get(path("workers"), field("workers", tuple[Worker, ...]))


def worker(worker: Id, /) -> Call[Worker]:
    """Get one worker."""
    return get(path("workers", worker), model(Worker))


def worker_runs_page(worker: Id, /, *, limit: int | None = None, page_token: str | None = None) -> Call[Page[Run]]:
    """List the runs that a worker holds now; administrators see all users' runs."""
    return get(path("workers", worker, "runs"), page_of("runs", Run), limit=limit, page_token=page_token)


def drain_worker(worker: Id, /) -> Call[Worker]:
    """Drain a worker: it takes no new runs until it is resumed, and finishes its own. For administrators."""
    return change("POST", path("workers", worker, "drain"), model(Worker))


def resume_worker(worker: Id, /) -> Call[Worker]:
    """Resume a drained worker. For administrators."""
    return change("POST", path("workers", worker, "resume"), model(Worker))


def queues() -> Call[tuple[Queue, ...]]:
    """List the queues with their depth and workers."""
    return get(path("queues"), field("queues", tuple[Queue, ...]))


def queue(name: str) -> Call[Queue]:
    """Get one queue."""
    return get(path("queues", name), model(Queue))


def pause_queue(queue: str) -> Call[Queue]:
    """Pause a queue; active runs continue. For administrators."""
    return change("POST", path("queues", queue, "pause"), model(Queue))


def resume_queue(queue: str) -> Call[Queue]:
    """Resume a paused queue. For administrators."""
    return change("POST", path("queues", queue, "resume"), model(Queue))


def stats() -> Call[dict[str, Any]]:
    """Get run counts by status, task and queue."""
    return get(path("stats"), anything)


def lookup(q: str, *, kind: str | None = None) -> Call[Lookup]:
    """Find jobs, runs, workers, tasks, queues and tags by an id, the end of one, a key, or the beginning of a name.

    `kind`: only these, separated by commas, like "job,run".
    """
    return get(path("lookup"), model(Lookup), q=q, kind=kind)


def counts(*, user_id: str | None = None) -> Call[dict[str, Any]]:
    """Count jobs and runs by status, and dead letters, up to 10,001 of each; `user_id` is for administrators."""
    return get(path("counts"), anything, user_id=user_id)


def scaling() -> Call[tuple[QueueScaling, ...]]:
    """Get how many workers each queue needs. For administrators."""
    return get(path("scaling"), field("queues", tuple[QueueScaling, ...]))


def audit_page(
    *,
    object_id: Id | None = None,
    action: str | None = None,
    user_id: str | None = None,
    start_time: datetime | str | None = None,
    end_time: datetime | str | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> Call[Page[AuditLine]]:
    """List the audit log, newest first: of one object, action, user (for administrators) or time range."""
    return get(
        path("audit"),
        page_of("audit", AuditLine),
        object_id=object_id,
        action=action,
        user_id=user_id,
        start_time=start_time,
        end_time=end_time,
        limit=limit,
        page_token=page_token,
    )


def outbox_page(
    *, status: str | None = None, limit: int | None = None, page_token: str | None = None
) -> Call[Page[EnqueuedJob]]:
    """List jobs that applications enqueued in their own transactions and that are not created yet, oldest first.
    `status`: only those that are "waiting" or "refused". For administrators."""
    return get(path("outbox"), page_of("outbox", EnqueuedJob), status=status, limit=limit, page_token=page_token)


def findings_page(*, limit: int | None = None, page_token: str | None = None) -> Call[Page[Finding]]:
    """List what the self-audit found, open findings first. For administrators."""
    return get(path("findings"), page_of("findings", Finding), limit=limit, page_token=page_token)


def errors_page(*, limit: int | None = None, page_token: str | None = None) -> Call[Page[ErrorGroup]]:
    """List groups of errors, those with the newest failure first. Dead letters take a group's `fingerprint`."""
    return get(path("errors"), page_of("errors", ErrorGroup), limit=limit, page_token=page_token)
