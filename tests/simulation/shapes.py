"""What workers have to give: much, or so little that runs wait for each other."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from msgspec.structs import replace
from tests.simulation.bodies import TASK
from tests.simulation.faults import LEASE, STORE_TIMEOUT

from oncue.domain.instants import SECOND, Duration
from oncue.domain.placement import Offer, Priority, Resources
from oncue.settings import Settings

QUEUES = ("default", "side")
THOUSANDS = (*QUEUES, *(f"queue {n}" for n in range(3_000)))
LABEL = "gpu"
SETTINGS = Settings(lease=Duration(LEASE), store_timeout=Duration(STORE_TIMEOUT), kill_grace=Duration(SECOND))


@dataclass(frozen=True)
class Shape:
    """One worker's places, those of them that only high priority gets, and what it offers beside them."""

    places: int
    reserved: int = 0
    labels: frozenset[str] = frozenset()
    cpu_milli: int = 1_000
    memory_mb: int = 1_000
    lease: int = LEASE
    queues: tuple[str, ...] = QUEUES

    @property
    def settings(self) -> Settings:
        part = (self.reserved + 0.5) / self.places if self.reserved else 0.0
        return replace(SETTINGS, concurrency=self.places, reserved_for_high=part, lease=Duration(self.lease))

    def reserved_from(self, priority: Priority, size: Resources) -> int:
        """Places that a run must leave free; one that needs nearly all of them gets them when it is alone."""
        return 0 if priority is Priority.HIGH else min(self.reserved, self.places - size.slots)

    @property
    def offer(self) -> Offer:
        has = Resources(self.cpu_milli, self.memory_mb, self.places)
        return Offer(frozenset({TASK}), frozenset(self.queues), self.labels, has)


ROOMY = Shape(1_000, labels=frozenset({LABEL}), cpu_milli=1_000_000, memory_mb=1_000_000)


def some_shapes(chance: Random, *, tight: bool) -> list[Shape]:
    """The first of them could run anything that anybody asks for."""
    n = chance.choice([1, 2, 3])
    if not tight:
        return [ROOMY] * n
    first = chance.choice([Shape(3), Shape(3, 1), Shape(5, 1)])
    others = [Shape(chance.choice([1, 2, 3]), labels=frozenset(chance.choice([(), (LABEL,)]))) for _ in range(n - 1)]
    return [Shape(first.places, first.reserved, frozenset({LABEL})), *others]
