"""References: what the database keeps of a value that is in object storage."""

import pytest

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, Instant
from oncue.domain.job import Spec, definition_of
from oncue.domain.reference import Kind, Reference, object_key, read_reference, size_of

ONE = Reference.to("v1/payload/7/1970-01-02/00", b"large")


def test_a_reference_is_read_back() -> None:
    assert read_reference(ONE.encoded()) == ONE


@pytest.mark.parametrize("stored", [None, b"", b"{}", b"\x01", b"\x01{}", b"\x01 said a task", b"\x01" + b" " * 2_000])
def test_other_bytes_are_no_reference(stored: bytes | None) -> None:
    assert read_reference(stored) is None


def test_the_same_bytes_under_two_keys_are_the_same_definition() -> None:
    again, other = Reference.to("other", b"large"), Reference.to(ONE.key, b"Large")
    definition = definition_of(Spec("hello"), ONE.encoded())
    assert definition_of(Spec("hello"), again.encoded()) == definition
    assert definition_of(Spec("hello"), other.encoded()) != definition


def test_the_size_of_a_value_does_not_depend_on_where_it_is() -> None:
    assert (size_of(None), size_of(b"123"), size_of(ONE.encoded())) == (0, 3, 5)


def test_the_objects_of_a_user_have_a_prefix() -> None:
    key = object_key(Kind.RESULT, UserNumber(7), Instant(DAY), bytes(15) + b"\xff")
    assert key == f"v1/result/7/1970-01-02/{'00' * 15}ff"
