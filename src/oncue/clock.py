"""The one file that reads time or sleeps. Everything else takes a `Clock`, or is given `now`."""

from __future__ import annotations

import time
from typing import Protocol

from oncue.domain.instants import SECOND, Duration, Instant


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


class SystemClock:
    """Follows the store: an offset from the monotonic clock to the store's time, learnt at connect and at every beat.

    A host whose own clock is 90 s off, or steps, neither starts runs early nor declares others dead.
    """

    def __init__(self) -> None:
        self._offset = time.time_ns() // 1_000 - self.monotonic()

    def now(self) -> Instant:
        return Instant(self.monotonic() + self._offset)

    def monotonic(self) -> Instant:
        return Instant(time.monotonic_ns() // 1_000)

    def follow(self, store_now: Instant, asked_at: Instant, answered_at: Instant) -> None:
        """Learn the offset from one question to the store; `asked_at` and `answered_at` are monotonic."""
        self._offset = store_now - (asked_at + answered_at) // 2

    async def sleep(self, length: Duration) -> None:
        import asyncio  # here, so that a command that only wants to know the time starts 30 ms sooner

        await asyncio.sleep(length / SECOND)
