"""A soak that is not flat is found out."""

from collections.abc import Callable

import pytest

from oncue.domain.instants import MILLISECOND
from oncue_bench import measures
from oncue_bench.measures import Measure, Reached
from oncue_bench.minutes import MEGABYTE, Sample, StoreState, Table
from oncue_bench.notes import Noted
from oncue_bench.soak import judged

COUNT = 40
Level = Callable[[int], float]
"""Of the n-th sample."""


def sample(n: int, *, memory: Level, lag: Level, waiting: Level, running: Level) -> Sample:
    noted = Noted([0] * 100, [round(lag(n) * MILLISECOND)] * 100)
    store = StoreState(_table(waiting(n)), _table(running(n)), 0, 4, 0, 0)
    return Sample(n * 10, 10, 100, noted.histogram(80), lag(n), {"up": 50, "worker": memory(n)}, store, 0)


def _table(megabytes: float) -> Table:
    return Table(round(megabytes * MEGABYTE), 0, 1, 5)


def missed(
    lost: int = 0,
    memory: Level = lambda _: 60,
    lag: Level = lambda _: 40,
    waiting: Level = lambda _: 20,
    running: Level = lambda _: 0.4,
) -> list[tuple[Measure, str]]:
    samples = [sample(n, memory=memory, lag=lag, waiting=waiting, running=running) for n in range(COUNT)]
    rows = judged(samples, lost)
    assert all(row.measure.must for row in rows)
    return [(row.measure, row.note.partition(":")[0]) for row in rows if row.reached is Reached.MISSED]


def test_what_stays_as_it_is_is_flat() -> None:
    assert missed() == []


def test_one_run_that_is_lost_is_too_many() -> None:
    assert missed(lost=1) == [(measures.SOAK_LOST, "")]


def test_memory_that_grows_is_told_with_its_process() -> None:
    assert missed(memory=lambda n: 60 + 0.4 * n) == [(measures.SOAK_MEMORY, "worker")]  # 66 MB, then 74
    assert missed(memory=lambda n: 60 + 0.2 * n) == []


def test_lag_that_more_than_doubles_is_told() -> None:
    [(found, _)] = missed(lag=lambda n: 40 if n < 30 else 90)

    assert found is measures.SOAK_LAG
    assert missed(lag=lambda n: 40 if n < 30 else 70) == []


@pytest.mark.parametrize("table", ["waiting", "running"])
def test_a_table_that_grows_is_told_with_its_name(table: str) -> None:
    assert missed(**{table: lambda n: 20 + n}) == [(measures.SOAK_TABLE, table)]  # type: ignore[arg-type]  # by name


def test_a_small_table_may_grow_by_pages_and_not_by_more() -> None:
    assert missed(running=lambda n: 0.4 if n < 30 else 0.6) == []
    assert missed(running=lambda n: 0.4 if n < 30 else 1.4) == [(measures.SOAK_TABLE, "running")]


def test_a_table_that_is_vacuumed_now_and_then_is_flat() -> None:
    assert missed(waiting=lambda n: 20 + n % 7) == []


def test_growing_while_it_warms_up_and_shrinking_are_no_growth() -> None:
    assert missed(memory=lambda n: min(40 + 2 * n, 60), waiting=lambda n: min(n * 2, 20)) == []
    assert missed(memory=lambda n: 60 - n, lag=lambda n: 60 - n, waiting=lambda n: 60 - n) == []
