"""Counting: what is folded is what came, names are bounded, and what worker processes counted stays."""

from __future__ import annotations

import inspect
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.api.application import CALLS, OPEN_CALLS
from oncue.domain.buckets import LAG, bucket
from oncue.domain.instants import SECOND
from oncue.domain.placement import Priority
from oncue.engines.counted import SELDOM_CALLED
from oncue.engines.port import Engine
from oncue.metrics import table
from oncue.metrics.exposed import Exposed, Gathered
from oncue.metrics.metric import OTHER, Kind, Roles
from oncue.metrics.numbers import MOST_QUEUES, MOST_TASKS, SILENT, Bounds, Numbers, Series
from oncue.testing.clock import FakeClock

MOST_SERIES = 6_000  # of one process, whatever its users do
OUTCOMES = ("succeeded", "failed", "timed_out", "cancelled", "other")

instants = st.one_of(
    st.sampled_from([round(edge * SECOND) + near for edge in LAG for near in (-1, 0, 1)]), st.integers(-5, 10**11)
)


def values(numbers: Numbers, name: str) -> dict[tuple[str, ...], tuple[float, ...]]:
    return {one.labels: one.values for one in numbers.series() if one.name == name}


@given(st.lists(st.lists(instants, max_size=50), max_size=4))
def test_folding_by_the_batch_counts_as_one_by_one_does(batches: list[list[int]]) -> None:
    numbers = Numbers(Bounds(["default"]))
    sink = numbers.sink(table.START_LAG, "default", "normal")
    for batch in batches:
        for value in batch:
            sink.append(value)
        numbers.fold()
    all_of_them = [max(0, value) for batch in batches for value in batch]

    [(total, *counts)] = values(numbers, "oncue_start_lag_seconds").values()

    places = Counter(bucket(LAG, value / SECOND) for value in all_of_them)
    assert counts == [places[place] for place in range(len(LAG) + 1)]
    assert total == sum(all_of_them)


@given(st.lists(instants, max_size=50))
def test_one_observed_by_itself_is_counted_as_if_appended(some: list[int]) -> None:
    one, other = Numbers(), Numbers()
    sink = other.sink(table.LOOP_DELAY)
    for value in some:
        one.observe(table.LOOP_DELAY, value=value)
        sink.append(value)

    assert [*values(one, "oncue_loop_delay_seconds").values()] == [*values(other, "oncue_loop_delay_seconds").values()][
        : bool(some)
    ]


def test_the_first_names_have_a_label_each_and_keep_it() -> None:
    numbers = Numbers()
    for _ in range(2):
        for n in range(MOST_TASKS + 50):
            numbers.observe(table.RUN_SECONDS, f"task{n}", "succeeded", value=1)

    found = values(numbers, "oncue_run_seconds")

    assert found.keys() == {(f"task{n}", "succeeded") for n in range(MOST_TASKS)} | {(OTHER, "succeeded")}
    assert sum(found["task0", "succeeded"][1:]) == 2
    assert sum(found[OTHER, "succeeded"][1:]) == 100


def test_a_worker_has_its_own_queues_as_labels_and_no_others() -> None:
    numbers = Numbers(Bounds([f"q{n}" for n in range(30)]))
    for n in range(40):
        numbers.observe(table.START_LAG, f"q{n}", "high", value=1)

    assert values(numbers, "oncue_start_lag_seconds").keys() == {
        *((f"q{n}", "high") for n in range(MOST_QUEUES)),
        (OTHER, "high"),
    }


def test_queues_that_a_worker_takes_later_have_series_too_as_far_as_there_is_room() -> None:
    exposed = Exposed(FakeClock(), Roles.WORKER, queues=["default"])
    exposed.know(["default", "mail"])
    exposed.know([f"q{n}" for n in range(30)])
    worker = Numbers(Bounds(["default", "mail", *(f"q{n}" for n in range(18))]), Roles.WORKER)
    for queue in ("default", "mail", "q17", "q18"):
        worker.observe(table.START_LAG, queue, "high", value=1)
    exposed.workers.heard("a worker", tuple(worker.series()))

    found = exposed.text().decode()
    assert all(
        f'oncue_start_lag_seconds_count{{queue="{queue}"' in found for queue in ("default", "mail", "q17", OTHER)
    )


def test_a_process_tells_of_a_bounded_number_of_series() -> None:
    """All that users could multiply, each in ten thousand versions; and everything else there is, in one process."""
    queues = [f"queue{n}" for n in range(10_000)]
    exposed = Exposed(FakeClock(), Roles.API, Roles.SCHEDULER, Roles.WORKER, queues=queues)
    worker = Numbers(Bounds(queues), Roles.WORKER)
    for n in range(10_000):
        for priority in Priority:
            worker.observe(table.START_LAG, queues[n], priority.name.lower(), value=n)
        for outcome in OUTCOMES:
            worker.observe(table.RUN_SECONDS, f"task{n}", outcome, value=n)
    for verb in verbs():
        worker.observe(table.STORE_CALLS, verb, value=1)
        worker.add(table.STORE_ERRORS, verb, "away")
    for path in {*(path for _, path in CALLS), *OPEN_CALLS}:
        exposed.numbers.observe(table.HTTP_SECONDS, path, value=1)
        for status in ("200", "401", "503"):
            exposed.numbers.add(table.HTTP_REQUESTS, path, status)
    exposed.workers.heard("a worker", tuple(worker.series()))

    lines = [line for line in exposed.text().decode().splitlines() if not line.startswith("#")]

    assert 3_000 < len(lines) <= MOST_SERIES


def verbs() -> set[str]:
    """The labels of calls to the database."""
    together, found = set(SELDOM_CALLED), inspect.get_annotations(Engine, eval_str=True)
    parts = [part for name, part in found.items() if inspect.isclass(part) and name not in together]
    return together | {name for part in parts for name, _ in inspect.getmembers(part, inspect.iscoroutinefunction)}


def test_counters_start_at_zero_and_so_show_their_first_increase() -> None:
    numbers = Numbers(None, Roles.WORKER)

    assert values(numbers, "oncue_claimed_total") == {(): (0,)}
    assert values(numbers, "oncue_settled_total") == {("final",): (0,), ("again",): (0,), ("handed_back",): (0,)}
    assert values(numbers, "oncue_planned_runs_total") == {}


def test_whoever_is_silent_counts_nothing_and_keeps_nothing() -> None:
    SILENT.sink(table.START_LAG, "default", "high").append(1)
    SILENT.add(table.CLAIMED)
    SILENT.observe(table.LOOP_DELAY, value=1)
    SILENT.read(table.PLACES, lambda: {("loop",): 1})

    assert [*SILENT.series()] == []


class TestWorkersNumbers:
    def test_counts_of_one_that_ended_stay_and_its_gauges_go(self) -> None:
        gathered, bounds = Gathered(Bounds()), Bounds()
        for worker in ("first", "second"):
            counted = Numbers(bounds)
            counted.add(table.CLAIMED, n=5)
            counted.observe(table.RUN_SECONDS, "mail", "failed", value=3 * SECOND)
            counted.read(table.PLACES_USED, lambda: {("loop",): 7})
            gathered.heard(worker, over_the_channel(counted))

        gathered.ended("first")

        together = Numbers()
        together.absorb(gathered.series())
        assert values(together, "oncue_claimed_total") == {(): (10,)}
        assert values(together, "oncue_run_seconds")["mail", "failed"][0] == 6 * SECOND
        assert values(together, "oncue_places_used") == {("loop",): (7,)}

    def test_one_that_ended_keeps_the_names_of_its_queues(self) -> None:
        exposed = Exposed(FakeClock(), Roles.WORKER, queues=["mail"])
        counted = Numbers(Bounds(["mail"]))
        counted.observe(table.START_LAG, "mail", "high", value=1)
        exposed.workers.heard("it", over_the_channel(counted))
        alive = exposed.text()
        exposed.workers.ended("it")

        assert 'oncue_start_lag_seconds_count{queue="mail",priority="high"} 1' in alive.decode().splitlines()
        assert 'oncue_start_lag_seconds_count{queue="mail",priority="high"} 1' in exposed.text().decode().splitlines()

    def test_what_one_counted_since_its_start_counts_once_however_often_it_says_so(self) -> None:
        gathered, counted = Gathered(Bounds()), Numbers()
        for _ in range(3):
            counted.add(table.CLAIMED)
            gathered.heard("it", over_the_channel(counted))
        gathered.ended("it")

        assert [one.values for one in gathered.series()] == [(3,)]

    def test_each_may_have_seen_other_names_first_and_there_are_no_more_labels_for_it(self) -> None:
        exposed = Exposed(FakeClock(), Roles.WORKER)
        for worker in range(5):
            counted = Numbers()
            for n in range(MOST_TASKS):
                counted.observe(table.RUN_SECONDS, f"task{worker}-{n}", "succeeded", value=1)
            exposed.workers.heard(worker, over_the_channel(counted))
            exposed.workers.ended(worker)

        told = exposed.text().decode()

        assert told.count("oncue_run_seconds_count{") == MOST_TASKS + 1
        assert f'oncue_run_seconds_count{{task="other",outcome="succeeded"}} {4 * MOST_TASKS}' in told

    def test_of_several_times_the_oldest_counts(self) -> None:
        gathered = Gathered(Bounds())
        for at in (200, 100, 300):
            counted = Numbers()
            counted.set(table.LAST_OK, "worker", to=at)
            gathered.heard(at, over_the_channel(counted))

        together = Numbers()
        together.absorb(gathered.series())
        assert values(together, "oncue_service_last_ok_timestamp_seconds") == {("worker",): (100,)}

    def test_metrics_of_a_newer_oncue_are_left_out(self) -> None:
        together = Numbers()
        together.absorb([Series("oncue_new_total", (), (1,)), Series("oncue_claimed_total", ("by what",), (1,))])

        assert [*together.series()] == []


def over_the_channel(numbers: Numbers) -> tuple[Series, ...]:
    sent = msgspec.json.encode(tuple(numbers.series()))
    return msgspec.json.decode(sent, type=tuple[Series, ...])


@pytest.mark.parametrize("metric", table.METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_wants(metric: table.Metric) -> None:
    assert metric.name.startswith(("oncue_", "process_"))
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert bool(metric.edges) == (metric.kind is Kind.HISTOGRAM)
    assert metric.help.endswith(".")
    assert all(len(labels) == len(metric.labels) for labels in metric.values)
