"""Calls on what runs things: tasks, queues, workers, and how the whole of it does."""

from __future__ import annotations

from typing import Any

from oncue.client.call import Call, Page, anything, change, field, get, model, page_of, path
from oncue.shapes.fleet import Queue, Task, Worker


def tasks() -> Call[tuple[Task, ...]]:
    """The tasks that workers have announced."""
    return get(path("tasks"), field("tasks", tuple[Task, ...]))


def workers() -> Call[tuple[Worker, ...]]:
    """The workers that are registered."""
    return get(path("workers"), field("workers", tuple[Worker, ...]))


def queues() -> Call[tuple[Queue, ...]]:
    """The queues, what is in each, and who takes from it."""
    return get(path("queues"), field("queues", tuple[Queue, ...]))


def pause_queue(queue: str) -> Call[Queue]:
    """Nothing of it starts until it is resumed; what runs goes on. For administrators."""
    return change("POST", path("queues", queue, "pause"), model(Queue))


def resume_queue(queue: str) -> Call[Queue]:
    """Workers take from it again. For administrators."""
    return change("POST", path("queues", queue, "resume"), model(Queue))


def stats() -> Call[dict[str, Any]]:
    """Counts of what there is and what happened, as the server tells them."""
    return get(path("stats"), anything)


def audit_page(*, limit: int | None = None, page_token: str | None = None) -> Call[Page[dict[str, Any]]]:
    """Who did what, newest first, as the server tells it."""
    return get(path("audit"), page_of("audit", dict[str, Any]), limit=limit, page_token=page_token)
