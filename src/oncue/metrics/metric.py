"""What a metric is: its name, its kind, its labels and its meaning."""

from __future__ import annotations

from enum import StrEnum

import msgspec

Labels = tuple[str, ...]  # the values, in the order of the metric's label names

OTHER = "other"  # stands for every value of a label beyond those that get a series each
OPEN_LABELS = frozenset({"task", "queue"})  # the labels whose values are names from outside this package


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Roles(StrEnum):
    """The processes that count it. `up` is all three."""

    ALL = "all"
    API = "api"
    SCHEDULER = "scheduler"
    WORKER = "worker"
    CLUSTER = "cluster"  # read from the database, not counted


class Metric(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One metric. Compared and hashed by identity: it is declared once, in `table.py`."""

    name: str
    kind: Kind
    role: Roles
    help: str
    labels: tuple[str, ...] = ()
    values: tuple[Labels, ...] = ()
    """Label values that are known beforehand: a counter starts with 0 for each, so that its first increase is seen."""
    edges: tuple[float, ...] = ()
    """Of a histogram, in its unit."""
    scale: int = 1
    """What is counted, in one unit: a histogram of seconds counts microseconds."""
    most: int = 0
    """Most series, not counting those of `other`; 0: as many as its labels have values."""
    smallest: bool = False
    """Whether the gauges of several processes are one by their smallest value; else they are added."""
    own: bool = False
    """Whether only the process that answers has it: a worker process does not send it to its supervisor."""

    @property
    def is_open(self) -> bool:
        return not OPEN_LABELS.isdisjoint(self.labels)
