"""The cluster in numbers, read at most once a second for all who ask."""

from __future__ import annotations

import asyncio

from oncue.clock import Clock
from oncue.domain.instants import SECOND, Instant
from oncue.engines.port import Gauges, History

GOOD_FOR = SECOND


class KnownGauges:
    def __init__(self, history: History, clock: Clock) -> None:
        self._history = history
        self._clock = clock
        self._reading: asyncio.Task[Gauges] | None = None
        self._read_at = Instant(0)  # by the monotonic clock

    async def read(self) -> Gauges:
        now = self._clock.monotonic()
        if self._reading is None or self._failed() or now - self._read_at >= GOOD_FOR:
            self._read_at = now
            self._reading = asyncio.create_task(self._history.gauges(self._clock.now()))
        return await asyncio.shield(self._reading)

    def _failed(self) -> bool:
        done = self._reading is not None and self._reading.done()
        return done and self._reading is not None and (self._reading.cancelled() or bool(self._reading.exception()))
