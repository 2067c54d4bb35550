"""A share of the worker's loop for data from foreign servers, however much it is and however it is split.

Not the bytes cost time, but their processing: a megabyte in one piece is read in a millisecond, and in chunks of one
byte in ten seconds. So the share counts time. A call that has received data waits for a turn before it processes the
data; the turn's duration is charged, and the next turn comes when the share allows it.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND, Duration, Instant

SHARE = 0.5  # of the loop's time
SAVED_UP = Duration(20 * MILLISECOND)  # of unused time, for calls that come all at once after a quiet moment
LONG = Duration(2 * MILLISECOND)  # for one turn; then another call gets one
LEAST = Duration(MILLISECOND // 10)  # what a turn costs outside of what can be measured: the system's part


class LoopShare:
    """Shared by all calls of one loop. Calls that used least go first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open_at = Instant(0)  # by the monotonic clock
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._number = count()
        self._looking = False

    def turns(self) -> Turns:
        return Turns(self, self._clock)

    async def admitted(self, used: int) -> None:
        """Wait for a turn of a call that has used this much before. The turn begins when this returns."""
        if not self._waiting and self._open_at <= self._clock.monotonic():
            return
        admission = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (used, next(self._number), admission))
        if not self._looking:
            self._look()
        await admission

    def charge(self, took: int) -> None:
        idle_since = self._clock.monotonic() - int(SAVED_UP / SHARE)
        self._open_at = Instant(max(self._open_at, idle_since) + int(took / SHARE))

    def _look(self) -> None:
        """Admit one call if it is time; look again after its turn, or when it is time."""
        while self._waiting and self._waiting[0][-1].done():  # it was cancelled
            heappop(self._waiting)
        self._looking = bool(self._waiting)
        if not self._waiting:
            return
        early = self._open_at - self._clock.monotonic()
        if early > 0:
            self._clock.call_later(Duration(early), self._look)
            return
        heappop(self._waiting)[-1].set_result(None)
        asyncio.get_running_loop().call_soon(self._look)


class Turns:
    """The turns of one call. Between `begin` and `end` it awaits nothing that takes time."""

    def __init__(self, share: LoopShare, clock: Clock) -> None:
        self._share = share
        self._clock = clock
        self._used = 0
        self._since: Instant | None = None

    @property
    def is_long(self) -> bool:
        return self._since is not None and self._clock.monotonic() - self._since > LONG

    async def begin(self) -> None:
        """Begin a turn; end the current one first, if there is one."""
        self.end()
        await self._share.admitted(self._used)
        self._since = self._clock.monotonic()

    def end(self, least: Duration = LEAST) -> None:
        if self._since is None:
            return
        took = self._clock.monotonic() - self._since + least
        self._since = None
        self._used += took
        self._share.charge(took)
