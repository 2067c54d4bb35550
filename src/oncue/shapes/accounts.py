"""Keys, and whose they are."""

from __future__ import annotations

from datetime import datetime

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
    """null while it is good"""


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Whose key a client asks with."""

    user_id: str
    role: str
    key_id: str


class NewKey(Key, frozen=True, kw_only=True):
    """A key with its secret, which is told this once."""

    key: str

    def __repr__(self) -> str:  # what is printed ends in logs
        return f"NewKey(key_id={self.key_id!r}, user_id={self.user_id!r}, role={self.role!r}, key=…)"
