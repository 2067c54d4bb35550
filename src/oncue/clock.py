"""The only file that reads time or sleeps. All other code takes a `Clock`, or `now` as an argument."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from oncue.domain.instants import MINUTE, SECOND, Duration, Instant

if TYPE_CHECKING:
    import asyncio

DOUBTFUL = MINUTE  # a larger step forward may be a mistake of the store's clock
CONFIRMED_AFTER = MINUTE
SAMPLES = 8  # enough for one quick answer among them; few enough that a slow drift is followed within a minute

# Linux's monotonic clock stands still while the machine sleeps: leases and due instants do not.
_count = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic_ns


def thread_time() -> Duration:
    """Return how long the processor has worked for the calling thread: it does not pass while the thread waits."""
    return Duration(time.thread_time_ns() // 1_000)


class Clock(Protocol):
    def now(self) -> Instant:
        """Return the store's time as closely as known; engine verbs get this as `now`."""
        ...

    def monotonic(self) -> Instant:
        """Return a count that never goes back: for measuring and waiting, never for deciding what is due."""
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
        """Learn from one reading of the store's clock; `asked_at` and `answered_at` are monotonic.

        Returns the step forward that the store's clock seems to have made, as long as it is not confirmed.
        """
        ...


class Offset:
    """The offset from the monotonic count to the store's time: the largest certain one, so that nothing starts early.

    The store read its clock between question and answer, so the offset lies between `store_now - answered_at` and
    `store_now - asked_at`. The quickest answer gives the best lower bound. A new upper bound below the current offset
    means that the store's clock was set back, or has drifted: earlier samples no longer count.

    A step back is followed at once: a clock that is behind starts nothing early. A step forward by more than DOUBTFUL
    could do permanent harm if it is a mistake (drop history, skip occurrences, expire runs), so it is followed only
    when the clock has stayed there for CONFIRMED_AFTER. Until then the old offset stays.
    """

    def __init__(self, guess: int) -> None:
        self.length = guess  # until the first sample
        self.doubted: Duration | None = None  # a step forward that is not confirmed yet
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
    """Follows the store by an `Offset` from the monotonic count, which continues while the machine is suspended.

    A host whose own clock is 90 s off, or steps, neither starts runs early nor declares other workers dead.
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
        import asyncio  # here, so that commands that only read the time start 30 ms sooner

        await asyncio.sleep(length / SECOND)

    def timeout(self, length: Duration) -> AbstractAsyncContextManager[object]:
        import asyncio

        return asyncio.timeout(length / SECOND)

    def call_later(self, length: Duration, call: Callable[[], object]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(length / SECOND, call)
