"""Which queues a worker takes, and what it says of the others."""

from __future__ import annotations

import pytest

from oncue import Tasks, every
from oncue.services.taken_queues import TakenQueues, not_taken_in_words, taken_queues
from oncue.settings import Settings

tasks = Tasks()


@tasks.task
def plain() -> None: ...


@tasks.task(queue="mail")
def receipt() -> None: ...


@tasks.task(queue="mail")
def reminder() -> None: ...


@tasks.task(queue="reports", schedule=every("1h"))
def sums() -> None: ...


sums.using(key="sums-at-night", queue="night").declare(every("1d"))


@pytest.mark.parametrize(
    ("queues", "found"),
    [
        ((), TakenQueues(("default", "mail", "reports", "night"))),
        (("night", "mail", "more"), TakenQueues(("night", "mail", "more"), {"reports": ("sums",)})),
        (
            ("default",),
            TakenQueues(("default",), {"mail": ("receipt", "reminder"), "reports": ("sums",), "night": ("sums",)}),
        ),
    ],
)
def test_those_of_the_settings_or_those_that_the_tasks_name(queues: tuple[str, ...], found: TakenQueues) -> None:
    assert taken_queues(Settings(queues=queues), tasks) == found


def test_tasks_without_a_queue_go_to_the_default_one() -> None:
    assert taken_queues(Settings(), Tasks()) == TakenQueues(("default",))


@pytest.mark.parametrize(
    ("not_taken", "said"),
    [
        ({}, ""),
        ({"mail": ("receipt",)}, "the queue mail (receipt): write --queues default,mail"),
        ({"a": ("one", "two"), "b": ("one",)}, "the queues a (one, two), b (one): write --queues default,a,b"),
        (
            {"a": tuple("1234"), "b": ("1",), "c": ("1",), "d": ("1",), "e": ("1",)},
            "the queues a (1, 2, 3 and 1 more), b (1), c (1) and 2 more: write --queues default,a,b,c,d,e",
        ),
    ],
)
def test_a_queue_that_is_not_taken_is_told_with_what_to_write(not_taken: dict[str, tuple[str, ...]], said: str) -> None:
    words = not_taken_in_words(("default",), not_taken)

    assert words == (f"this worker does not take {said}" if said else "")
