"""Check whether the database keeps a write, by writing, at most once a second while the database is available."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable, WritesStalled
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.engines.port import Engine

TRUSTED_FOR = Duration(SECOND)  # after a write that was kept, a check within this time only pings the database
PROBE_TIMEOUT = Duration(SECOND)  # for the database to keep the write
NAMED_WITHIN = Duration(SECOND // 4)  # what a write waits for that it has not kept


class Readiness:
    """Needs no key, so no request reaches the database on its own: concurrent requests share one check."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._asking: asyncio.Task[StoreUnavailable | None] | None = None
        self._kept_at: Instant | None = None

    async def check(self) -> None:
        """StoreUnavailable: a write would not be kept, or the check cannot tell."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._problem())
        problem = await asyncio.shield(self._asking)
        if problem is not None:
            raise problem

    async def _problem(self) -> StoreUnavailable | None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT / SECOND):
                await self._ask()
        except StoreUnavailable as away:
            self._kept_at = None
            return away
        except TimeoutError:
            self._kept_at = None
            return await self._standstill()
        return None

    async def _standstill(self) -> StoreUnavailable:
        with suppress(StoreUnavailable):
            if (why := await self._engine.standstill.check(NAMED_WITHIN)) is not None:
                return WritesStalled(why, tried=False)
        return StoreUnavailable("the database did not confirm a write in time")

    async def _ask(self) -> None:
        now = self._clock.monotonic()
        if self._kept_at is not None and now - self._kept_at < TRUSTED_FOR:
            await self._engine.ping(PROBE_TIMEOUT)
        else:
            await self._engine.probe()
            self._kept_at = now
