"""How many workers there should be: the formula at its edges, and an autoscaler that follows it."""

from collections.abc import Callable

import pytest

from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.load import DRAIN, TARGET, DueWork, Load, desired_workers, utilisation

SLOTS = 100
RUN = Duration(SECOND)


def load(used: int, busy: float = 0.0) -> Load:
    return Load(slots={"loop": SLOTS, "thread": 10}, used={"loop": used}, busy=busy)


def due(runs: int, mean: int | None = RUN, slots_per_run: int = 1, slots: int = SLOTS) -> DueWork:
    return DueWork(runs, None if mean is None else Duration(mean), slots_per_run, slots)


@pytest.mark.parametrize(
    ("loads", "work", "desired"),
    [
        ([], [], 0),
        ([load(0)], [], 0),
        ([], [due(1)], 1),  # nobody is there to say how busy it is
        ([], [due(1, mean=None)], 1),
        ([load(70)], [], 1),
        ([load(71)], [], 2),
        ([load(70)] * 4, [], 4),
        ([load(0, busy=0.9)], [], 2),  # its slots are free, its event loop is not
        ([None] * 3, [], 3),  # they do not say
        ([load(0)], [due(10_000, mean=MILLISECOND)], 1),  # many, and nothing
        ([load(0)], [due(30 * SLOTS)], 1),
        ([load(0)], [due(30 * SLOTS + 1)], 2),
        ([load(0)], [due(30 * SLOTS, slots_per_run=2)], 2),
        ([load(0)], [due(3_000_000, mean=1)], 4),  # a worker starts only so many a second
        ([load(70)], [due(30 * SLOTS)], 2),
    ],
)
def test_the_formula(loads: list[Load | None], work: list[DueWork], desired: int) -> None:
    assert desired_workers(loads, work) == desired


def test_a_worker_without_slots_of_a_kind_does_not_divide_by_them() -> None:
    assert utilisation([Load(slots={"process": 0}, used={"process": 0}, busy=0.25)]) == 0.25


def follow(arrivals: Callable[[int], int], seconds: int) -> list[tuple[int, int]]:
    """An autoscaler that asks every 5 s, with workers that take 5 s to start. Runs take a second, all slots alike."""
    workers, ordered, waiting, seen = 1, [1], 0, list[tuple[int, int]]()
    for second in range(seconds):
        waiting += arrivals(second)
        running = min(waiting, workers * SLOTS)
        waiting -= running
        if second % 5 == 0:
            loads = [load(round(running / workers))] * workers
            workers = max(1, ordered.pop(0))
            ordered.append(desired_workers(loads, [due(waiting)] if waiting else []))
        seen.append((workers, waiting))
    return seen


def test_a_tenfold_step_is_drained_in_time_and_then_all_is_calm() -> None:
    step = 100
    seen = follow(lambda second: 50 if second < step else 500, 400)

    behind = [second for second, (_, waiting) in enumerate(seen) if waiting > 500]
    assert behind, "the step is one that has to be caught up with"
    assert max(behind) - step <= 2 * DRAIN // SECOND
    calm = [workers for workers, _ in seen[300:]]
    assert max(calm) - min(calm) <= 1
    assert min(calm) * SLOTS * TARGET <= 500 + SLOTS


def test_constant_load_does_not_make_it_swing() -> None:
    calm = [workers for workers, _ in follow(lambda second: 333, 400)[100:]]

    assert max(calm) - min(calm) <= 1


def test_without_work_workers_are_given_up() -> None:
    seen = follow(lambda second: 500 if second < 100 else 0, 200)

    assert seen[-1] == (1, 0)
