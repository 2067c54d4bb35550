"""API keys, their users, and the audit log of what was done with them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Key(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    user_id: str
    """the user it belongs to"""
    role: str
    """what the key may do: `admin`, `member` or `viewer`"""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    """null: the key does not expire"""
    revoked_at: datetime | None = None
    """null: the key is not revoked"""


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The user and role of the caller's key."""

    user_id: str
    role: str
    key_id: str


class NewKey(Key, frozen=True, kw_only=True):
    """A new key with its secret, which is shown only once."""

    key: str

    def __repr__(self) -> str:  # what is printed ends up in logs
        return f"NewKey(key_id={self.key_id!r}, user_id={self.user_id!r}, role={self.role!r}, key=…)"


class ForgottenUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user who is being forgotten."""

    user_id: str
    number: int
    """what the audit log has instead of the name"""


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    user_id: str | None = None
    """the user who did it"""
    key_id: str | None = None
    """the key that was used"""
    action: str
    """what was done: `job.create`, `run.cancel`, `key.revoke`"""
    object_id: str | None = None
    """the job, run or key it was done to; null: several, or something without an id"""
    detail: dict[str, Any] | None = None
    """details, such as the name of the queue, or the user and role of a new key"""
    address: str | None = None
    """where the connection came from; headers like `X-Forwarded-For` are ignored, so behind a proxy it is the \
address of the proxy"""
