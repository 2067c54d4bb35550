"""Keeps the store small: counts are folded into their sums, and history older than is wanted is dropped."""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.engines.port import FOLDED_AT_ONCE, Engine
from oncue.settings import Settings

SELDOM = Duration(10 * MINUTE)
OFTEN = Duration(SECOND)
AFTER_A_FAILURE = Duration(MINUTE)  # of one part of tending, perhaps because it took too long: not again at once


class Folding:
    """Apart from retention, because dropping history may take minutes and counts are looked at all the time."""

    name = "folding"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run_once(self) -> Duration:
        folded = await self._engine.history.fold(FOLDED_AT_ONCE)
        return Duration(0) if folded == FOLDED_AT_ONCE else OFTEN


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
            await self._engine.history.tend(self._clock.now(), self._keep)
            self._due = Instant(self._clock.monotonic() + self._every)
        return Duration(self._due - self._clock.monotonic())
