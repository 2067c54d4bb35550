"""What a look-up finds: jobs, runs, workers and names."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from oncue.shapes.runs import LastRun


class FoundJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that matches, and by what."""

    job_id: UUID
    name: str | None = None
    key: str | None = None
    task: str | None = None
    status: str | None = None
    schedule: dict[str, Any] = {}
    last_run: LastRun | None = None
    """as of a listed job: how the run of a job ended that ran once"""
    match: str = "id"
    """`id`; `ending` or `beginning` of the id; `key`; `name` of an active or paused job; `ended_name` of the job that \
ended last; `prefix` of the name or the key"""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that matches by its id."""

    run_id: UUID
    job_id: UUID
    job_name: str | None = None
    task: str | None = None
    status: str | None = None
    match: str = "id"
    """`id`, `ending` or `beginning`"""


class FoundWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that matches by its id or its name."""

    worker_id: UUID
    name: str | None = None
    match: str = "id"
    """`id`, `ending`, `beginning`, `name` or `prefix` of the name"""


class FoundName(msgspec.Struct, frozen=True, kw_only=True):
    """A task, queue or tag that matches by its name."""

    name: str
    match: str = "name"
    """`name` or `prefix`"""


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """What a text may mean: up to 5 of each kind, the strongest match first."""

    jobs: tuple[FoundJob, ...] = ()
    runs: tuple[FoundRun, ...] = ()
    workers: tuple[FoundWorker, ...] = ()
    tasks: tuple[FoundName, ...] = ()
    queues: tuple[FoundName, ...] = ()
    tags: tuple[FoundName, ...] = ()
    looked_back_to: datetime | None = None
    """how far the names of ended jobs were searched; null: all of them"""
