"""Keep this process's clock at the store's time."""

from __future__ import annotations

from oncue.clock import CONFIRMED_AFTER, FollowingClock
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.port import Engine
from oncue.log import log

SYNC_INTERVAL = Duration(5 * SECOND)
AT_FIRST = Duration(100 * MILLISECOND)  # the first answer may have been slow, and work starts soon
FIRST_FEW = 3  # answers
SLOW = Duration(100 * MILLISECOND)  # an answer; the clock may be behind by as much
AFTER_A_SLOW_ONE = Duration(2 * SECOND)


class Timekeeper:
    name = "timekeeper"

    def __init__(self, engine: Engine, clock: FollowingClock) -> None:
        self._engine = engine
        self._clock = clock
        self._answers = 0
        self._doubted: Duration | None = None

    async def run_once(self) -> Duration:
        asked_at = self._clock.monotonic()
        store_now = await self._engine.now()
        answered_at = self._clock.monotonic()
        self._report(self._clock.follow(store_now, asked_at, answered_at))
        self._answers += 1
        if self._answers < FIRST_FEW:
            return AT_FIRST
        return AFTER_A_SLOW_ONE if answered_at - asked_at > SLOW else SYNC_INTERVAL

    def _report(self, doubted: Duration | None) -> None:
        """Log each clock step once."""
        if doubted is not None and self._doubted is None:
            log.error(
                "The database's clock was set forward; oncue keeps the old time until the clock has stayed there for a "
                "while. Correct the clock now if this is a mistake",
                kind="clock_ahead",
                by_s=doubted // SECOND,
                believed_after_s=CONFIRMED_AFTER // SECOND,
            )
        self._doubted = doubted
