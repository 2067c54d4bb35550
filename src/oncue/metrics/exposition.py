"""The text that Prometheus reads, format 0.0.4."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from oncue.metrics.metric import Kind, Labels, Metric
from oncue.metrics.numbers import Series

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def exposition(metrics: Iterable[Metric], series: Iterable[Series]) -> bytes:
    """Write the series of these metrics, in the metrics' order. Each set of labels comes once."""
    by_name: dict[str, list[Series]] = defaultdict(list)
    for one in series:
        by_name[one.name].append(one)
    lines = [line for metric in metrics if metric.name in by_name for line in _lines(metric, by_name[metric.name])]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(metric: Metric, series: Iterable[Series]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help.translate(_IN_HELP)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for one in series:
        labels = _labels(metric.labels, one.labels)
        if metric.kind is Kind.HISTOGRAM:
            yield from _histogram(metric, labels, one.values)
        else:
            yield f"{metric.name}{_braced(labels)} {number(one.values[0])}"


def _histogram(metric: Metric, labels: Sequence[str], values: Sequence[float]) -> Iterator[str]:
    """Write the buckets, each with all that is below its edge, then sum and count.

    PromQL compares edges as text, so they are always written as floats: 2.0, not 2.
    """
    total, *counts = values
    edges = (*(repr(float(edge)) for edge in metric.edges), "+Inf")
    for edge, count in zip(edges, accumulate(counts), strict=True):
        bucket = _braced([*labels, f'le="{edge}"'])
        yield f"{metric.name}_bucket{bucket} {number(count)}"
    yield f"{metric.name}_sum{_braced(labels)} {number(total / metric.scale)}"
    yield f"{metric.name}_count{_braced(labels)} {number(sum(counts))}"


def _labels(names: Sequence[str], values: Labels) -> list[str]:
    return [f'{name}="{value.translate(_IN_LABEL)}"' for name, value in zip(names, values, strict=True)]


def _braced(labels: Sequence[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
