"""How long one request waits for the database in all, however many calls it makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar

from oncue.clock import Clock
from oncue.domain.instants import SECOND, Duration, Instant


class Patience:
    """What is left for the calls of a request, between `begin` and `end`. Calls at the same time count once; whatever
    else the request waits for, such as its body or object storage, does not count.
    """

    __slots__ = ("_before", "_calls", "_clock", "_left", "_over", "_since")

    def __init__(self, length: int, clock: Clock) -> None:
        self._left = length
        self._clock = clock
        self._calls = 0
        self._since = Instant(0)
        self._over = False
        self._before: Patience | None = None

    def begin(self) -> None:
        """Count calls of this task, and of tasks that it starts."""
        self._before = _PATIENCE.get()
        _PATIENCE.set(self)

    def end(self) -> None:
        """Count no more calls, also of tasks that go on."""
        self._over = True
        _PATIENCE.set(self._before)

    @property
    def is_over(self) -> bool:
        return self._over

    @asynccontextmanager
    async def call(self, limit: Duration) -> AsyncIterator[None]:
        now = self._clock.monotonic()
        if not self._calls:
            self._since = now
        self._calls += 1
        try:
            async with asyncio.timeout(min(limit, self._left - (now - self._since)) / SECOND):
                yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._left -= self._clock.monotonic() - self._since


_PATIENCE: ContextVar[Patience | None] = ContextVar("patience", default=None)


def within(limit: Duration) -> AbstractAsyncContextManager[object]:
    """Bound a call by its own limit, and by what the request has left in whose context it is."""
    patience = _PATIENCE.get()
    if patience is None or patience.is_over:
        return asyncio.timeout(limit / SECOND)
    return patience.call(limit)
