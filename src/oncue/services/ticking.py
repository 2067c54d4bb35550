"""The tick of a process that has no other: how late it comes tells whether the event loop is blocked."""

from __future__ import annotations

from oncue.domain.instants import Duration
from oncue.metrics.tick import Tick


class Ticking:
    name = "ticking"

    def __init__(self, tick: Tick) -> None:
        self._tick = tick

    async def run_once(self) -> Duration:
        return self._tick()
