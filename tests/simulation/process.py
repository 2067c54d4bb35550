"""Processes of a simulated world: each with actors that act by turns, all of which stop when it is frozen or killed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from traceback import format_exc

from tests.simulation.journal import Journal

from oncue.clock import Clock, Offset, Timer
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.testing.clock import FakeClock

LONGEST_WAIT = Duration(5 * SECOND)
OUTAGE_RETRY_DELAY = Duration(200 * MILLISECOND)


class OwnClock:
    """The store's time as far as one process has learnt it: each notices at another moment that it was set."""

    def __init__(self, clock: FakeClock, store_now: Instant) -> None:
        self._clock = clock
        self._offset = Offset(0)
        self.follow(store_now, clock.monotonic(), clock.monotonic())

    def now(self) -> Instant:
        return Instant(self._clock.monotonic() + self._offset.length)

    def monotonic(self) -> Instant:
        return self._clock.monotonic()

    async def sleep(self, length: Duration) -> None:
        await self._clock.sleep(length)

    def timeout(self, length: Duration) -> AbstractAsyncContextManager[object]:
        return self._clock.timeout(length)

    def call_later(self, length: Duration, call: Callable[[], object]) -> Timer:
        return self._clock.call_later(length, call)

    def follow(self, store_now: Instant, asked_at: Instant, answered_at: Instant) -> Duration | None:
        self._offset.learn(store_now, asked_at, answered_at)
        return self._offset.doubted


class Process:
    def __init__(self, name: str, clock: FakeClock, own: OwnClock | None = None) -> None:
        self.name = name
        self.clock = clock
        self.own: Clock = own or clock  # what its services go by
        self.frozen_until = 0
        self.dead = False
        self.actors: list[Actor] = []
        self.bodies: set[asyncio.Task[object]] = set()

    @property
    def awake(self) -> bool:
        return not self.dead and self.clock.monotonic() >= self.frozen_until

    def freeze(self, length: int) -> None:
        self.frozen_until = max(self.frozen_until, self.clock.monotonic() + length)

    async def sleep(self, length: int) -> None:
        await self.clock.sleep(Duration(length))
        await self.thaw()

    async def thaw(self) -> None:
        while not self.awake:
            if self.dead:
                raise asyncio.CancelledError
            await self.clock.sleep(Duration(self.frozen_until - self.clock.monotonic()))

    def act(self, name: str, once: Callable[[], Awaitable[int]], journal: Journal) -> Actor:
        actor = Actor(f"{self.name}.{name}", self, once, journal)
        self.actors.append(actor)
        return actor

    def kill(self) -> list[asyncio.Task[object]]:
        """Nothing of it goes on. Returns what has to be awaited once, so that asyncio does not complain."""
        self.dead = True
        tasks = [actor.task for actor in self.actors if actor.task is not None and not actor.task.done()]
        left = [*tasks, *self.bodies]
        for task in left:
            task.cancel()
        return left


class Actor:
    """A service in its loop: what `Loop` does, by hand."""

    def __init__(self, name: str, process: Process, once: Callable[[], Awaitable[int]], journal: Journal) -> None:
        self.name = name
        self.process = process
        self.next_at = 0
        self.task: asyncio.Task[object] | None = None
        self._once = once
        self._journal = journal
        self._woken = False

    def ready(self, elapsed: int) -> bool:
        return self.next_at <= elapsed and (self.task is None or self.task.done())

    def wake(self) -> None:
        self.next_at = 0
        self._woken = True

    def begin(self) -> None:
        self._woken = False
        self.task = asyncio.create_task(self._turn())

    async def _turn(self) -> None:
        try:
            wait = await self._once()
        except StoreUnavailable:
            wait = OUTAGE_RETRY_DELAY
        except Exception:  # what Loop would log and forget is a finding here
            self._journal.crashes.append(f"{self.name}: {format_exc()}")
            wait = SECOND
        if not self._woken:
            self.next_at = self.process.clock.monotonic() + min(wait, LONGEST_WAIT)
