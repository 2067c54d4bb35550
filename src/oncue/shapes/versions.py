"""What an edit of a job would do, and what earlier ones did."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from oncue.shapes.applied import ChangedField
from oncue.shapes.jobs import Job, Preview


class WithdrawnRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is planned already and would not start."""

    run_id: UUID
    scheduled_for: datetime | None = None


class EditPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit would do. Nothing was changed."""

    job: Job
    """the job as it would be"""
    changes: dict[str, ChangedField] = {}
    before: Preview
    """its next occurrences now"""
    after: Preview
    """its next occurrences with this change"""
    withdrawn: tuple[WithdrawnRun, ...] = ()
    """planned runs that would not start, up to 100"""
    withdrawn_count: int | None = None
    """how many; null: more than 1,000 runs wait, and all of them would follow the change"""
    takes_effect_at: datetime | None = None
    """when the first run with the changed definition starts; null: none does"""


class JobVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One definition that a job has or had. `definition` has every field, as a job shows it."""

    version: int
    since: datetime | None = None
    """null: the version before is forgotten"""
    until: datetime | None = None
    """null: the job has this definition now"""
    user_id: str | None = None
    """who defined it, if the audit log still has this and the caller may read it"""
    action: str | None = None
    """in the audit log: `job.create`, `job.edit`, `job.put`"""
    definition: dict[str, Any] = {}
    changes: dict[str, ChangedField] = {}
    """against the version before, if that is known"""
