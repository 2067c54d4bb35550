"""API keys: made from randomness, and checked without asking anybody."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.keys import key_hash, make_key, well_formed

KEY = make_key(bytes(range(32)))
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@given(st.binary(min_size=32, max_size=32))
def test_a_key_is_well_formed_and_holds_all_of_its_entropy(entropy: bytes) -> None:
    key = make_key(entropy)

    assert re.fullmatch(r"oc_[0-9A-Za-z]{49}", key)
    assert well_formed(key)
    number = 0
    for digit in key[3:46]:
        number = number * 62 + DIGITS.index(digit)
    assert number.to_bytes(32, "big") == entropy


@given(st.integers(3, 51), st.sampled_from(DIGITS))
def test_one_wrong_character_is_noticed(place: int, digit: str) -> None:
    mistyped = KEY[:place] + digit + KEY[place + 1 :]

    assert well_formed(mistyped) == (mistyped == KEY)


@pytest.mark.parametrize(
    "text", ["", "oc_", KEY[:-1], KEY + "0", KEY + "\n", " " + KEY, KEY.lower(), "ok" + KEY[2:], KEY[:-1] + "٣"]
)
def test_what_is_no_key_is_noticed(text: str) -> None:
    assert not well_formed(text)


def test_only_the_hash_is_stored() -> None:
    assert key_hash(KEY) == hashlib.sha256(KEY.encode()).digest()


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_is_never_made_of_less_or_more(length: int) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        make_key(bytes(length))
