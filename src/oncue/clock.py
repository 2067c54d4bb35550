"""The one file that reads time or sleeps. Everything else takes a `Clock`, or is given `now`."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from oncue.domain.instants import MINUTE, SECOND, Duration, Instant

if TYPE_CHECKING:  # it is imported where it is used: a command that only wants to know the time starts 30 ms sooner
    import asyncio

DOUBTFUL = MINUTE  # forward, at once: a step that a store's clock makes by mistake, or after a long sleep
CONFIRMED_AFTER = MINUTE
SAMPLES = 8  # enough for one quick answer among them; few enough that a slow drift is followed within a minute

# Linux's monotonic clock stands still while the machine sleeps: leases and due instants do not.
_count = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic_ns


class Clock(Protocol):
    def now(self) -> Instant:
        """The store's time as best we know it; what every engine verb is given."""
        ...

    def monotonic(self) -> Instant:
        """A count that never goes back: for measuring and waiting, never for deciding what is due."""
        ...

    async def sleep(self, length: Duration) -> None:
        """Wait at least this long by the monotonic count."""
        ...

    def timeout(self, length: Duration) -> AbstractAsyncContextManager[object]:
        """TimeoutError, if what is inside takes longer than this by the monotonic count."""
        ...

    def call_later(self, length: Duration, call: Callable[[], object]) -> Timer:
        """Call it, from the running loop, when so much has passed by the monotonic count."""
        ...


class Timer(Protocol):
    def cancel(self) -> None: ...


async def happens_within(clock: Clock, event: asyncio.Event, length: Duration) -> bool:
    """Wait for the event, and no longer than this. Whether it has happened."""
    if length > 0:
        with suppress(TimeoutError):
            async with clock.timeout(length):
                await event.wait()
    return event.is_set()


class FollowingClock(Clock, Protocol):
    """A clock that learns the store's time."""

    def follow(self, store_now: Instant, asked_at: Instant, answered_at: Instant) -> Duration | None:
        """Learn from one question to the store; `asked_at` and `answered_at` are monotonic.

        Returns the step forward that the store's clock seems to have made, as long as it is not believed.
        """
        ...


class Offset:
    """From the monotonic count to the store's time: the most that is certain, so that nobody is ever early.

    The store read its clock between question and answer, so the offset lies between `store_now - answered_at` and
    `store_now - asked_at`. The quickest answer bounds it best from below. A new upper bound below what we hold says
    that the store's clock was set back, or has drifted: what was learnt before no longer counts.

    A step back is followed at once: whoever is behind does nothing too early. One forward by more than DOUBTFUL could
    do harm for good, if it is a mistake (drop history, pass over occurrences, end runs as too late), and is followed
    only when the clock has stayed there for CONFIRMED_AFTER. Until then we count on as before.
    """

    def __init__(self, guess: int) -> None:
        self.length = guess  # until the store was asked
        self.doubted: Duration | None = None  # the step forward that is not believed yet
        self._at_least: deque[int] = deque(maxlen=SAMPLES)
        self._doubted_since: Instant | None = None

    def learn(self, store_now: Instant, asked_at: Instant, answered_at: Instant) -> None:
        if store_now - asked_at < self.length:
            self._at_least.clear()
        at_least = store_now - answered_at
        if self._at_least and self._is_doubtful(at_least - self.length, answered_at):
            return
        self._at_least.append(at_least)
        self.length = max(self._at_least)

    def _is_doubtful(self, step: int, at: Instant) -> bool:
        if step <= DOUBTFUL:
            self.doubted = self._doubted_since = None
        elif self.doubted is None or self._doubted_since is None or abs(step - self.doubted) > DOUBTFUL:
            self.doubted, self._doubted_since = Duration(step), at
        elif at - self._doubted_since >= CONFIRMED_AFTER:
            self.doubted = self._doubted_since = None
        return self.doubted is not None


class SystemClock:
    """Follows the store by an `Offset` from the monotonic count; counts on while the machine is suspended.

    A host whose own clock is 90 s off, or steps, neither starts runs early nor declares others dead.
    """

    def __init__(self) -> None:
        self._offset = Offset(time.time_ns() // 1_000 - self.monotonic())

    def now(self) -> Instant:
        return Instant(_count() // 1_000 + self._offset.length)

    def monotonic(self) -> Instant:
        return Instant(_count() // 1_000)

    def follow(self, store_now: Instant, asked_at: Instant, answered_at: Instant) -> Duration | None:
        self._offset.learn(store_now, asked_at, answered_at)
        return self._offset.doubted

    async def sleep(self, length: Duration) -> None:
        import asyncio

        await asyncio.sleep(length / SECOND)

    def timeout(self, length: Duration) -> AbstractAsyncContextManager[object]:
        import asyncio

        return asyncio.timeout(length / SECOND)

    def call_later(self, length: Duration, call: Callable[[], object]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(length / SECOND, call)
