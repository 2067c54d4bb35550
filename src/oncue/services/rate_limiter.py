"""Assign starts to rate-limited runs, a little ahead, so that workers find them before their instants.

All schedulers are equal: several assign starts at once, each for other rate keys.
"""

from __future__ import annotations

from collections.abc import Callable

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.engines.port import Engine, Hint, Permitted, Topic
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import GRANTED

BATCH = 500  # starts assigned in one pass
# A start must be assigned when workers look for it, half a second ahead, and a pass may be slow. Not earlier: a run
# that is cancelled after its assignment has used up its start.
AHEAD = Duration(SECOND)
SET_BACK = Duration(SECOND)  # more than the clocks of different processes may differ
RECALL_INTERVAL = MINUTE  # a scheduler may have died before it noticed that the clock was set back
LONGEST = Duration(SECOND // 2)  # unused starts are noticed within this time
MIN_PAUSE = Duration(20 * MILLISECOND)  # between two passes, however many hints come


class RateLimiter:
    name = "metering"

    def __init__(self, engine: Engine, clock: Clock, numbers: Numbers = SILENT) -> None:
        self._engine = engine
        self._numbers = numbers
        self._clock = clock
        self._recall_at = clock.monotonic()
        self.next_at: Instant | None = None  # the first start that is not assigned yet
        self._offset = 0  # from the monotonic clock to the store's time, the maximum since starts were last recalled

    async def run_once(self) -> Duration:
        now = self._clock.now()
        await self._recall(now)
        granted = await self._engine.planning.permit(Instant(now + AHEAD), BATCH, now)
        self.next_at = granted.next_at
        self._numbers.add(GRANTED, n=granted.runs)
        if granted.first_due is not None:
            await self._engine.signals.send([Hint(Topic.RUNS, due=granted.first_due)])
        return Duration(0) if granted.runs == BATCH else _until_next(granted, now)

    async def _recall(self, now: Instant) -> None:
        """Correct starts of a clock that was ahead: at once if ours was set back, periodically for other processes."""
        at = self._clock.monotonic()
        if at >= self._recall_at or now - at < self._offset - SET_BACK:
            await self._engine.planning.recall(Instant(now + AHEAD + SET_BACK), now)
            self._recall_at, self._offset = Instant(at + RECALL_INTERVAL), now - at
        self._offset = max(self._offset, now - at)


def _until_next(granted: Permitted, now: Instant) -> Duration:
    if granted.next_at is None:
        return LONGEST
    return Duration(min(max(granted.next_at - AHEAD - now, MIN_PAUSE), LONGEST))


class Nudge:
    """Wakes the rate limiter when a hint says that runs changed: at once, and then not again for MIN_PAUSE.

    Nearly all such hints concern runs without a rate, and they come by the hundred.
    """

    def __init__(self, wake: Callable[[], None], clock: Clock) -> None:
        self._wake = wake
        self._clock = clock
        self._resting = False
        self._again = False

    def __call__(self, hint: Hint) -> None:
        if hint.runs or hint.classes:  # of runs that nothing holds, so without a rate
            return
        if hint.due is None or hint.due <= self._clock.now() + AHEAD:  # else a regular pass finds it in time
            self._nudge()

    def _nudge(self) -> None:
        if self._resting:
            self._again = True
            return
        self._resting, self._again = True, False
        self._wake()
        self._clock.call_later(MIN_PAUSE, self._rested)

    def _rested(self) -> None:
        self._resting = False
        if self._again:
            self._nudge()
