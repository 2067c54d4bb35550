"""What users ask for: runs of every size and priority, in groups, behind gates, with rates."""

from __future__ import annotations

from random import Random

from tests.simulation.bodies import TASK
from tests.simulation.faults import STEP
from tests.simulation.shapes import LABEL, QUEUES

from oncue.domain.instants import HOUR, SECOND, Duration
from oncue.domain.job import Rate, Spec
from oncue.domain.lane import Concurrency
from oncue.domain.placement import Priority, Resources
from oncue.domain.policy import OnLost, Retry
from oncue.domain.schedule import Schedule

# No bigger than the first worker.
SIZES = {
    Resources(): 12,
    Resources(slots=2): 2,
    Resources(slots=3): 1,
    Resources(cpu_milli=600): 2,
    Resources(cpu_milli=300, memory_mb=450): 1,
    Resources(memory_mb=900): 1,
}
PRIORITIES = {Priority.HIGH: 2, Priority.NORMAL: 5, Priority.LOW: 3}
RATE = Rate(2, Duration(3 * SECOND), "r")


def some_spec(chance: Random, schedule: Schedule, queues: tuple[str, ...] = QUEUES) -> Spec:
    maybe = lambda likely, value: value if chance.random() < likely else None  # noqa: E731
    return Spec(
        TASK,
        schedule,
        queue=chance.choices(QUEUES, [5, 1])[0] if queues == QUEUES else chance.choice(queues),
        priority=chance.choices(list(PRIORITIES), list(PRIORITIES.values()))[0],
        max_retries=chance.randrange(4),
        retry=Retry(backoff=Duration(chance.randrange(1, 20) * STEP), jitter=0.0),
        timeout=maybe(0.1, Duration(chance.randrange(1, 4) * SECOND // 2)) or HOUR,
        start_within=maybe(0.15, Duration(chance.randrange(1, 4) * SECOND)),
        on_lost=maybe(0.1, OnLost.DEAD) or OnLost.RERUN,
        group=maybe(0.35, "g"),
        concurrency=maybe(0.2, Concurrency("k", 2)),
        rate=maybe(0.15, RATE),
        resources=chance.choices(list(SIZES), list(SIZES.values()))[0],
        labels=maybe(0.1, (LABEL,)) or (),
        preemptible=chance.random() < 0.4,
    )
