"""Histogram buckets."""

import pytest

from oncue.domain.buckets import CALL, LAG, RUN, bucket


@pytest.mark.parametrize("edges", [LAG, RUN, CALL])
def test_an_edge_belongs_to_its_own_bucket(edges: tuple[float, ...]) -> None:
    assert [bucket(edges, edge) for edge in edges] == list(range(len(edges)))
    assert [bucket(edges, edge * 1.001) for edge in edges] == list(range(1, len(edges) + 1))


def test_what_is_early_is_in_the_first() -> None:
    assert bucket(LAG, -1.0) == 0
