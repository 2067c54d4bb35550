"""Whether a write would be kept: found out by one, once a second at most while the store is there."""

from __future__ import annotations

import asyncio

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.engines.port import Engine

TRUSTED_FOR = Duration(SECOND)  # a write: within this time it is only asked whether the store is there
WITHIN = Duration(SECOND)  # for the store to keep it


class Readiness:
    """Open to everybody, therefore nobody's question reaches the store by itself: those who ask while it is asked share
    the answer."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._asking: asyncio.Task[str | None] | None = None
        self._kept_at: Instant | None = None

    async def check(self) -> None:
        """StoreUnavailable: it would not be kept, or nobody can tell."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._problem())
        problem = await asyncio.shield(self._asking)
        if problem is not None:
            raise StoreUnavailable(problem)

    async def _problem(self) -> str | None:
        try:
            async with asyncio.timeout(WITHIN / SECOND):
                await self._ask()
        except StoreUnavailable as away:
            self._kept_at = None
            return str(away)
        except TimeoutError:
            self._kept_at = None
            return "the database did not confirm a write in time"
        return None

    async def _ask(self) -> None:
        now = self._clock.monotonic()
        if self._kept_at is not None and now - self._kept_at < TRUSTED_FOR:
            await self._engine.ping(WITHIN)
        else:
            await self._engine.probe()
            self._kept_at = now
