"""API keys, their users, and the audit log of what was done with them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

import msgspec


class Key(msgspec.Struct, frozen=True, kw_only=True):
    key_id: UUID
    user_id: str
    """the user it belongs to"""
    role: str
    """what the key may do: `admin`, `member` or `viewer`"""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    """null: the key does not expire"""
    revoked_at: datetime | None = None
    """null: the key is not revoked"""
    note: str | None = None
    """what it is for, in up to 200 characters"""
    last_used_on: date | None = None
    """the day, in UTC, on which it was used last; null: it was not used since this is recorded"""


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The user and role of the caller's key."""

    user_id: str
    role: str
    key_id: UUID


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, and how long a browser stays signed in."""

    user_id: str
    role: str
    key_id: UUID
    """the key that was used to sign in; the session ends with the key"""
    created_at: datetime | None = None
    """when the browser signed in; null: the request came with a key"""
    expires_at: datetime | None = None
    """when the session ends unless it is used, or the key; null: the key does not expire"""


class NewKey(Key, frozen=True, kw_only=True):
    """A new key with its secret, which is shown only once."""

    key: str

    def __repr__(self) -> str:  # what is printed ends up in logs
        return f"NewKey(key_id={self.key_id!r}, user_id={self.user_id!r}, role={self.role!r}, key=…)"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user, with keys, open jobs and quotas."""

    user_id: str
    """of a user who was forgotten, a number"""
    number: int
    """what the audit log has after the user was forgotten"""
    created_at: datetime | None = None
    keys: int = 0
    """valid ones, of the first 100"""
    open_jobs: int = 0
    """active and paused jobs, counted up to 200"""
    more_jobs: bool = False
    """whether there may be more"""
    max_jobs: int | None = None
    """the quota of a member; null: no limit"""
    payload_bytes: int | None = None
    """bytes of payload of open jobs, at most; null: unknown, as long as no quota needs it"""
    max_payload_bytes: int | None = None
    """the quota of a member; null: no limit"""


class ForgottenUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user who is being forgotten."""

    user_id: str
    number: int
    """what the audit log has instead of the name"""


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    user_id: str | None = None
    """the user who did it"""
    key_id: UUID | None = None
    """the key that was used"""
    action: str
    """what was done: `job.create`, `run.cancel`, `key.revoke`"""
    object_id: UUID | None = None
    """the job, run or key it was done to; null: several, or something without an id"""
    detail: dict[str, Any] | None = None
    """details, such as the name of the queue, or the user and role of a new key"""
    address: str | None = None
    """where the connection came from; headers like `X-Forwarded-For` are ignored, so behind a proxy it is the \
address of the proxy"""
