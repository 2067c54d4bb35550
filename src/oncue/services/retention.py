"""Keep the store small: roll counters up into their sums, and drop history older than `keep_history`."""

from __future__ import annotations

import structlog

from oncue.clock import Clock
from oncue.domain.instants import DAY, MINUTE, SECOND, Duration, Instant, rfc3339
from oncue.engines.port import ROLLED_UP_AT_ONCE, Engine
from oncue.settings import Settings

MAINTAIN_INTERVAL = Duration(10 * MINUTE)
ROLL_UP_INTERVAL = Duration(SECOND)
AFTER_A_FAILURE = Duration(MINUTE)  # of one part of the maintenance, perhaps by a timeout: no immediate retry
STEP = DAY  # one round moves the time before which history is dropped by at most this much

log = structlog.get_logger()


class CounterRollup:
    """Separate from retention, because dropping history may take minutes and counts are read all the time."""

    name = "folding"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run_once(self) -> Duration:
        folded = await self._engine.maintenance.roll_up(ROLLED_UP_AT_ONCE)
        return Duration(0) if folded == ROLLED_UP_AT_ONCE else ROLL_UP_INTERVAL


class Retention:
    """Maintains history at start and then every ten minutes; twice per partition if those are shorter than that."""

    name = "retention"

    def __init__(self, engine: Engine, clock: Clock, settings: Settings) -> None:
        self._engine = engine
        self._clock = clock
        self._keep = settings.keep_history
        self._every = Duration(min(MAINTAIN_INTERVAL, max(ROLL_UP_INTERVAL, settings.history_width // 2)))
        self._due = clock.monotonic()

    async def run_once(self) -> Duration:
        """Maintain history if it is due. Called more often than that: loops cap their waits."""
        if self._clock.monotonic() >= self._due:
            self._due = Instant(self._clock.monotonic() + min(self._every, AFTER_A_FAILURE))
            dropped = await self._engine.maintenance.maintain(await self._by(), self._keep)
            if dropped:
                log.info("Dropped old partitions of history", kind="piece_dropped", partitions=dropped)
            self._due = Instant(self._clock.monotonic() + self._every)
        return Duration(self._due - self._clock.monotonic())

    async def _by(self) -> Instant:
        """The time to maintain by. After a long pause it takes some rounds to reach the present; there is no hurry."""
        now = self._clock.now()
        by = await self._engine.maintenance.tended(now, STEP)
        if by < now:
            log.error(
                "The last maintenance of history is long ago, or the database's clock was set forward. History is "
                "dropped one day at a time; correct the clock soon if it is wrong",
                kind="history_behind",
                by=rfc3339(by),
                now=rfc3339(now),
                again_in_s=self._every // SECOND,
            )
        return by
