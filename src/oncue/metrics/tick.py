"""Notice a blocked event loop: a tick that comes late says by how much."""

from __future__ import annotations

from typing import Final

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.metrics.numbers import Numbers
from oncue.metrics.table import LOOP_DELAY

TICK: Final = Duration(250 * MILLISECOND)
CALM_TICK: Final = Duration(5 * SECOND)  # while little happens: a process without work should cost nothing
LITTLE: Final = 20  # values appended since the last tick


class Tick:
    """Call it at every tick. It also adds up what was appended since the last one."""

    def __init__(self, clock: Clock, numbers: Numbers, calm: Duration = CALM_TICK) -> None:
        self._calm = calm
        self._clock = clock
        self._numbers = numbers
        self._expected: Instant | None = None
        self.at = clock.monotonic()  # of the last tick

    def __call__(self, *, busy: bool = False) -> Duration:
        """Return the time until the next one."""
        self.at = self._clock.monotonic()
        if self._expected is not None:
            self._numbers.observe(LOOP_DELAY, value=max(0, self.at - self._expected))
        calm = self._numbers.fold() <= LITTLE and not busy
        wait = Duration(self._calm - self.at % self._calm) if calm else TICK  # calm ones with other loops without work
        self._expected = Instant(self.at + wait)
        return wait
