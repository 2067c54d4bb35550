"""Keeps the store small: counts are folded into their sums, and history older than is wanted is dropped."""

from __future__ import annotations

import structlog

from oncue.clock import Clock
from oncue.domain.instants import DAY, MINUTE, SECOND, Duration, Instant, rfc3339
from oncue.engines.port import ROLLED_UP_AT_ONCE, Engine
from oncue.settings import Settings

SELDOM = Duration(10 * MINUTE)
OFTEN = Duration(SECOND)
AFTER_A_FAILURE = Duration(MINUTE)  # of one part of tending, perhaps because it took too long: not again at once
STEP = DAY  # by so much at most one round moves the time before which things are dropped

log = structlog.get_logger()


class CounterRollup:
    """Apart from retention, because dropping history may take minutes and counts are looked at all the time."""

    name = "folding"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run_once(self) -> Duration:
        folded = await self._engine.maintenance.roll_up(ROLLED_UP_AT_ONCE)
        return Duration(0) if folded == ROLLED_UP_AT_ONCE else OFTEN


class Retention:
    """Tends history at start and then every ten minutes; twice in each stretch if those are narrower than that."""

    name = "retention"

    def __init__(self, engine: Engine, clock: Clock, settings: Settings) -> None:
        self._engine = engine
        self._clock = clock
        self._keep = settings.keep_history
        self._every = Duration(min(SELDOM, max(OFTEN, settings.history_width // 2)))
        self._due = clock.monotonic()

    async def run_once(self) -> Duration:
        """Called more often than there is something to do: loops cap their waits."""
        if self._clock.monotonic() >= self._due:
            self._due = Instant(self._clock.monotonic() + min(self._every, AFTER_A_FAILURE))
            await self._engine.maintenance.maintain(await self._by(), self._keep)
            self._due = Instant(self._clock.monotonic() + self._every)
        return Duration(self._due - self._clock.monotonic())

    async def _by(self) -> Instant:
        """The time to tend by. After a long pause it takes some rounds to come up to now, and there is no hurry."""
        now = self._clock.now()
        by = await self._engine.maintenance.tended(now, STEP)
        if by < now:
            log.error(
                "the clock is far ahead of when history was tended last: it was set forward, or nobody has tended for "
                "long. A day at a time is dropped; if the store's clock is wrong, set it right soon",
                by=rfc3339(by),
                now=rfc3339(now),
                again_in_s=self._every // SECOND,
            )
        return by
