"""Tasks, queues and workers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Code that jobs can run, identified by its name. `schema` is the JSON Schema of its payload."""

    name: str
    schema: Any = None
    defaults: dict[str, Any] = {}
    roles: tuple[str, ...] = ()
    announced_at: datetime | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused_since: datetime | None = None
    """null: the queue is not paused"""
    depth: int = 0
    """scheduled, waiting and running runs"""
    classes: tuple[dict[str, Any], ...] = ()
    """the classes of its runs: `task`, `priority`, `labels`, `resources`, and the `depth` of each"""
    workers: tuple[str, ...] = ()
    """ids of the live workers that take runs from it, without draining ones"""


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    name: str | None = None
    host: str | None = None
    started_at: datetime | None = None
    seen_at: datetime | None = None
    lease: str | None = None
    draining: bool = False
    offer: dict[str, Any] | None = None
