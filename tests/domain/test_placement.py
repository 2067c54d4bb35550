"""Where runs may go, and in which order."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.placement import (
    ClassKey,
    Mismatch,
    Offer,
    Resources,
    mismatch,
    read_offer,
    show_offer,
)

sizes = st.builds(Resources, st.integers(0, 1_000_000), st.integers(0, 10_000_000), st.integers(1, 64))


@given(sizes, sizes)
def test_whatever_truly_fits_is_within(asked: Resources, offer: Resources) -> None:
    if asked.cpu_milli <= offer.cpu_milli and asked.memory_mb <= offer.memory_mb and asked.slots <= offer.slots:
        assert asked.within(offer)


@given(sizes, sizes)
def test_what_is_within_exceeds_by_less_than_an_eighth(asked: Resources, offer: Resources) -> None:
    if asked.within(offer):
        assert asked.cpu_milli <= offer.cpu_milli * 9 / 8 + 1
        assert asked.memory_mb <= offer.memory_mb * 9 / 8 + 1
        assert asked.slots <= offer.slots


@given(sizes)
def test_a_size_class_is_no_smaller_and_its_own_class(size: Resources) -> None:
    rounded = size.size_class()

    assert size.within(rounded)
    assert rounded.size_class() == rounded
    assert (rounded.cpu_milli >= size.cpu_milli, rounded.memory_mb >= size.memory_mb) == (True, True)


def test_all_sizes_make_few_classes() -> None:
    classes = {Resources(cpu_milli=cpu).size_class() for cpu in range(100_000)}

    assert len(classes) < 150  # eight to a doubling


OFFER = Offer(frozenset({"a"}), frozenset({"q", "r"}), frozenset({"gpu", "ssd"}), Resources(1_000, 1_000, 2))


@pytest.mark.parametrize(
    ("key", "lacks"),
    [
        (ClassKey("a", "q"), None),
        (ClassKey("a", "q", labels=("gpu",), size=Resources(1_000, 1_000, 2)), None),
        (ClassKey("b", "q"), Mismatch.NO_TASK),
        (ClassKey("b", "default"), Mismatch.NO_TASK),
        (ClassKey("a", "default", labels=("tpu",)), Mismatch.NO_QUEUE),
        (ClassKey("a", "q", labels=("gpu", "tpu"), size=Resources(slots=3)), Mismatch.NO_LABELS),
        (ClassKey("a", "q", size=Resources(cpu_milli=2_000)), Mismatch.TOO_BIG),
        (ClassKey("a", "q", size=Resources(memory_mb=2_000)), Mismatch.TOO_BIG),
        (ClassKey("a", "q", size=Resources(slots=3)), Mismatch.TOO_BIG),
    ],
)
def test_a_worker_is_told_what_it_cannot_take_and_what_is_missing_first(key: ClassKey, lacks: Mismatch | None) -> None:
    assert mismatch(key, OFFER) is lacks


@pytest.mark.parametrize(("task", "most"), [("looped", 4), ("threaded", 2), ("roomy", 8)])
def test_a_task_has_the_places_of_its_own_kind(task: str, most: int) -> None:
    offer = Offer(
        frozenset({"looped", "threaded", "roomy"}), resources=Resources(slots=4), slots={"threaded": 2, "roomy": 8}
    )

    assert mismatch(ClassKey(task, size=Resources(slots=most)), offer) is None
    assert mismatch(ClassKey(task, size=Resources(slots=most + 1)), offer) is Mismatch.TOO_BIG


def test_an_offer_is_read_back_and_anything_else_is_none() -> None:
    told = msgspec.structs.replace(OFFER, slots={"a": 1})

    assert read_offer(show_offer(told)) == told
    for info in (None, b"", b"{}", b"[1]", b'{"tasks": 7}', b"\xff", b'{"tasks":["\xff"]}'):
        assert read_offer(info) is None
