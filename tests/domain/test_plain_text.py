"""Text and JSON that every store takes, whatever they are made of."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.errors import Invalid
from oncue.domain.plain_json import DEEPEST, encoded, too_deep
from oncue.domain.plain_text import class_path_of, end_of, kind_of, message_of, plain

anything = st.text(st.characters(exclude_categories=()))  # surrogates, too


@given(anything, st.integers(0, 50))
def test_what_is_plain_can_be_stored_and_is_no_longer_than_asked(text: str, longest: int) -> None:
    found = plain(text, longest)

    assert "\0" not in found
    assert len(found) <= longest
    found.encode()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_what_can_be_stored_stays_as_it_is(text: str) -> None:
    assert plain(text, 1_000) == text


def test_what_cannot_be_stored_is_seen() -> None:
    assert plain("a\0b\ud800c", 100) == r"a\x00b\ud800c"


@given(anything)
def test_an_error_says_something_that_can_be_stored(text: str) -> None:
    message_of(RuntimeError(text), 100).encode()
    message_of(KeyError(text), 100).encode()


def test_an_error_that_cannot_say_anything_is_said_to() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert message_of(Mute(), 100) == "(no message: __str__ raised SystemExit)"
    assert kind_of(Mute()) == "Mute"


def test_a_class_has_a_path_whatever_it_says_of_itself() -> None:
    class Odd(Exception):
        __module__ = 7  # type: ignore[assignment]

    class Hidden(Exception):
        __module__ = "a\0b\n\ud800"

    assert class_path_of(ValueError()) == "builtins.ValueError"
    assert class_path_of(Odd()).endswith("Odd")
    class_path_of(Hidden()).encode()
    assert class_path_of(Hidden()).isprintable()


@given(anything, st.integers(1, 50))
def test_the_end_of_a_text_can_be_stored_and_printed(text: str, longest: int) -> None:
    found = end_of(text, longest)

    assert len(found.encode()) <= longest
    assert not set(found) & {"\0", "\x1b", "\ud800"}


def test_the_end_of_a_text_begins_with_a_line() -> None:
    assert end_of("first line\nsecond\nthird\n", 13) == "third\n"
    assert end_of("first\nsecond", 100) == "first\nsecond"
    assert end_of("x" * 100, 10) == "x" * 10
    assert end_of("\x1b[31m\0", 100) == "\\u001b[31m\\x00"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | anything,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(anything, inner, max_size=5),
    max_leaves=20,
)


@given(json_values)
def test_what_is_encoded_is_read_back_the_same_or_refused(value: object) -> None:
    try:
        stored = encoded(value, "result", 10_000)
    except Invalid:
        return
    assert json.loads(stored) == value


@pytest.mark.parametrize(("levels", "deep"), [(DEEPEST, False), (DEEPEST + 1, True)])
def test_levels_are_counted_as_those_of_payloads(levels: int, deep: bool) -> None:
    assert too_deep(b"[" * levels + b"]" * levels) is deep
    assert too_deep(b'{"a":' * levels + b"1" + b"}" * levels) is deep
    assert not too_deep(b'"' + b"[" * levels + b'"')
    assert not too_deep(b"[" + b",".join([b"[]"] * levels) + b"]")


def levels_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels_of, inner), default=0)


@given(
    st.recursive(
        st.text(alphabet='[]{}"\\\nn,:é', max_size=8) | st.none(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=4), inner),
    ),
    st.integers(1, 6),
)
def test_how_deep_json_is_does_not_depend_on_what_stands_in_its_texts(value: Any, deepest: int) -> None:
    assert too_deep(msgspec.json.encode(value), deepest) is (levels_of(value) > deepest)


def test_how_deep_json_is_is_seen_at_once() -> None:
    """A worker's loop looks at what others wrote. Making values of these took more than a second."""
    hedge = b"[" + b"[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]," * 32_000 + b"1]"
    begun = time.process_time()
    assert not too_deep(hedge)
    assert time.process_time() - begun < 0.5
