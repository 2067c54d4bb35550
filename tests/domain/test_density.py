"""How many runs come in each step: in all, and of the largest groups."""

from oncue.domain.instants import Instant
from oncue.domain.upcoming import Density, Part, counted, in_all, largest

A, B, C = ("a",), ("b",), ("c",)


def at(*steps: int) -> dict[Instant, int]:
    return {Instant(10 * place): n for place, n in enumerate(steps) if n}


PARTS = (
    Part(at(2, 1), {A: 3, B: 1}),  # jobs with one schedule
    Part(at(0, 0, 7), {B: 1}, Instant(25)),
    Part(at(1), {C: 1}),
)


def test_parts_add_up() -> None:
    assert in_all(PARTS) == Density(at(2 * 4 + 1, 4, 7), Instant(25))
    assert in_all(PARTS, Instant(5)).reached == 5
    assert in_all(()) == Density({})


def test_groups_have_their_own_counts_and_ends_and_the_largest_come_first() -> None:
    groups, left_out = largest(PARTS, 10)

    assert list(groups.items()) == [(B, Density(at(2, 1, 7), Instant(25))), (A, Density(at(6, 3))), (C, Density(at(1)))]
    assert left_out == 0
    assert sum(sum(one.steps.values()) for one in groups.values()) == sum(in_all(PARTS).steps.values())


def test_groups_that_are_too_many_are_left_out() -> None:
    groups, left_out = largest((*PARTS, Part({}, {("none",): 5})), 1, Instant(3))

    assert list(groups) == [B]
    assert (groups[B].reached, left_out) == (3, 2)  # one that nothing comes of is none


def test_instants_are_counted_by_step() -> None:
    assert counted([Instant(n) for n in (0, 9, 10, 25)], 10) == at(2, 1, 1)
