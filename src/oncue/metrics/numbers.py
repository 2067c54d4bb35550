"""Counting: cheap enough for every run, and bounded whatever users do.

On the path of a run there is one `list.append`; the rest is done by the batch. `fold` sorts what was appended and finds
the edges in it, so that a histogram costs a fraction of a microsecond for each value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from oncue.metrics.metric import OPEN_LABELS, OTHER, Kind, Labels, Metric, Roles
from oncue.metrics.table import BY_NAME, METRICS

MOST_TASKS: Final = 100
MOST_QUEUES: Final = 20

Read = Callable[[], Mapping[Labels, float]]


class Series(msgspec.Struct, frozen=True, array_like=True):
    """One metric with one set of labels. A histogram's values are its sum, and the number in each bucket."""

    name: str
    labels: Labels
    values: tuple[float, ...]


class Sink(Protocol):
    """What the path of a run appends to."""

    def append(self, value: int, /) -> None: ...


class Bounds:
    """Which names get a series of their own: the first that come. A counter must not move from one label to another."""

    def __init__(self, queues: Sequence[str] = ()) -> None:
        self._names = {"task": dict[str, None](), "queue": dict[str, None]()}
        self._most = {"task": MOST_TASKS, "queue": 0}
        self._sets: dict[Metric, set[Labels]] = {}
        self.know(queues)

    def know(self, queues: Sequence[str]) -> None:
        """Let these queues have series of their own. A worker tells them once it has loaded its tasks."""
        names = self._names["queue"]
        new = [name for name in dict.fromkeys(queues) if name not in names]
        names.update(dict.fromkeys(new[: MOST_QUEUES - len(names)]))
        self._most["queue"] = len(names)

    def fit(self, metric: Metric, labels: Labels) -> Labels:
        """Return the labels to count under."""
        if not metric.is_open:
            return labels
        fitting = tuple(self._name(label, value) for label, value in zip(metric.labels, labels, strict=True))
        known = self._sets.setdefault(metric, set())
        if fitting in known or not metric.most:
            return fitting
        if len(known) >= metric.most:
            return tuple(
                OTHER if label in OPEN_LABELS else value for label, value in zip(metric.labels, labels, strict=True)
            )
        known.add(fitting)
        return fitting

    def _name(self, label: str, value: str) -> str:
        names = self._names.get(label)
        if names is None or value in names:
            return value
        if len(names) >= self._most[label]:
            return OTHER
        names[value] = None
        return value


class Value:
    """A counter or a gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def values(self) -> tuple[float, ...]:
        return (self.value,)

    def add(self, values: Sequence[float]) -> None:
        self.value += values[0]


class Histogram:
    """How many values there were up to each edge, and their sum. Appended values count once they are folded."""

    __slots__ = ("_counts", "_edges", "_sum", "appended")

    def __init__(self, metric: Metric) -> None:
        self._edges = [round(edge * metric.scale) for edge in metric.edges]
        self._counts = [0.0] * (len(self._edges) + 1)
        self._sum = 0.0
        self.appended: list[int] = []

    def observe(self, value: int) -> None:
        value = max(0, value)  # a clock was set back; and a sum must not fall
        self._counts[bisect_left(self._edges, value)] += 1
        self._sum += value

    def fold(self) -> int:
        """Count what was appended; return how many values."""
        appended = self.appended
        if not appended:
            return 0
        found = len(appended)
        appended.sort()
        before = 0
        for place, edge in enumerate(self._edges):
            until = bisect_right(appended, edge, before)
            self._counts[place] += until - before
            before = until
            if before == len(appended):
                break
        self._counts[-1] += len(appended) - before
        self._sum += sum(appended) if appended[0] >= 0 else sum(value for value in appended if value > 0)
        appended.clear()
        return found

    def values(self) -> tuple[float, ...]:
        self.fold()
        return (self._sum, *self._counts)

    def add(self, values: Sequence[float]) -> None:
        self._sum += values[0]
        for place, count in enumerate(values[1 : len(self._counts) + 1]):
            self._counts[place] += count


class Numbers:
    """What one process counts, from its start on. `bounds` may be shared: then the same names have their own series."""

    def __init__(self, bounds: Bounds | None = None, *roles: Roles) -> None:
        self._bounds = bounds or Bounds()
        self._values: dict[tuple[Metric, Labels], Value] = {}
        self._histograms: dict[tuple[Metric, Labels], Histogram] = {}
        self._readers: dict[tuple[Metric, Hashable], Read] = {}
        for metric in METRICS:
            if metric.role in roles and metric.kind is Kind.COUNTER and not metric.own:
                for labels in metric.values or ((),) * (not metric.labels):
                    self._values[metric, labels] = Value()

    def add(self, metric: Metric, *labels: str, n: float = 1) -> None:
        self._value(metric, labels).value += n

    def set(self, metric: Metric, *labels: str, to: float) -> None:
        self._value(metric, labels).value = to

    def observe(self, metric: Metric, *labels: str, value: int) -> None:
        """Count one value of a histogram, in its `scale`: for what happens some thousand times a second at most."""
        self._histogram(metric, labels).observe(value)

    def sink(self, metric: Metric, *labels: str) -> Sink:
        """Return where to append values of a histogram that come by the ten thousand a second."""
        return self._histogram(metric, labels).appended

    def read(self, metric: Metric, read: Read, whose: Hashable = None) -> None:
        """Have a metric read whenever somebody asks; of each `whose` there is one reader, the latest."""
        self._readers[metric, whose] = read

    def forget(self, whose: Hashable) -> None:
        """Drop the readers of what is not there any more."""
        self._readers = {key: read for key, read in self._readers.items() if key[1] is not whose}

    def fold(self) -> int:
        """Count what was appended: call it some times a second, so that little piles up. Return how many values."""
        return sum(histogram.fold() for histogram in self._histograms.values())

    def series(self) -> Iterator[Series]:
        """Return all there is. The same labels may come twice, if two readers tell of them."""
        for (metric, labels), value in self._values.items():
            yield Series(metric.name, labels, value.values())
        for (metric, labels), histogram in self._histograms.items():
            yield Series(metric.name, labels, histogram.values())
        for (metric, _), read in self._readers.items():
            for labels, found in read().items():
                yield Series(metric.name, labels, (found,))

    def absorb(self, series: Iterable[Series], *, gauges: bool = True) -> None:
        """Add what another process has counted. Metrics of a newer oncue are left out."""
        for one in series:
            metric = BY_NAME.get(one.name)
            if metric is None or len(metric.labels) != len(one.labels):
                continue
            if metric.kind is Kind.HISTOGRAM:
                self._histogram(metric, one.labels).add(one.values)
            elif metric.kind is Kind.COUNTER or gauges:
                self._gather(metric, one)

    def _gather(self, metric: Metric, one: Series) -> None:
        new = metric.smallest and (metric, one.labels) not in self._values
        cell = self._value(metric, one.labels)
        if metric.smallest and not new:
            cell.value = min(cell.value, one.values[0])
        else:
            cell.add(one.values)

    def _value(self, metric: Metric, labels: Labels) -> Value:
        found = self._values.get((metric, labels))
        if found is None:
            key = (metric, self._bounds.fit(metric, labels))
            found = self._values.setdefault(key, Value())
        return found

    def _histogram(self, metric: Metric, labels: Labels) -> Histogram:
        found = self._histograms.get((metric, labels))
        if found is None:
            key = (metric, self._bounds.fit(metric, labels))
            found = self._histograms.get(key)
            if found is None:
                found = self._histograms[key] = Histogram(metric)
        return found


class Silent(Numbers):
    """Counts nothing: for services that nobody asks, and to measure what counting costs."""

    def add(self, metric: Metric, *labels: str, n: float = 1) -> None: ...

    def set(self, metric: Metric, *labels: str, to: float) -> None: ...

    def observe(self, metric: Metric, *labels: str, value: int) -> None: ...

    def sink(self, metric: Metric, *labels: str) -> Sink:
        return deque(maxlen=0)

    def read(self, metric: Metric, read: Read, whose: Hashable = None) -> None: ...


SILENT: Final = Silent()
