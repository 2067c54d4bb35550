"""How busy this worker is: its slots, its event loop, and how long runs of each class take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp

from oncue.clock import Clock, thread_time
from oncue.domain.ids import ClassId
from oncue.domain.instants import MINUTE, Duration, Instant
from oncue.domain.load import Load
from oncue.domain.run import Settlement
from oncue.services.capacity import Capacity

MEMORY = MINUTE  # what was longer ago hardly counts
MOST_CLASSES = 100  # the last ones of which a run ended


class LoadMeter:
    """`add` is called for every batch of settled runs and only adds up; `read` does the rest, about once a second."""

    def __init__(self, clock: Clock, capacity: Capacity, worked: Callable[[], Duration] = thread_time) -> None:
        self._clock = clock
        self._capacity = capacity
        self._worked = worked  # by the thread of the event loop
        self._read_at, self._worked_before = clock.monotonic(), worked()
        self._ended: dict[ClassId, list[int]] = {}  # since the last reading: how many runs, and how long in all
        self._means: dict[ClassId, tuple[float, Instant]] = {}  # and when it changed last, oldest first

    def add(self, settlements: Sequence[Settlement]) -> None:
        ended = self._ended
        for settled in settlements:
            if settled.started_at is not None:
                sums = ended.get(settled.run.class_id)
                if sums is None:
                    sums = ended[settled.run.class_id] = [0, 0]
                sums[0] += 1
                sums[1] += settled.ended_at - settled.started_at

    def read(self, running: int | None = None, full: Sequence[ClassId] = ()) -> Load:
        """Return the load since the last reading. Call it in the event loop's own thread."""
        now, worked = self._clock.monotonic(), self._worked()
        passed = now - self._read_at
        busy = min(1.0, (worked - self._worked_before) / passed) if passed > 0 else 0.0
        self._read_at, self._worked_before = now, worked
        self._fold(now)
        cpu_milli, memory_mb = self._capacity.requested
        return Load(
            slots={kind.value: many for kind, many in self._capacity.size.items()},
            used={kind.value: many for kind, many in self._capacity.used.items()},
            busy=round(busy, 3),
            cpu_milli=cpu_milli,
            memory_mb=memory_mb,
            running=running,
            full=tuple(full),
            mean={class_id: Duration(round(mean)) for class_id, (mean, _) in self._means.items()},
        )

    def _fold(self, now: Instant) -> None:
        """Move each mean towards the newest runs, the further the longer ago it was moved last."""
        for class_id, (n, total) in self._ended.items():
            newest = max(0, total) / n
            before, at = self._means.pop(class_id, (newest, now))
            self._means[class_id] = newest + (before - newest) * exp((at - now) / MEMORY), now
        self._ended = {}
        for class_id in list(self._means)[:-MOST_CLASSES]:
            del self._means[class_id]
