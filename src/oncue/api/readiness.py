"""Whether a write would be kept: found out by one, for all who ask within a second."""

from __future__ import annotations

import asyncio

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.engines.port import Engine

TRUSTED_FOR = Duration(SECOND)  # an answer, yes or no: whoever asks often costs the store a write a second at most
WITHIN = 1.0  # seconds for the store to keep it


class Readiness:
    """Open to everybody, therefore nobody's question reaches the store by itself."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._probe: asyncio.Task[str | None] | None = None
        self._asked_at = Instant(0)

    async def check(self) -> None:
        """StoreUnavailable: it would not be kept, or nobody can tell."""
        if self._probe is None or (self._probe.done() and self._clock.monotonic() - self._asked_at >= TRUSTED_FOR):
            self._asked_at = self._clock.monotonic()
            self._probe = asyncio.create_task(self._problem())
        problem = await asyncio.shield(self._probe)
        if problem is not None:
            raise StoreUnavailable(problem)

    async def _problem(self) -> str | None:
        try:
            async with asyncio.timeout(WITHIN):
                await self._engine.probe()
        except StoreUnavailable as away:
            return str(away)
        except TimeoutError:
            return "it has not said in time that it keeps what is written"
        return None
