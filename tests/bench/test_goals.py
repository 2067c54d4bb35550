"""What we aim at, and when it is reached."""

import pytest

from oncue_bench import measures
from oncue_bench.measures import Measure, Reached
from oncue_bench.parts import applicable, route


@pytest.mark.parametrize(
    ("measure", "value", "reached"),
    [
        (measures.DRAIN, 40_000, Reached.GOAL),
        (measures.DRAIN, 39_999, Reached.FLOOR),
        (measures.DRAIN, 14_999, Reached.MISSED),
        (measures.SPREAD.p99, 5, Reached.GOAL),
        (measures.SPREAD.p99, 5.01, Reached.FLOOR),
        (measures.SPREAD.p99, 50.1, Reached.MISSED),
        (measures.SPREAD.p50, 1, Reached.NO_GOAL),
        (measures.RECURRING, 9_900, Reached.GOAL),  # of 10,000 that were asked for
        (measures.RECURRING, 9_899, Reached.FLOOR),
        (measures.EARLY, 0, Reached.GOAL),
        (measures.EARLY, 1, Reached.MISSED),
    ],
)
def test_what_is_reached(measure: Measure, value: float, reached: Reached) -> None:
    assert measure.reached(value) is reached


def test_what_needs_several_processes_on_one_store_is_for_postgres() -> None:
    assert applicable("sqlite", ["drain", "scale", "soak"]) == ["drain"]
    assert applicable("postgres", ["drain", "scale", "soak"]) == ["drain", "scale", "soak"]


def test_idling_is_measured_before_and_after_all_others() -> None:
    assert route(["drain", "idle", "create", "drain"]) == ["idle", "create", "drain", "idle"]
    assert route(["idle"]) == ["idle"]
    assert route(["burst", "drain"]) == ["drain", "burst"]


def test_what_has_processes_of_its_own_comes_last() -> None:
    assert route(["soak", "scale", "drain", "idle"]) == ["idle", "drain", "idle", "scale", "soak"]
    assert route(["idle", "scale"]) == ["idle", "scale"]
