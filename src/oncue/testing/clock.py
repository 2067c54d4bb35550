"""A clock for tests: it stands still until a test moves it, and wakes its waiters in order."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from oncue.domain.instants import Duration, Instant, parse_instant
from oncue.testing.times import Span, Time, to_duration, to_instant

SOME_DAY = parse_instant("2030-01-01T00:00:00Z")
TO_TIME_OUT = 3  # passes of the loop: asyncio notices, cancels, and turns that into a TimeoutError


class FakeTimer:
    """A callback for when the clock is moved to its instant; it is complete `passes` of the loop later."""

    def __init__(self, ring: Callable[[], object], passes: int = 1) -> None:
        self.ring = ring
        self.passes = passes
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """A clock that stands still until `advance` or `jump`; pass it where oncue takes a clock.

    Takes instants as aware datetimes, texts like "2027-01-31T09:00Z", or microseconds; and durations as timedeltas,
    texts like "10m", or microseconds.
    """

    def __init__(self, now: Time = SOME_DAY) -> None:
        self._now = to_instant(now, SOME_DAY)
        self._elapsed = Instant(0)
        self._sleepers: list[tuple[int, int, FakeTimer]] = []
        self._order = itertools.count()

    def now(self) -> Instant:
        """Return the time, in microseconds since 1970."""
        return self._now

    def monotonic(self) -> Instant:
        return self._elapsed

    async def sleep(self, length: Duration) -> None:
        woken = asyncio.Event()
        timer = self.call_later(length, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def timeout(self, length: Duration) -> AbstractAsyncContextManager[object]:
        return self._timeout(length)

    def call_later(self, length: Duration, call: Callable[[], object]) -> FakeTimer:
        return self._set(length, FakeTimer(call))

    async def advance(self, length: Span) -> Instant:
        """Let time pass; each waiter for an instant on the way wakes, in order, and runs until it waits again."""
        until = self._elapsed + to_duration(length)
        while self._sleepers and self._sleepers[0][0] <= until:
            due, _, timer = heapq.heappop(self._sleepers)
            self._move_to(max(due, self._elapsed))
            if not timer.cancelled:
                timer.ring()
                for _ in range(timer.passes):
                    await asyncio.sleep(0)
        self._move_to(until)
        await asyncio.sleep(0)
        return self._now

    def jump(self, length: Span) -> Instant:
        """Step the wall clock, forward or back, while no time passes."""
        self._now = Instant(self._now + to_duration(length))
        return self._now

    @asynccontextmanager
    async def _timeout(self, length: Duration) -> AsyncIterator[object]:
        async with asyncio.timeout(None) as limit:
            timer = self._set(length, FakeTimer(lambda: limit.reschedule(0), TO_TIME_OUT))
            try:
                yield limit
            finally:
                timer.cancel()

    def _set(self, length: Duration, timer: FakeTimer) -> FakeTimer:
        heapq.heappush(self._sleepers, (self._elapsed + max(length, 0), next(self._order), timer))
        return timer

    def _move_to(self, elapsed: int) -> None:
        self._now = Instant(self._now + elapsed - self._elapsed)
        self._elapsed = Instant(elapsed)
