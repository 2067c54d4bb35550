"""Histogram buckets."""

import pytest

from oncue.domain.buckets import CALL, LAG, RUN, bucket, quantile


@pytest.mark.parametrize("edges", [LAG, RUN, CALL])
def test_an_edge_belongs_to_its_own_bucket(edges: tuple[float, ...]) -> None:
    assert [bucket(edges, edge) for edge in edges] == list(range(len(edges)))
    assert [bucket(edges, edge * 1.001) for edge in edges] == list(range(1, len(edges) + 1))


def test_what_is_early_is_in_the_first() -> None:
    assert bucket(LAG, -1.0) == 0


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ((0, 0, 0, 0), 0.5, None),
        ((10, 0, 0, 0), 0.5, 0.5),
        ((10, 0, 0, 0), 1.0, 1.0),
        ((5, 0, 5, 0), 0.5, 1.0),
        ((5, 0, 5, 0), 0.75, 3.0),
        ((0, 4, 0, 0), 0.25, 1.25),
        ((1, 0, 0, 99), 0.5, 4.0),
    ],
)
def test_a_quantile_is_estimated_within_its_bucket(
    counts: tuple[int, ...], share: float, expected: float | None
) -> None:
    assert quantile((1.0, 2.0, 4.0), counts, share) == expected
