"""Tell the store that this process is there: which role, version and schema, on which host."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress

from oncue import __version__
from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import uuid7
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.engines.port import Engine, Member

BEAT_INTERVAL = Duration(10 * SECOND)
GOODBYE = Duration(SECOND)  # no more for the last call of a process that ends


class Membership:
    name = "membership"

    def __init__(self, engine: Engine, clock: Clock, role: str) -> None:
        self._engine = engine
        self._clock = clock
        self._beat_at = clock.monotonic()
        now = clock.now()
        self.member = Member(
            member_id=uuid7(now, secrets.token_bytes(8)),
            role=role,
            version=__version__,
            schema=engine.schema,
            host=socket.gethostname(),
            started_at=now,
            beat_at=now,
        )

    async def run_once(self) -> Duration:
        """Send a heartbeat if one is due. Called more often than that: loops cap their waits."""
        if self._clock.monotonic() >= self._beat_at:
            await self._engine.members.beat(self.member, self._clock.now())
            self._beat_at = Instant(self._clock.monotonic() + BEAT_INTERVAL)
        return Duration(self._beat_at - self._clock.monotonic())

    async def leave(self) -> None:
        """Say goodbye, if the store is there: if not, the missing heartbeats say the same."""
        with suppress(StoreUnavailable, TimeoutError):
            async with self._clock.timeout(GOODBYE):
                await self._engine.members.leave(self.member.member_id)
