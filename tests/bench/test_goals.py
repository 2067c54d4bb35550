"""What we aim at, and when it is reached."""

import pytest

from oncue.bench import measures
from oncue.bench.measures import Measure, Reached
from oncue.bench.parts import EVERY, PARTS, USUAL, applicable, route

# Every measure that we have set ourselves: floor, goal. "No growth" allows for what an allocator keeps.
AIMS = {
    measures.DRAIN: (15_000, 40_000),
    measures.SUSTAINED.p99: (2_000, 250),
    measures.BURST.p99: (2_000, 300),
    measures.SPREAD.p99: (50, 5),
    measures.CREATE_SINGLE: (5_000, 8_000),
    measures.CREATE_BATCH: (30_000, 50_000),
    measures.RECURRING: (3_000, 10_000),
    measures.FULL_DRAIN: (80, 95),
    measures.FULL_BURST: (80, 95),
    measures.FULL_SPREAD: (80, 95),
    measures.SNAPSHOT: (70, 90),
    measures.IDLE_PROCESSOR: (5, 1),
    measures.IDLE_MEMORY: (200, 130),
    measures.IDLE_GROWTH: (5, 5),
    measures.IDLE_GOING_ON: (5, 5),
    measures.SOAK.p99: (2_000, 250),
    measures.SOAK_LOST: (0, 0),
    measures.SOAK_LAG: (200, 200),
    measures.SOAK_MEMORY: (10, 10),
    measures.SOAK_TABLE: (10, 10),
    measures.EARLY: (0, 0),
}


def test_each_aim_has_its_floor_and_its_goal() -> None:
    assert {measure: (measure.floor, measure.goal) for measure in AIMS} == AIMS


def test_there_is_an_aim_for_every_part_but_scaling() -> None:
    assert {measure.part for measure in AIMS} - {"all parts"} == set(PARTS) - {"scale"}


def test_only_a_soak_that_is_not_flat_and_early_starts_are_failures() -> None:
    flatness = {measures.SOAK_LOST, measures.SOAK_LAG, measures.SOAK_MEMORY, measures.SOAK_TABLE}
    assert {measure for measure in AIMS if measure.must} == {*flatness, measures.EARLY}


def test_rates_and_ratios_are_to_be_high_and_all_else_low() -> None:
    assert {measure for measure in AIMS if measure.more_is_better} == {
        measures.DRAIN,
        measures.CREATE_SINGLE,
        measures.CREATE_BATCH,
        measures.RECURRING,
        measures.FULL_DRAIN,
        measures.FULL_BURST,
        measures.FULL_SPREAD,
        measures.SNAPSHOT,
    }


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


def test_without_names_it_is_all_parts_but_those_that_take_long_and_a_soak_is_always_named() -> None:
    assert set(PARTS) - set(USUAL) == {"full", "scale", "soak"}
    assert set(PARTS) - set(EVERY) == {"soak"}


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
