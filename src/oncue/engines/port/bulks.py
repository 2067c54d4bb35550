"""Actions on many objects, which schedulers work through in passes."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, Duration, Instant
from oncue.engines.bulk_values import MOST_OPEN, Bulk, BulkState, Progress, TakenBulk
from oncue.engines.values import Page

BULKS_STAY = Duration(30 * DAY)  # after their end


class Bulks(Protocol):
    """What is to be done with many objects, and how far it is. `Maintenance.maintain` drops it `BULKS_STAY` later."""

    async def add(self, bulk: Bulk, most_open: int = MOST_OPEN) -> bool:
        """Store it. False: its user has `most_open` that have not ended; nothing was stored. A repeat answers True."""
        ...

    async def read(self, uid: UserNumber | None, bulk_id: UUID) -> Bulk | None: ...

    async def page(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[Bulk]:
        """Return the bulks of a user, or of all users, newest first."""
        ...

    async def take(self, now: Instant, lease: Duration) -> TakenBulk | None:
        """Take the one that has waited longest of those that have not ended and that nobody works on; raise its turn.

        It is this caller's until `now + lease`: a caller that dies only delays it. Those that a newer oncue wrote, and
        this one cannot read, are left out. None: there is none.
        """
        ...

    async def advance(
        self,
        bulk: Bulk,
        progress: Progress,
        now: Instant,
        lease: Duration | None = None,
        *,
        state: BulkState = BulkState.RUNNING,
        why: str | None = None,
    ) -> bool:
        """Store how far it is, if it has not ended and its turn is still this one.

        It stays this caller's for another `lease`; without one it may be taken at once, after all others that wait.
        Any state but RUNNING ends it. False: it was stopped, or another caller has taken it; a repeat after its end
        answers False, too.
        """
        ...

    async def record(self, bulk: Bulk, progress: Progress) -> bool:
        """Store what a pass did of a bulk that was stopped meanwhile. False: it was not, or its turn is another one."""
        ...

    async def stop(self, uid: UserNumber | None, bulk_id: UUID, now: Instant) -> bool:
        """End it as STOPPED. What was done stays done; a pass that runs may still end, and records what it did.

        False: it had ended before.
        """
        ...
