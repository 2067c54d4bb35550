"""Forgetting a user for good: what only the database can do of it. `services.forgetting` does all of it in bites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Instant
from oncue.engines.account_values import Forgotten, Revoked

ERASED_AT_ONCE = 1_000  # rows


class Forgetting(Protocol):
    """Every verb may be repeated, and any process continues where another one stopped."""

    async def begin(self, user_id: str, now: Instant) -> UserNumber | Revoked:
        """Note durably that a user is to be forgotten. From then on it has no name and no valid key.

        Its number takes the place of its name (`domain.keys.number_name`): another user may have the name at once.
        UNKNOWN: there is no such user. LAST_ADMIN: it has the last valid admin key; nothing changed.
        """
        ...

    async def pending(self) -> Sequence[Forgotten]:
        """Return the users who are being forgotten."""
        ...

    async def erase(self, uid: UserNumber, limit: int = ERASED_AT_ONCE) -> int:
        """Delete what is left of a user beside jobs, runs and dead letters: keys of jobs and of requests, quotas.

        Its objects in storage are looked at next. Returns how many rows it found, up to the limit for each kind, with
        the objects that are still there. 0: nothing is left.
        """
        ...

    async def redact(self, forgotten: Forgotten, limit: int = ERASED_AT_ONCE) -> Forgotten | None:
        """Remove addresses and names from the next entries of the audit log that are about a user; the actions stay.

        Returns the user with the place that was reached, which is stored. None: that was the end.
        """
        ...

    async def finish(self, uid: UserNumber) -> None:
        """Delete the keys of a user and the note: nothing is left but a number."""
        ...
