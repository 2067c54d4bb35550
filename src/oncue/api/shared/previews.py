"""Compute previews one at a time, in short steps, so that other requests need not wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar

from oncue.api.http.answers import AGAIN_SOON, Refused
from oncue.api.http.auth import Caller
from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.domain.instants import MILLISECOND, Duration, Instant
from oncue.domain.preview import Preview, Previewing
from oncue.domain.schedule import Schedule

T = TypeVar("T")

MAX_PER_USER = 4  # previews of one user in progress or waiting
MAX_PREVIEWS = 64  # the same, of all users
TURN = Duration(2 * MILLISECOND)  # other requests wait at most this long
COMPUTED_FOR = Duration(500 * MILLISECOND)  # in all, before it is cut off


class Previews:
    """Computes previews in the event loop: each thread would make the loop wait for the interpreter's lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._of: Counter[UserNumber] = Counter()

    async def show(
        self, caller: Caller, schedule: Schedule, count: int, after: Instant | None, now: Instant
    ) -> Preview:
        asked = Previewing(schedule, count, after, now)
        found, cut_off = await self.first(caller, asked.steps())
        return asked.cut_off(found) if cut_off else asked.whole(found)

    async def first(self, caller: Caller, steps: Iterable[T]) -> tuple[list[T], bool]:
        """Compute steps like those of a preview; return them, and whether it was cut off because it took too long."""
        async with self._place(caller), self._turn:
            found: list[T] = []
            spent, begun = 0, self._clock.monotonic()
            for one in steps:
                found.append(one)
                if (took := self._clock.monotonic() - begun) < TURN:
                    continue
                spent += took
                if spent > COMPUTED_FOR:
                    return found, True
                await asyncio.sleep(0)
                begun = self._clock.monotonic()
            return found, False

    @asynccontextmanager
    async def _place(self, caller: Caller) -> AsyncIterator[None]:
        if self._of[caller.uid] >= MAX_PER_USER:
            message = f"More than {MAX_PER_USER} of your previews are in progress. Wait for some of the answers."
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, message, AGAIN_SOON)
        if self._of.total() >= MAX_PREVIEWS:
            message = "The server is computing too many previews. Retry in 1 second."
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, message, AGAIN_SOON)
        self._of[caller.uid] += 1
        try:
            yield
        finally:
            self._of[caller.uid] -= 1
            if not self._of[caller.uid]:
                del self._of[caller.uid]
