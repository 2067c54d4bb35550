"""Groups of errors."""

from __future__ import annotations

from datetime import datetime

import msgspec


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one kind: of one task, with one type and messages that differ in numbers, ids or names only."""

    fingerprint: str | None = None
    """identifies the group, also as a filter of dead letters; null: of the group of the rest"""
    user_id: str | None = None
    """whose jobs failed"""
    task: str | None = None
    error_type: str
    """the type of the error, like `TimeoutError`; `other` for the group of the rest"""
    sample: str
    """the message of the newest failure, up to 500 characters, secrets masked"""
    count: int
    """attempts that failed so"""
    first_seen: datetime
    last_seen: datetime
    trend: tuple[int, ...] = ()
    """failures in each of the last 24 hours, the current hour last"""
    open_letters: int | None = None
    """open dead letters of the group, counted up to 100"""
