"""What the outbox holds: jobs that applications enqueued in their own transactions, and who may do so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import NEVER, Instant
from oncue.engines.account_values import Role
from oncue.engines.values import Creation, IdempotencyKey, NewJob


class Enqueued(msgspec.Struct, frozen=True):
    """A row of the outbox."""

    seq: int
    job_id: JobId
    uid: UserNumber
    user_id: str
    role: Role
    db_role: str  # of the database: who wrote the row
    task: str
    payload: str  # JSON
    options: str  # JSON: the other fields of the job
    idempotency_key: IdempotencyKey | None
    require_task: bool  # otherwise the task may be registered later
    at: Instant  # relative times count from here
    since: Instant  # how long it is tried counts from here
    retry_at: Instant = Instant(0)
    why: str | None = None

    @property
    def refused(self) -> bool:
        return self.retry_at >= NEVER


class Kept(msgspec.Struct, frozen=True):
    """A row that does not become a job now. `retry_at` NEVER: it was refused, and stays until somebody decides."""

    why: str
    retry_at: Instant = NEVER


Decision: TypeAlias = NewJob | Kept


class Deciding(Protocol):
    """What becomes of rows. May be asked twice about the same ones, if the first answer was not written."""

    async def decide(self, rows: Sequence[Enqueued]) -> Sequence[Decision]:
        """Return the decision for each row."""
        ...

    def not_created(self, row: Enqueued, new: NewJob, answer: Creation) -> Kept:
        """Return what becomes of a row whose job the engine did not create."""
        ...


class TakenIn(msgspec.Struct, frozen=True):
    """What one call did. `created`: each job with the engine's answer."""

    created: tuple[tuple[NewJob, Creation], ...] = ()
    kept: tuple[tuple[Enqueued, Kept], ...] = ()
    full: bool = False  # there may be more


class OutboxState(msgspec.Struct, frozen=True):
    """How many rows wait, and how many were refused, each counted up to a limit; and since when the oldest waits."""

    waiting: int = 0
    refused: int = 0
    oldest: Instant | None = None


class Grant(msgspec.Struct, frozen=True):
    """A role of the database that may enqueue for a user."""

    db_role: str
    user_id: str
    role: Role
    granted_at: Instant
