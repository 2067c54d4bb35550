"""Hints between versions."""

from typing import Any

import msgspec
import pytest

from oncue.engines.hints import reader
from oncue.engines.port import Hint, Topic


@pytest.mark.parametrize("form", [msgspec.json, msgspec.msgpack])
def test_a_hint_that_is_not_known_is_left_out_alone(form: Any) -> None:
    """Catches a new topic that silences all the others it travels with."""
    read = reader(form.Decoder)
    runs, cancel_requests = {"topic": "runs", "due": 5, "later": 1}, {"topic": "cancel_requests", "target": "w"}

    assert read(form.encode([runs, cancel_requests])) == [Hint(Topic.RUNS, 5), Hint(Topic.CANCELS, target="w")]
    assert read(form.encode([{"topic": "later"}, runs, {"topic": "jobs", "due": "soon"}])) == [Hint(Topic.RUNS, 5)]
    for foreign in ("hello", {"topic": "runs"}):
        with pytest.raises(msgspec.ValidationError):
            read(form.encode(foreign))
