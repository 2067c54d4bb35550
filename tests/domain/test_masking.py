"""Values of secrets are masked in the forms that they usually take, however a text is cut."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.masking import MASK, MaskedStream, Masking

VALUE = 'sk/läv+e "4f9a"'
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"


@pytest.mark.parametrize(
    "shown",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        repr(VALUE),
        quote(VALUE, safe=""),
        quote(VALUE),
        quote(VALUE, safe="").lower(),
        quote_plus(VALUE),
        VALUE.encode().decode("latin-1"),
        json.dumps(VALUE.encode().decode("latin-1")),
        *(b64encode(b"x" * before + VALUE.encode() + b"y" * 3).decode() for before in range(7)),
        *(urlsafe_b64encode(b"x" * before + VALUE.encode()).decode() for before in range(7)),
    ],
)
def test_every_form_is_masked(shown: str) -> None:
    said = Masking([VALUE]).text(f"before {shown} after")
    assert MASK in said
    assert said.startswith("before ")
    assert said.endswith(" after")
    assert not any(shown[start : start + 10] in said for start in range(len(shown) - 10))


def test_short_values_are_not_masked() -> None:
    assert Masking(["1234567"]).text("1234567") == "1234567"
    assert not Masking(["1234567"])
    assert Masking(["12345678"]).text("12345678") == MASK


def test_each_long_line_of_a_key_is_masked() -> None:
    assert Masking([KEY]).text("got kqhkiG9w0BAQEF there") == f"got {MASK} there"


def test_of_a_url_its_password_and_what_follows_the_host_are_masked() -> None:
    masking = Masking(["postgres://me:hunter22-x@db/app", "https://hooks.example/services/T0/B0/zzz"])
    assert masking.text("password hunter22-x at db") == f"password {MASK} at db"
    assert masking.text("POST /services/T0/B0/zzz") == f"POST {MASK}"
    assert Masking(["https://a.example/hooks/0123456789abcdef?x=1"]).text("no 0123456789abcdef") == f"no {MASK}"
    assert masking.text("all services of db/app") == "all services of db/app"


def test_the_longest_value_is_masked_first() -> None:
    assert Masking(["abcdefgh", "abcdefgh-ijklmnop"]).text("abcdefgh-ijklmnop") == MASK


def test_json_stays_json() -> None:
    masking = Masking(["12345678", VALUE])
    stored = msgspec.json.encode({"n": 12345678, "t": f"a {VALUE}", VALUE: [VALUE, 1, None]})
    masked = masking.json(stored)
    assert masked is not None
    assert msgspec.json.decode(masked) == {"n": MASK, "t": f"a {MASK}", MASK: [MASK, 1, None]}
    assert masking.json(b'{"a":1}') == b'{"a":1}'
    assert masking.json(None) is None


def test_json_across_which_a_value_lies_is_dropped() -> None:
    assert Masking(["1,2,3,4,5"]).json(b"[1,2,3,4,5]") == msgspec.json.encode(MASK)


@given(st.integers(0, len(VALUE)), st.integers(0, 40))
def test_a_text_that_was_cut_inside_of_a_value_shows_hardly_anything(cut: int, room: int) -> None:
    masking = Masking([VALUE])
    for said in (
        masking.excerpt("x" * room + VALUE[:cut]),
        masking.excerpt("x" * room + VALUE[:cut] + "…"),
        masking.excerpt(VALUE[cut:] + "x" * room),
        masking.content(("x" * room + VALUE[:cut]).encode()).decode(),
    ):
        assert not any(VALUE[start : start + 4] in said for start in range(len(VALUE) - 4))


@given(st.lists(st.sampled_from([VALUE, KEY, "s", "sk/", "---", "\n", "words "]), max_size=6), st.data())
def test_a_stream_is_masked_wherever_it_is_cut(parts: list[str], data: st.DataObject) -> None:
    text, masking = "".join(parts), Masking([VALUE, KEY])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    stream, said = MaskedStream(masking), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        said += stream.feed(text[start:end])
    said += stream.feed("", final=True)
    assert VALUE not in said
    assert "kqhkiG9w0BAQEF" not in said
    assert said.count("words ") == text.count("words ")


def test_a_stream_holds_back_no_more_than_it_must() -> None:
    stream = MaskedStream(Masking(["abcdefghij"]))
    assert stream.feed("one\n") == "one\n"
    assert stream.feed("two abcd") == "two "
    assert stream.feed("xyz") == "abcdxyz"
    assert stream.feed("abcdef") == ""
    assert stream.feed("", final=True) == MASK
