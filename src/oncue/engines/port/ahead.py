"""What is to come: cursors of recurring jobs in order of time, and how many waiting runs are due when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.engines.values import CursorRow, DueCounts, Page


class Ahead(Protocol):
    """These reads change nothing. `uid` None: of all users (administrators)."""

    async def cursors(
        self, uid: UserNumber | None, since: Instant, until: Instant, limit: int, after: str | None = None
    ) -> Page[CursorRow]:
        """Return active recurring jobs whose first occurrence that is not planned lies in [since, until), in its order.

        Without payloads. Reads as many rows as it returns.
        """
        ...

    async def due_counts(
        self,
        uid: UserNumber | None,
        classes: Sequence[ClassId],
        since: Instant,
        until: Instant,
        step: Duration,
        most: int,
    ) -> dict[ClassId, DueCounts]:
        """Count the waiting runs of each of these classes that nothing holds, by when they are due, in steps.

        A step is at a multiple of its length. Up to `most` entries are read, the earliest of each class or of the user;
        `reached` tells up to when every run of a class was counted. Every class has an entry.
        """
        ...
