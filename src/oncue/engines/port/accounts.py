"""The callers: users and keys, the audit log, and idempotency keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.values import (
    AuditEntry,
    IdempotencyKey,
    Key,
    Page,
    Reserved,
    Revoked,
)


class Accounts(Protocol):
    """Users and their keys."""

    async def user(self, user_id: str, now: Instant) -> UserNumber:
        """Return the number of a user, who is created when new."""
        ...

    async def find(self, user_id: str) -> UserNumber | None:
        """Return the number of a user. None: there is no such user."""
        ...

    async def names(self, uids: Sequence[UserNumber]) -> dict[UserNumber, str]:
        """Return the names of these users; a number that no user has is left out."""
        ...

    async def add_key(self, key: Key) -> None:
        """Add a key. A repeat changes nothing."""
        ...

    async def add_first_key(self, key: Key) -> bool:
        """Add a key only if the database has no key at all. Of many concurrent callers exactly one gets True."""
        ...

    async def key(self, key_hash: bytes) -> Key | None:
        """Return the key with this hash, revoked or not."""
        ...

    async def keys(self) -> list[Key]: ...

    async def revoke(self, key_id: KeyId, now: Instant) -> Revoked:
        """Revoke a key. A repeat keeps the first time of revocation.

        The last valid admin key at `now` (neither revoked nor expired) is not revoked. That is exact, however many
        calls revoke keys at once.
        """
        ...


class Audit(Protocol):
    """The audit log: which user did what."""

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        """Append these entries. A repeat appends them again."""
        ...

    async def entries(
        self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None
    ) -> Page[AuditEntry]:
        """Return a page of entries, newest first."""
        ...


class Idempotency(Protocol):
    """The idempotency keys of requests that a client may repeat."""

    async def reserve(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
        """Reserve the user's idempotency key durably for the first request with it, before that creates anything.

        NEW: this request has the key, with `made` as given, or as a refused request with the key left it. REPEATED: the
        first request's answer, or, if there is none (yet), the id from which it creates: a request that creates the
        same with the same id creates nothing new. KEY_REUSED: the key came with another body. Keys are kept like those
        of `Jobs.create`, equally exactly: for at least `Settings.idempotency_retention`. A repeat with the same `made`
        answers NEW again.
        """
        ...

    async def answered(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID, answer: bytes) -> None:
        """Store the answer, for repeats of the request. The first answer stays."""
        ...

    async def refused(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> None:
        """Release a key whose request created nothing: another body gets the same id. No effect after an answer."""
        ...
