"""How many runs each class has had, to tell which tasks and queues matter most."""

from __future__ import annotations

from oncue.clock import Clock
from oncue.domain.ids import ClassId
from oncue.domain.instants import MINUTE, Instant
from oncue.engines.port import Count, History

GOOD_FOR = MINUTE  # an order of size, for which older numbers do as well


class ClassTotals:
    def __init__(self, history: History, clock: Clock) -> None:
        self._history = history
        self._clock = clock
        self._found: dict[ClassId, int] = {}
        self._read_at: Instant | None = None  # by the monotonic clock

    async def runs(self) -> dict[ClassId, int]:
        """Return the runs that were ever created, of everybody, by class; read once a minute."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= GOOD_FOR:
            counters = await self._history.counters()
            self._found = {one.class_id: one.n for one in counters if one.what is Count.CREATED}
            self._read_at = now
        return self._found
