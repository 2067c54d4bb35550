"""The outbox, which SQLite has none of: nobody but oncue may write to its file."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.errors import Conflict
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.account_values import Role
from oncue.engines.outbox_values import Deciding, Enqueued, Grant, OutboxState, TakenIn


class SqliteOutbox:
    async def take_in(self, limit: int, now: Instant, deciding: Deciding, after: Enqueued | None = None) -> TakenIn:
        return TakenIn()

    async def listed(self, limit: int, after: int = 0, *, refused: bool | None = None) -> list[Enqueued]:
        return []

    async def retry(self, job_ids: Sequence[JobId], now: Instant) -> int:
        return 0

    async def discard(self, job_ids: Sequence[JobId]) -> int:
        return 0

    async def state(self) -> OutboxState:
        return OutboxState()

    async def say_fields(self, names: Sequence[str]) -> None:
        return None

    async def grant(self, db_role: str, uid: UserNumber, role: Role, now: Instant) -> None:
        raise Conflict("A SQLite file has no roles. Transactional enqueue needs PostgreSQL.")

    async def revoke(self, db_role: str) -> bool:
        return False

    async def grants(self) -> list[Grant]:
        return []
