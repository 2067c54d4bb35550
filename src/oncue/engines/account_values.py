"""The values of users, keys and sessions that cross the port."""

from __future__ import annotations

from enum import Enum, StrEnum
from uuid import UUID

import msgspec

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant


class Role(StrEnum):
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class Key(msgspec.Struct, frozen=True):
    """An API key. Only the hash of the secret is stored."""

    key_id: KeyId
    key_hash: bytes
    uid: UserNumber
    user_id: str
    role: Role
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    note: str | None = None
    last_used_on: int | None = None  # days since 1970, UTC; None: not used since this is recorded


class Session(msgspec.Struct, frozen=True):
    """A browser that was signed in with a key. Only the hash of its secret is stored."""

    session_hash: bytes
    key_id: KeyId
    created_at: Instant
    expires_at: Instant


class User(msgspec.Struct, frozen=True):
    """A user, and how much there is of theirs. Keys and jobs are counted up to a bound."""

    uid: UserNumber
    user_id: str
    created_at: Instant
    keys: int  # valid ones
    open_jobs: int
    payload_bound: int | None = None  # payload bytes of open jobs, at most; None: nobody has counted


class AuditFilter(msgspec.Struct, frozen=True):
    """Which entries of the audit log to return. The window is [since, until)."""

    object_id: UUID | None = None
    action: str | None = None
    since: Instant | None = None
    until: Instant | None = None


class Revoked(Enum):
    DONE = "revoked, now or before"
    UNKNOWN = "there is no such key"
    LAST_ADMIN = "the last valid admin key: nothing changed"


class Forgotten(msgspec.Struct, frozen=True):
    """A user who is being forgotten, with the name it had. `place`: how far the audit log was gone through."""

    uid: UserNumber
    user_id: str
    asked_at: Instant
    place: str | None = None
