"""Actions on many objects."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec


class BulkRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """An object that nothing was done with."""

    id: UUID
    reason: str


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """An action on many objects, and how far it is."""

    bulk_id: UUID
    action: str
    """`pause`, `resume`, `cancel`, `run`, `retry`, `requeue` or `discard`"""
    of: str
    """`jobs`, `runs` or `dead_letters`"""
    filter: dict[str, Any] | None = None
    """as it was sent; null if `ids` were"""
    payload_patch: dict[str, Any] | None = None
    """what changes in each payload; with `requeue`"""
    state: str
    """`running`, `finished`, `stopped` or `failed`"""
    done: int = 0
    """objects that it acted on"""
    refused: int = 0
    """objects that it could do nothing with"""
    reasons: tuple[BulkRefusal, ...] = ()
    """why, of the first 20"""
    total: int | None = None
    """how many there were at the start, if that is known: up to 1,000"""
    progress: float | None = None
    """from 0 to 1, if `total` is known"""
    started_by: str | None = None
    """the user"""
    created_at: datetime
    ended_at: datetime | None = None
    why: str | None = None
    """why it failed"""

    @property
    def ended(self) -> bool:
        return self.state != "running"


class BulkSample(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    task: str | None = None
    name: str | None = None


class BulkPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a bulk would act on."""

    count: int
    at_least: bool = False
    """there may be more: counting stopped"""
    samples: tuple[BulkSample, ...] = ()
    """the first 5"""
