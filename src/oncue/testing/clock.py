"""A clock for tests: it stands still until told to move, and wakes sleepers in order."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from oncue.domain.instants import Duration, Instant, parse_instant

SOME_DAY = parse_instant("2030-01-01T00:00:00Z")


class FakeClock:
    def __init__(self, now: Instant = SOME_DAY) -> None:
        self._now = now
        self._elapsed = Instant(0)
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> Instant:
        return self._now

    def monotonic(self) -> Instant:
        return self._elapsed

    async def sleep(self, length: Duration) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + max(length, 0), next(self._order), woken))
        await woken

    async def advance(self, length: Duration) -> Instant:
        """Let time pass; every sleeper due on the way wakes, in order, and runs until it sleeps or waits again."""
        until = self._elapsed + length
        while self._sleepers and self._sleepers[0][0] <= until:
            due, _, woken = heapq.heappop(self._sleepers)
            self._move_to(max(due, self._elapsed))
            if not woken.done():
                woken.set_result(None)
                await asyncio.sleep(0)
        self._move_to(until)
        await asyncio.sleep(0)
        return self._now

    def jump(self, length: int) -> Instant:
        """The wall clock steps, forward or back, while no time passes."""
        self._now = Instant(self._now + length)
        return self._now

    def _move_to(self, elapsed: int) -> None:
        self._now = Instant(self._now + elapsed - self._elapsed)
        self._elapsed = Instant(elapsed)
