"""The text for Prometheus, as its own parser and promtool read it."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from oncue.domain.instants import SECOND
from oncue.metrics import table
from oncue.metrics.exposed import Exposed
from oncue.metrics.exposition import exposition
from oncue.metrics.metric import Kind, Metric, Roles
from oncue.metrics.numbers import Numbers, Series
from oncue.testing.clock import FakeClock

PROMTOOL = shutil.which("promtool")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: bytes) -> tuple[dict[str, str], Samples]:
    """The kind of each metric, and each sample by its name and labels."""
    families = list(text_string_to_metric_families(text.decode()))
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
    return {family.name: family.type for family in families}, samples


def everything() -> bytes:
    """All metrics there are, with numbers in each."""
    exposed = Exposed(FakeClock(), *Roles, queues=["default"])
    for n, metric in enumerate(table.METRICS):
        if metric.own and metric is not table.BUILD and metric is not table.CLOCK_OFFSET:
            continue  # the process's own, which are read anyway
        for labels in metric.values or (tuple(f"{label} {n}" for label in metric.labels),):
            match metric.kind:
                case Kind.COUNTER:
                    exposed.numbers.add(metric, *labels, n=n)
                case Kind.GAUGE:
                    exposed.numbers.set(metric, *labels, to=n / 7)
                case Kind.HISTOGRAM:
                    exposed.numbers.observe(metric, *labels, value=n * SECOND // 10)
    return exposed.text()


def test_the_parser_reads_every_metric_as_it_was_meant() -> None:
    kinds, _ = read(everything())

    assert kinds == {metric.name.removesuffix("_total"): metric.kind for metric in table.METRICS}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: apt install prometheus")
def test_promtool_has_nothing_to_say() -> None:
    assert PROMTOOL is not None

    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=everything(), capture_output=True, timeout=60)

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_a_histogram_has_what_is_below_each_edge_and_edges_are_written_as_floats() -> None:
    numbers = Numbers()
    for seconds in (0.0005, 0.001, 0.3, 2, 11):
        numbers.observe(table.STORE_CALLS, "claim", value=round(seconds * SECOND))

    lines = exposition(table.METRICS, numbers.series()).decode().splitlines()

    assert lines == [
        "# HELP oncue_store_call_seconds Time of calls to the database.",
        "# TYPE oncue_store_call_seconds histogram",
        'oncue_store_call_seconds_bucket{verb="claim",le="0.001"} 2',
        'oncue_store_call_seconds_bucket{verb="claim",le="0.005"} 2',
        'oncue_store_call_seconds_bucket{verb="claim",le="0.025"} 2',
        'oncue_store_call_seconds_bucket{verb="claim",le="0.1"} 2',
        'oncue_store_call_seconds_bucket{verb="claim",le="0.5"} 3',
        'oncue_store_call_seconds_bucket{verb="claim",le="2.0"} 4',
        'oncue_store_call_seconds_bucket{verb="claim",le="10.0"} 4',
        'oncue_store_call_seconds_bucket{verb="claim",le="+Inf"} 5',
        'oncue_store_call_seconds_sum{verb="claim"} 13.3015',
        'oncue_store_call_seconds_count{verb="claim"} 5',
    ]


# The parser of prometheus-client, like Prometheus, takes any text as a label. A line ends only with \n.
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs", "Zl", "Cc"])))
def test_whatever_a_label_or_a_help_says_is_read_as_it_was_said(label: str, text: str) -> None:
    metric = Metric(name="m", kind=Kind.GAUGE, role=Roles.ALL, help=f"a\\b\n{text}.", labels=("l",))

    [family] = text_string_to_metric_families(exposition([metric], [Series("m", (label,), (1,))]).decode())

    [sample] = family.samples
    assert sample.labels == {"l": label}
    assert family.documentation == f"a\\b\n{text}."


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_as_it_was(value: float) -> None:
    metric = Metric(name="m", kind=Kind.GAUGE, role=Roles.ALL, help="M.")

    _, samples = read(exposition([metric], [Series("m", (), (value,))]))

    assert samples == {("m", ()): value}
