"""What events tell of jobs; of runs they tell what a list of runs does."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec


class ChangedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a job that an event has, after the job was created or changed."""

    job_id: UUID
    name: str | None = None
    task: str
    status: str
    next_run_at: datetime | None = None
    updated_at: datetime | None = None
    version: int | None = None
