"""The measures, their units, and our targets on a machine with two cores that everything shares.

How much of everything is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from oncue_bench.minutes import Minute
from oncue_bench.notes import Histogram, Noted, Series

Step = Callable[[str, int, int | None], None]
"""Is told what is being done, how much of it is done, and of how much, if that is known."""


class Reached(StrEnum):
    GOAL = "goal"
    FLOOR = "floor"
    MISSED = "missed"
    NO_GOAL = ""


class Measure(msgspec.Struct, frozen=True):
    part: str
    name: str
    unit: str
    floor: float | None = None
    goal: float | None = None
    more_is_better: bool = False
    slack: float = 0.0
    """The part by which a value may fall short: what runs as often as asked for never exceeds it."""
    must: bool = False
    """Whether missing its floor is a failure."""

    def reached(self, value: float) -> Reached:
        if self.floor is None or self.goal is None:
            return Reached.NO_GOAL
        if self._meets(value, self.goal):
            return Reached.GOAL
        return Reached.FLOOR if self._meets(value, self.floor) else Reached.MISSED

    def _meets(self, value: float, bound: float) -> bool:
        return value >= bound * (1 - self.slack) if self.more_is_better else value <= bound


class Row(msgspec.Struct, frozen=True):
    measure: Measure
    value: float
    note: str = ""
    lags: Histogram | None = None
    started: Series | None = None
    minutes: tuple[Minute, ...] = ()
    caution: str = ""
    """Why the value means little, if it does."""

    @property
    def reached(self) -> Reached:
        return self.measure.reached(self.value)


class Lags(msgspec.Struct, frozen=True):
    """The three measures of how late the runs of one part start."""

    p50: Measure
    p99: Measure
    longest: Measure

    @classmethod
    def of(cls, part: str, floor: float | None = None, goal: float | None = None) -> Lags:
        """Return the measures; the bounds are those of p99."""
        return cls(
            Measure(part, "start lag p50", "ms"),
            Measure(part, "start lag p99", "ms", floor, goal),
            Measure(part, "start lag max", "ms"),
        )

    def rows(self, noted: Noted, note: str = "", started: Series | None = None) -> list[Row]:
        return [
            Row(self.p50, noted.lag(0.5), note),
            Row(self.p99, noted.lag(0.99), note, lags=noted.histogram(), started=started),
            Row(self.longest, noted.lag(1), note),
        ]


CREATE_SINGLE = Measure(
    "create", "one by one, 64 connections, with an Idempotency-Key", "jobs/s", 5_000, 8_000, more_is_better=True
)
CREATE_BATCH = Measure("create", "in batches of 1,000", "jobs/s", 30_000, 50_000, more_is_better=True)
DRAIN = Measure("drain", "runs that are due", "runs/s", 15_000, 40_000, more_is_better=True)
BURST = Lags.of("burst", 2_000, 300)
SPREAD = Lags.of("spread", 50, 5)
SUSTAINED = Lags.of("sustained", 2_000, 250)
SUSTAINED_RATE = Measure("sustained", "created and run", "runs/s")
RECURRING = Measure("recurring", "occurrences run", "runs/s", 3_000, 10_000, more_is_better=True, slack=0.01)
RECURRING_LAGS = Lags.of("recurring")
IDLE_PROCESSOR = Measure("idle", "processor", "% of a core", 5, 1)
IDLE_MEMORY = Measure("idle", "memory of all processes", "MB", 200, 130)
IDLE_GROWTH = Measure("idle", "memory grown since the start", "%", 5, 5)
IDLE_GOING_ON = Measure("idle", "memory grown by more runs", "%", 5, 5)
FULL_DRAIN = Measure("full", "drain, beside an empty store", "%", 80, 95, more_is_better=True)
FULL_BURST = Measure("full", "burst p99, beside an empty store", "%", 80, 95, more_is_better=True)
FULL_SPREAD = Measure("full", "spread p99, beside an empty store", "%", 80, 95, more_is_better=True)
SNAPSHOT = Measure("snapshot", "drain, beside one without", "%", 70, 90, more_is_better=True)
SCALE = Measure("scale", "runs that are due", "runs/s")
SCALE_RATIO = Measure("scale", "beside one worker", "%")
SCALE_WORKERS = Measure("scale", "processor time of workers", "µs/run")
SCALE_STORE = Measure("scale", "processor time of PostgreSQL", "µs/run")
SCALE_REST = Measure("scale", "processor time of API and scheduler", "µs/run")
INTAKE = Measure("intake", "taken in from the outbox, by one scheduler", "jobs/s", 10_000, 20_000, more_is_better=True)
INTAKE_SCHEDULER = Measure("intake", "processor time of the scheduler", "µs/job")
INTAKE_STORE = Measure("intake", "processor time of PostgreSQL", "µs/job")
INTAKE_BATCH = Measure("intake", "the same jobs in batches of 1,000 by the API", "jobs/s")
INTAKE_BATCH_API = Measure("intake", "processor time of the API", "µs/job")
INTAKE_BATCH_STORE = Measure("intake", "processor time of PostgreSQL for these", "µs/job")
INTAKE_BESIDE = Measure("intake", "taken in while runs are due one by one", "jobs/s")
INTAKE_LAGS = Lags.of("intake")
COUNTING = Measure("counting", "processor time of a worker with metrics", "µs/run")
NOT_COUNTING = Measure("counting", "processor time of a worker without", "µs/run")
COUNTING_COST = Measure("counting", "what metrics cost", "%", 1, 1)
FLEET_STATEMENTS = Measure("fleet", "statements", "1/s")
FLEET_WORKERS = Measure("fleet", "processor of all workers", "% of a core")
FLEET_STORE = Measure("fleet", "processor of PostgreSQL", "% of a core")
FLEET_CONNECTIONS = Measure("fleet", "connections", "connections")
FLEET_LAGS = Lags.of("fleet")
SOAK_RATE = Measure("soak", "created and run", "runs/s")
SOAK = Lags.of("soak", 2_000, 250)
SOAK_LOST = Measure("soak", "created, and not run", "runs", 0, 0, must=True)
SOAK_LAG = Measure("soak", "start lag p99, last quarter beside the second", "%", 200, 200, must=True)
SOAK_MEMORY = Measure("soak", "memory grown, last quarter beside the second", "%", 10, 10, must=True)
SOAK_TABLE = Measure("soak", "table grown, last quarter beside the second", "%", 10, 10, must=True)
SOAK_FINDINGS = Measure("soak", "findings of the self-audit", "findings", 0, 0, must=True)
EARLY = Measure("all parts", "started early", "runs", 0, 0, must=True)
AGAIN = Measure("all parts", "started more than once", "runs")


# ------------------------------------------------------------------------------------------------- how much is measured


class Options(msgspec.Struct, frozen=True):
    runs: int = 100_000
    """Runs that are due at once, to be drained."""
    singles: int = 20_000
    batched: int = 100_000
    burst: int = 10_000
    spread_rate: int = 100
    spread_seconds: int = 15
    rate: int = 10_000
    """Runs a second of the sustained load and of the soak."""
    seconds: int = 30
    """Length of the sustained load."""
    minutes: float = 30
    """Length of the soak."""
    history: str = "drop"
    """Of the soak: drop it as it ages, archive it before that, or keep it."""
    workers: tuple[int, ...] = (1, 2, 4)
    """Workers in each round of `scale`."""
    rounds: int | None = None
    """Of `counting`, each with and without (None: 9), and of `fleet` (None: 3)."""
    fleet: tuple[int, ...] = (1, 10, 20, 50)
    """Workers in each step of a round of `fleet`."""
    fleet_rates: tuple[int, ...] = (0, 20, 100)
    """Runs a second that each of these fleets has."""
    fleet_seconds: int = 10
    beside: str | None = None
    """The `src` of another version, which `fleet` measures in turn with this one."""
    intake: int = 50_000
    """Rows of the outbox that are taken in."""
    recurring: tuple[int, ...] = (3_000, 10_000)
    """Jobs that run every second, in each round."""
    recurring_seconds: int = 10
    idle_seconds: int = 10
    more: int = 1_000_000
    """Runs after all parts, during which memory must not grow."""
    future: int = 5_000_000
    finished: int = 10_000_000


QUICK = Options(
    runs=10_000,
    singles=4_000,
    batched=20_000,
    burst=5_000,
    spread_seconds=3,
    seconds=4,
    minutes=1,
    rounds=1,
    fleet=(1, 4),
    fleet_seconds=3,
    intake=10_000,
    recurring=(3_000,),
    recurring_seconds=3,
    idle_seconds=2,
    more=20_000,
    future=50_000,
    finished=100_000,
)
