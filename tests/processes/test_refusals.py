"""`oncue up` that cannot work as it was told: it says so, and leaves nothing behind."""

from __future__ import annotations

import socket

import pytest
from tests.processes.fleet import Fleet


@pytest.mark.kills
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        pytest.param("def broken(:", "invalid syntax", marks=pytest.mark.long),
        pytest.param("nothing = 1", "Tasks", marks=pytest.mark.long),
    ],
    ids=["import", "syntax", "no tasks"],
)
def test_up_with_a_broken_task_file_ends_and_says_why(fleet: Fleet, code: str, told: str) -> None:
    file = fleet.folder / "broken.py"
    file.write_text(code)

    up = fleet.start("up", tasks=file)

    assert up.ended() == 1
    assert str(file) in up.said
    assert told in up.said
    assert "Traceback" not in up.said
    assert fleet.processes() == {}


@pytest.mark.kills
def test_up_on_a_port_in_use_ends_and_says_so(fleet: Fleet) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", fleet.port))
        other.listen()

        up = fleet.start("up")

        assert up.ended() == 1
    assert f"--port: {fleet.port} is in use" in up.said
    assert "Traceback" not in up.said
    assert fleet.processes() == {}
