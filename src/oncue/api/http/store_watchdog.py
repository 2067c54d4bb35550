"""Fail requests early if the database is unavailable, and never because it is only slow.

When a request has waited for a while, the watchdog pings the database. Without an answer all waiting requests fail as
unavailable; else they wait on, as long as a call to the database may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import MILLISECOND, Duration

PERIOD = 0.6  # seconds: a request that has waited for one to two periods triggers a ping
ANSWER_WITHIN = Duration(500 * MILLISECOND)  # less than a period: one ping at a time
# An answer later than this should have timed out before: the process was too busy, and the answer may lie there unread.
TOO_BUSY = Duration(ANSWER_WITHIN + 20 * MILLISECOND)

Ping = Callable[[Duration], Awaitable[None]]


class StoreWatchdog:
    """Wraps every wait for the database: `with WatchedCall(watchdog): …` raises StoreUnavailable within two seconds of
    an outage. All requests share one; it costs each two set operations and no timer of its own.
    """

    def __init__(self, ping: Ping, clock: Clock) -> None:
        self._ping = ping
        self._clock = clock
        self.new: set[asyncio.Task[Any]] = set()  # came after the last tick
        self.old: set[asyncio.Task[Any]] = set()
        self.given_up: set[asyncio.Task[Any]] = set()
        self.loop: asyncio.AbstractEventLoop | None = None  # cached: asking for it takes a system call
        self._ticking = False
        self._asking: asyncio.Task[None] | None = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Suspend the watch of this task: inside the block it waits for something other than the database."""
        task = asyncio.current_task()
        assert task is not None
        self.new.discard(task)
        self.old.discard(task)
        try:
            yield
        finally:
            self.begin(task)

    def begin(self, task: asyncio.Task[Any]) -> None:
        self.new.add(task)
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(PERIOD, self._tick)

    def _tick(self) -> None:
        overdue = bool(self.old)
        self.old |= self.new
        self.new = set()
        self._ticking = bool(self.old)
        if self._ticking:
            asyncio.get_running_loop().call_later(PERIOD, self._tick)
        if overdue and self._asking is None:
            self._asking = asyncio.create_task(self._ask(frozenset(self.old)))

    async def _ask(self, waiting: frozenset[asyncio.Task[Any]]) -> None:
        asked_at = self._clock.monotonic()
        try:
            await self._ping(ANSWER_WITHIN)
        except StoreUnavailable:
            if self._clock.monotonic() - asked_at > TOO_BUSY:
                return
            for task in waiting & self.old:
                self.given_up.add(task)
                task.cancel()
        finally:
            self._asking = None


class WatchedCall:
    """One watched wait."""

    __slots__ = ("_task", "_watchdog")

    def __init__(self, watchdog: StoreWatchdog) -> None:
        self._watchdog = watchdog
        if watchdog.loop is None:
            watchdog.loop = asyncio.get_running_loop()
        task = asyncio.current_task(watchdog.loop)
        assert task is not None
        self._task = task

    def __enter__(self) -> None:
        self._watchdog.begin(self._task)

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        watchdog, task = self._watchdog, self._task
        watchdog.new.discard(task)
        watchdog.old.discard(task)
        if task in watchdog.given_up:
            watchdog.given_up.discard(task)
            if task.uncancel() == 0 and kind is asyncio.CancelledError:
                raise StoreUnavailable("the database did not answer in time; the call was given up")
