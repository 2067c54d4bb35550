"""API keys, their users, and the audit log of what was done with them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Key(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    user_id: str
    """whose it is"""
    role: str
    """what it may do"""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    """null: never"""
    revoked_at: datetime | None = None
    """null while it is valid"""


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Whose key a client asks with."""

    user_id: str
    role: str
    key_id: str


class NewKey(Key, frozen=True, kw_only=True):
    """A key with its secret, which is told this once."""

    key: str

    def __repr__(self) -> str:  # what is printed ends up in logs
        return f"NewKey(key_id={self.key_id!r}, user_id={self.user_id!r}, role={self.role!r}, key=…)"


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    user_id: str | None = None
    """who did it"""
    key_id: str | None = None
    """with which key"""
    action: str
    """what: `job.create`, `run.cancel`, `key.revoke`"""
    object_id: str | None = None
    """to which job, run or key; null if it was to several, or to something without an id"""
    detail: dict[str, Any] | None = None
    """more about it: the name of the queue, the user and role of a new key"""
    address: str | None = None
    """where the connection came from; headers like `X-Forwarded-For` are ignored, so behind a proxy it is the \
address of the proxy"""
