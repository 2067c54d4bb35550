"""The processes of oncue that run on this database, of any role."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from oncue.domain.instants import Instant
from oncue.engines.values import Member


class Members(Protocol):
    """Which processes run, and which versions. It decides nothing: a worker's runs depend on its own heartbeat."""

    async def beat(self, member: Member, now: Instant) -> None:
        """Store this process as alive at `now`, whether or not it was known: its first heartbeat makes it a member."""
        ...

    async def leave(self, member_id: UUID) -> None:
        """Remove a process that ends. One that was killed goes an hour after its last heartbeat, by `maintain`."""
        ...

    async def known(self) -> list[Member]:
        """Return all members, in the order of their start, also those without a heartbeat for a while."""
        ...
