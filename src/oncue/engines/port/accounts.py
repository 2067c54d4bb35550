"""Who asks: users and keys, what they did, and what they asked for before."""

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
        """The number of a user, made when new."""
        ...

    async def add_key(self, key: Key) -> None:
        """A repeat changes nothing."""
        ...

    async def add_first_key(self, key: Key) -> bool:
        """Add it only if the store has no key at all. Of many callers at once exactly one is told True."""
        ...

    async def key(self, key_hash: bytes) -> Key | None:
        """The key with this hash, revoked or not."""
        ...

    async def keys(self) -> list[Key]: ...

    async def revoke(self, key_id: KeyId, now: Instant) -> Revoked:
        """Make a key good for nothing. A repeat keeps the first time of revocation.

        Of the keys with the role admin that work at `now`, neither revoked nor expired, the last one is not revoked.
        That is exact, however many are revoked at once.
        """
        ...


class Audit(Protocol):
    """The audit log: who did what."""

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        """Append these. A repeat appends them again."""
        ...

    async def entries(
        self, uid: UserNumber | None = None, limit: int = 100, after: str | None = None
    ) -> Page[AuditEntry]:
        """Newest first."""
        ...


class Idempotency(Protocol):
    """Keys of requests that may come again."""

    async def reserve(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
        """Before something is made: the user's idempotency key is taken, durably, by whoever comes first with it.

        NEW: it is, with `made` as it was given, or as whoever was refused with the key left it. REPEATED: the answer of
        the first, or, if there is none (yet), the id it makes things with: who makes the same with the same id makes
        nothing new. KEY_REUSED: the key came with another body. Keys are kept as those of `Jobs.create` are, and exact
        in the same way: for at least `Settings.repeat_for`. A repeat with the same `made` answers NEW again.
        """
        ...

    async def answered(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID, answer: bytes) -> None:
        """Keep what was answered, for those who ask again. The first answer stays."""
        ...

    async def refused(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> None:
        """Nothing was made: the key may come with another body, and gets the same id. Too late after an answer."""
        ...
