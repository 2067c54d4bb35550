"""Sums over runs."""

from oncue.domain.run_parts import outcomes, spread

ENDS = ("succeeded", "dead", "cancelled")


def test_percentiles_are_values_that_so_many_do_not_exceed() -> None:
    assert spread([]) == spread([None]) == {"p50": None, "p95": None, "max": None}
    assert spread([7]) == {"p50": 7, "p95": 7, "max": 7}
    assert spread([*range(100, 0, -1), None]) == {"p50": 50, "p95": 95, "max": 100}
    assert spread(range(1, 21)) == {"p50": 10, "p95": 19, "max": 20}


def test_cancelled_runs_do_not_count_for_the_share_that_succeeded() -> None:
    assert outcomes([], ENDS) == {"outcomes": dict.fromkeys(ENDS, 0), "success_rate": None}
    assert outcomes(["cancelled"], ENDS)["success_rate"] is None
    assert outcomes(["succeeded", "succeeded", "dead", "cancelled"], ENDS) == {
        "outcomes": {"succeeded": 2, "dead": 1, "cancelled": 1},
        "success_rate": 0.6667,
    }
