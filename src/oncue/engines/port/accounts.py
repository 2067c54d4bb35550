"""The callers: users and keys, the audit log, and idempotency keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.account_values import AuditFilter, Key, Revoked, Session, User
from oncue.engines.values import AuditEntry, IdempotencyKey, Page, Reserved

AUDIT_LOOKED_AT = 2_000  # entries read for one page, where a filter skips some
EVERY_ENTRY = AuditFilter()
KEYS_COUNTED, JOBS_COUNTED = 100, 200  # of one user in a list


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

    async def users(self, now: Instant, limit: int = 100, after: str | None = None) -> Page[User]:
        """Return a page of users in the order of their numbers, with their keys that are valid at `now` and open jobs.

        At most `KEYS_COUNTED` keys, revoked ones included, and `JOBS_COUNTED` jobs of each are counted; jobs that are
        running are counted on top.
        """
        ...


class Sessions(Protocol):
    """Browsers that are signed in, and when keys and sessions were used last."""

    async def open(self, session: Session, most: int) -> None:
        """Store a session. If its key then has more than `most`, those that would expire first end."""
        ...

    async def find(self, session_hash: bytes) -> tuple[Session, Key] | None:
        """Return the session with this hash and its key, whether they are still valid or not."""
        ...

    async def end(self, session_hash: bytes) -> None:
        """Remove a session. `maintain` removes those that have expired."""
        ...

    async def used(self, keys: Mapping[KeyId, int], sessions: Mapping[bytes, Instant]) -> None:
        """Store the day of the last use of these keys, and until when these sessions last. Both only rise."""
        ...


class Audit(Protocol):
    """The audit log: which user did what."""

    async def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        """Append these entries. A repeat appends them again."""
        ...

    async def entries(
        self,
        uid: UserNumber | None = None,
        limit: int = 100,
        after: str | None = None,
        only: AuditFilter = EVERY_ENTRY,
    ) -> Page[AuditEntry]:
        """Return a page of entries, newest first: of one user, or with None of all.

        User, object and window are found by an index. Where the action, or the user of an object's entries, skips some,
        at most `AUDIT_LOOKED_AT` are read: the page may be short, or empty, although more follow.
        """
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
