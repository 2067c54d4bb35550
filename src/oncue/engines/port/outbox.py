"""Jobs that applications enqueue in transactions of their own, in the same database: taken in by schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.account_values import Role
from oncue.engines.outbox_values import Deciding, Enqueued, Grant, OutboxState, TakenIn

OUTBOX_COUNTED = 10_000  # rows of each kind


class Outbox(Protocol):
    """An engine whose database no application can write to (`Capabilities.outbox`) has an empty one, for ever."""

    async def take_in(self, limit: int, now: Instant, deciding: Deciding, after: Enqueued | None = None) -> TakenIn:
        """Turn up to `limit` rows into jobs: those never tried first, in their order, then those to be retried.

        `after`: only rows that come later than this one, which another call has in hand.

        One transaction removes the rows and creates the jobs, as `Jobs.create` does, with all that it raises: a row
        becomes a job once, however often this is called, by any number of processes, killed at any moment. Rows that
        another call has in hand are left to it. Rows that are kept stay as they are but for the reason and `retry_at`.
        """
        ...

    async def listed(self, limit: int, after: int = 0, *, refused: bool | None = None) -> list[Enqueued]:
        """Return rows in their order, after this number: all, only refused ones, or only others."""
        ...

    async def retry(self, job_ids: Sequence[JobId], now: Instant) -> int:
        """Have rows tried again at once, for as long as new ones; return how many were there."""
        ...

    async def discard(self, job_ids: Sequence[JobId]) -> int:
        """Delete rows; return how many were there. Their jobs are never created."""
        ...

    async def state(self) -> OutboxState:
        """Count rows, up to OUTBOX_COUNTED of each kind."""
        ...

    async def say_fields(self, names: Sequence[str]) -> None:
        """Make known which fields of jobs there are, so that others are refused when they are enqueued."""
        ...

    async def grant(self, db_role: str, uid: UserNumber, role: Role, now: Instant) -> None:
        """Let a role of the database enqueue jobs for this user, and for no other. NotFound: there is no such role."""
        ...

    async def revoke(self, db_role: str) -> bool:
        """Take that right away. False: it did not have it. Rows that it has committed are taken in all the same."""
        ...

    async def grants(self) -> list[Grant]: ...
