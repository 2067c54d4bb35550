"""Fail requests early if the database is unavailable, and never because it is only slow.

When a request has waited for a while, the watchdog pings the database. Without an answer all waiting requests fail as
unavailable; else they wait on, as long as a call to the database may take. If one of them changes something, a small
write is tried, too: while writes do not come back, changes fail at once, and reads go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from oncue.clock import Clock
from oncue.domain.errors import OldPrimary, StoreUnavailable, WritesStalled
from oncue.domain.instants import MILLISECOND, Duration
from oncue.engines.patience import Patience
from oncue.engines.port import NoStandstill, Standstill

PERIOD = 0.6  # seconds: a request that has waited for one to two periods triggers a ping
ANSWER_WITHIN = Duration(500 * MILLISECOND)  # less than a period: one ping at a time
# An answer later than this should have timed out before: the process was too busy, and the answer may lie there unread.
TOO_BUSY = Duration(ANSWER_WITHIN + 20 * MILLISECOND)

Ping = Callable[[Duration], Awaitable[None]]


class StoreWatchdog:
    """Wraps every wait for the database: `with WatchedCall(watchdog): …` raises StoreUnavailable within two seconds of
    an outage. All requests share one; it costs each two set operations and no timer of its own.
    """

    def __init__(
        self, ping: Ping, clock: Clock, standstill: Standstill | None = None, patience: Duration | None = None
    ) -> None:
        self._ping = ping
        self._length = patience
        self._standstill: Standstill = standstill or NoStandstill()
        self._clock = clock
        self.new: set[asyncio.Task[Any]] = set()  # came after the last tick
        self.old: set[asyncio.Task[Any]] = set()
        self.changing: set[asyncio.Task[Any]] = set()  # those of both that may write
        self.given_up: dict[asyncio.Task[Any], StoreUnavailable] = {}  # with what is said instead of an answer
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

    def refuse_stalled(self) -> None:
        """WritesStalled: what changes something need not be tried now."""
        if (why := self._standstill.why) is not None:
            raise WritesStalled(why, tried=False)

    def patience(self, waited: int = 0) -> Patience | None:
        """Return the patience of one request that has waited for so long already. None: each call has its own limit."""
        return None if self._length is None else Patience(self._length - waited, self._clock)

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
        looking = None if waiting.isdisjoint(self.changing) else asyncio.create_task(self._look_for_standstill())
        try:
            await self._ping(ANSWER_WITHIN)
            if looking is not None:
                await looking
        except StoreUnavailable as away:
            if self._clock.monotonic() - asked_at <= TOO_BUSY:
                unanswered = StoreUnavailable("the database did not answer in time; the call was given up")
                self._give_up(waiting & self.old, away if isinstance(away, OldPrimary) else unanswered)
        finally:
            self._asking = None

    async def _look_for_standstill(self) -> None:
        """Give up every change, also one that came later, when writes do not come back."""
        with suppress(StoreUnavailable):  # a write that fails is none that does not come back
            if (why := await self._standstill.check(ANSWER_WITHIN)) is not None:
                self._give_up(self.changing & (self.new | self.old), WritesStalled(why, tried=True))

    def _give_up(self, tasks: Collection[asyncio.Task[Any]], away: StoreUnavailable) -> None:
        for task in tasks:
            self.given_up[task] = away
            task.cancel()


class WatchedCall:
    """One watched wait. `changes`: it may write. `patience`: how long all of it may take."""

    __slots__ = ("_changes", "_patience", "_task", "_watchdog")

    def __init__(self, watchdog: StoreWatchdog, patience: Patience | None = None, *, changes: bool = False) -> None:
        self._watchdog = watchdog
        self._patience = patience
        self._changes = changes
        if watchdog.loop is None:
            watchdog.loop = asyncio.get_running_loop()
        task = asyncio.current_task(watchdog.loop)
        assert task is not None
        self._task = task

    def __enter__(self) -> None:
        self._watchdog.begin(self._task)
        if self._changes:
            self._watchdog.changing.add(self._task)
        if self._patience is not None:
            self._patience.begin()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        watchdog, task = self._watchdog, self._task
        watchdog.new.discard(task)
        watchdog.old.discard(task)
        if self._changes:
            watchdog.changing.discard(task)
        if self._patience is not None:
            self._patience.end()
        if task in watchdog.given_up:
            away = watchdog.given_up.pop(task)
            if task.uncancel() == 0 and kind is asyncio.CancelledError:
                raise away
