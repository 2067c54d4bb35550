"""What a log line holds: one event is one line, and no secret is in it."""

import json
from typing import Any

import pytest

from oncue.domain.keys import make_key
from oncue.logs.lines import LONGEST_ERROR, as_json, as_text, explained, scrubbed

KEY = make_key(bytes(32))


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (f"Bearer {KEY}", "Bearer oc_…"),
        ("postgresql://ada:pass/word@db:5432/x", "postgresql://…@db:5432/x"),
        ("GET https://ada:pw@host/p?token=abc failed", "GET https://…@host/p?… failed"),
        ({"deep": [f"https://host/?{KEY}"]}, {"deep": ["https://host/?…"]}),
        (("a", None, 1.5), ["a", None, 1.5]),
        ("x" * 5_000, "x" * 1_000),
    ],
)
def test_secrets_stop_here(given: Any, left: Any) -> None:
    assert scrubbed(given) == left


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[2J", "turned \u202e round", "half \ud800", "\x9b31m", '"quoted"'])
def test_one_event_is_one_line_without_controls(text: str) -> None:
    line = {"kind": "k", "event": text, "name": text, "more": [text]}

    for shown in (as_json(line), as_text(line, colours=False)):
        assert shown.isprintable()
    assert json.loads(as_json(line))["name"] == text


def test_an_exception_is_its_class_and_where_it_was_raised() -> None:
    def fails(password: str) -> None:
        raise ValueError("s3cret " * 100) from KeyError(password)

    try:
        fails("hunter2")
    except ValueError as error:
        hidden, shown = (explained({"exc_info": error}, errors=errors) for errors in (False, True))

    assert (hidden["error_type"], "error" in hidden) == ("ValueError", False)
    assert hidden["trace"][0].endswith(" fails")
    assert hidden["trace"][-1] == "caused by KeyError"
    assert len(shown["error"]) == LONGEST_ERROR
    assert "hunter2" not in str(shown)
