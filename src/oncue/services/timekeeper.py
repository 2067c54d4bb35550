"""Keeps this process's clock at the store's time."""

from __future__ import annotations

from oncue.clock import FollowingClock
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.port import Engine

OFTEN = Duration(5 * SECOND)
AT_FIRST = Duration(100 * MILLISECOND)  # the first answer may have been slow, and work starts soon
FIRST_FEW = 3


class Timekeeper:
    name = "timekeeper"

    def __init__(self, engine: Engine, clock: FollowingClock) -> None:
        self._engine = engine
        self._clock = clock
        self._answers = 0

    async def run_once(self) -> Duration:
        asked_at = self._clock.monotonic()
        store_now = await self._engine.now()
        self._clock.follow(store_now, asked_at, self._clock.monotonic())
        self._answers += 1
        return AT_FIRST if self._answers < FIRST_FEW else OFTEN
