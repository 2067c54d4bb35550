"""All that a process tells: its own numbers, and those of the worker processes that it supervises."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from oncue.clock import Clock
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.metrics import machine, table
from oncue.metrics.exposition import exposition
from oncue.metrics.metric import Roles
from oncue.metrics.numbers import SILENT, Bounds, Numbers, Series
from oncue.metrics.tick import Tick

SHARED_FOR = Duration(SECOND)


class Gathered:
    """What worker processes have counted. Their counts stay when they end; their gauges go with them."""

    def __init__(self, bounds: Bounds) -> None:
        self._ended = Numbers(bounds)
        self._latest: dict[Hashable, tuple[Series, ...]] = {}

    def heard(self, who: Hashable, counted: tuple[Series, ...]) -> None:
        """Take what a worker process has counted since its start."""
        self._latest[who] = counted

    def ended(self, who: Hashable) -> None:
        self._ended.absorb(self._latest.pop(who, ()), gauges=False)

    def series(self) -> Iterator[Series]:
        yield from self._ended.series()
        for counted in self._latest.values():
            yield from counted


class Exposed:
    """One for each process that answers. `counting=False`: nothing is counted, to measure what counting costs."""

    def __init__(self, clock: Clock, *roles: Roles, queues: Sequence[str] = (), counting: bool = True) -> None:
        self._clock = clock
        self._shared: tuple[Instant, bytes] | None = None  # by the monotonic clock
        self._bounds = Bounds(queues)
        self.numbers = Numbers(self._bounds, Roles.ALL, *roles) if counting else SILENT
        self.workers = Gathered(self._bounds)
        self.tick = Tick(clock, self.numbers)

    def know(self, queues: Sequence[str]) -> None:
        """Give these queues series of their own, as far as there is room."""
        self._bounds.know(queues)

    def shared_text(self) -> bytes:
        """Return the text, at most a second old: however many clients ask, the event loop has other work to do."""
        now = self._clock.monotonic()
        if self._shared is None or now - self._shared[0] >= SHARED_FOR:
            self._shared = now, self.text()
        return self._shared[1]

    def text(self) -> bytes:
        together = Numbers(self._bounds)
        together.absorb(self.numbers.series())
        together.absorb(self.workers.series())
        together.absorb(of_this_process())
        return exposition(table.METRICS, together.series())


def of_this_process() -> Iterator[Series]:
    used = machine.usage()
    if used is not None:
        yield Series(table.CPU.name, (), (used.cpu_seconds,))
        yield Series(table.MEMORY.name, (), (used.resident_bytes,))
        yield Series(table.OPEN_FILES.name, (), (used.open_files,))
        yield Series(table.MOST_FILES.name, (), (used.most_files,))
        yield Series(table.STARTED.name, (), (used.started_at,))


def of_this_worker_process() -> Iterator[Series]:
    used = machine.usage()
    if used is not None:
        yield Series(table.WORKER_CPU.name, (), (used.cpu_seconds,))
        yield Series(table.WORKER_MEMORY.name, (), (used.resident_bytes,))
        yield Series(table.WORKER_OPEN_FILES.name, (), (used.open_files,))
        yield Series(table.WORKER_MOST_FILES.name, (), (used.most_files,))
        yield Series(table.WORKER_STARTED.name, (), (used.started_at,))
