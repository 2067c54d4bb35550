"""The answer to `POST /jobs/apply`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from oncue.shapes.jobs import Warned


class ChangedField(msgspec.Struct, frozen=True, kw_only=True):
    """One field's stored value and the declared value; of a value above 4 KiB only the size is shown."""

    old: Any = None
    new: Any = None


class AppliedStep(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for one job, or would be."""

    action: str
    key: str
    job_id: UUID | None = None
    """null: the job would be created"""
    changes: dict[str, ChangedField] = {}
    owners: tuple[str, ...] = ()
    """of a job that is adopted: the sets it belonged to"""


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one declaration: its jobs in their order, then those that are pruned."""

    set: str
    dry_run: bool = False
    stamp: int | None = None
    steps: tuple[AppliedStep, ...] = ()
    warnings: tuple[Warned, ...] = ()
