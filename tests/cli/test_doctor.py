"""`oncue doctor`: what it checks by default and when told, its exit codes, and how it is printed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.cli.conftest import Oncue, StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import on_a_terminal
from tests.cli.test_hostile_words import EVIL, obeyed
from tests.client.server import key_of, running
from tests.examples.server import PATIENCE, Up, up

from oncue import __version__

NOW = "Tue, 17 Nov 2026 08:00:00 GMT"
ONE = "01990000-0000-7000-8000-0000000000c1"
ADMIN = {"user_id": "ada", "role": "admin", "key_id": ONE}


def states(said: Result) -> dict[str, str]:
    return {one["check"]: one["state"] for one in json.loads(said.stdout)}


def wrong(said: Result) -> dict[str, str]:
    return {check: state for check, state in states(said).items() if state != "ok"}


# ---------------------------------------------------------------------------------------------------- of a real server


@pytest.fixture
def well(tmp_path: Path) -> Iterator[Up]:
    """A server without jobs of other tests."""
    with running(tmp_path) as started:
        yield started


def test_a_server_that_is_well(well: Up) -> None:
    """By its database, and from outside."""
    folder = str(well.key_file.parent)
    started = time.monotonic()
    while (said := command("doctor", "--data-dir", folder)).exit_code:  # until its first heartbeat
        assert time.monotonic() < started + PATIENCE, said.output
    told = command("doctor", "--data-dir", folder, "--json")
    assert not wrong(told), told.output
    assert states(told).keys() >= {"schema", "file", "scheduler", "workers", "limits"}

    key = ["--api-key", key_of(well)]
    assert command("doctor", "--url", well.address, *key).exit_code == 0
    both = command("doctor", "--url", well.address, *key, "--engine", f"sqlite:///{folder}/oncue.db", "--json")
    assert both.exit_code == 0
    assert {"server", "key", "version", "schema", "ready"} <= states(both).keys()


def test_by_default_the_database_else_the_server(oncue: Oncue, oncue_up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    here = states(oncue("doctor", "--json"))
    assert "schema" in here
    assert "version" not in here

    monkeypatch.setenv("ONCUE_DATA_DIR", "elsewhere")
    monkeypatch.setenv("ONCUE_API_KEY", key_of(oncue_up))
    there = states(oncue("doctor", "--json"))
    assert "version" in there
    assert "schema" not in there


def test_a_key_that_is_not_valid(oncue_up: Up) -> None:
    said = command("doctor", "--url", oncue_up.address, "--api-key", "oc_none", "--json")

    assert said.exit_code == 1
    assert wrong(said) == {"key": "problem"}
    assert states(said)["ready"] == "ok"


def test_up_logs_failed_checks_once(tmp_path: Path) -> None:
    (folder := tmp_path / "data").mkdir()
    folder.chmod(0o775)
    with up(folder):
        deadline = time.monotonic() + PATIENCE
        while '"kind": "doctor"' not in (logged := (folder / "stderr.txt").read_text()):
            assert time.monotonic() < deadline, logged
            time.sleep(0.02)

    lines = [json.loads(line) for line in (folder / "stderr.txt").read_text().splitlines()]
    told = [(one["level"], one["check"]) for one in lines if one.get("kind") == "doctor"]
    assert sorted(told) == [("warning", "data directory"), ("warning", "file")]


# ------------------------------------------------------------------------------------------------ what is not there


def test_nothing_is_there_and_nothing_is_created(tmp_path: Path) -> None:
    said = command("doctor", "--json")

    assert said.exit_code == 1
    assert wrong(said) == {"database": "problem"}
    assert list(tmp_path.iterdir()) == []


def test_no_server_answers() -> None:
    said = command("doctor", "--url", "http://127.0.0.1:1", "--json")

    assert said.exit_code == 1
    assert wrong(said) == {"server": "problem"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--engine", "mysql://x"], 2, "--engine: is not a supported engine"),
        (["--url", "nonsense"], 2, "nonsense"),
    ],
)
def test_wrong_options(arguments: list[str], code: int, message: str) -> None:
    said = command("doctor", *arguments)

    assert said.exit_code == code
    assert message in said.stderr


# ------------------------------------------------------------------------------------- of a server that is made up


class Server:
    """Answers like a server that is well, except for what a test changes."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "healthz": {"status": "ok"},
            "readyz": {"status": "ok"},
            "openapi.json": {"info": {"version": __version__}},
            "me": ADMIN,
            "workers": {"workers": [{"worker_id": ONE, "name": "w"}]},
            "queues": {"queues": [{"name": "q", "depth": 2, "workers": [ONE]}]},
            "scaling": {"queues": [{"queue": "q", "due": 1, "oldest_due_seconds": 60}]},
            "findings": {"findings": [{"check": "lane", "cleared_at": "2027-01-01T00:00:00Z"}]},
        } | answers

    def __call__(self, request: Request) -> Said:
        answer = self.answers[request.path.rpartition("/")[2]]
        return answer if isinstance(answer, tuple) else (200, answer)


REFUSED = (403, {"title": "Forbidden", "detail": "This call needs an admin key."})
AWAY = (503, {"title": "Unavailable", "detail": "The database is unavailable."})


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, {}),
        ({"me": {**ADMIN, "role": "viewer"}, "scaling": REFUSED, "findings": REFUSED}, {}),
        ({"healthz": "hello", "readyz": "hello", "me": "hello"}, {"server": "problem"}),  # of another server
        ({"openapi.json": {"info": {"version": "9.9.9"}}}, {"version": "warning"}),
        ({"readyz": AWAY}, {"ready": "problem"}),
        ({"queues": AWAY}, {"queues": "problem"}),
        ({"workers": {"workers": []}}, {"workers": "problem"}),
        ({"workers": {"workers": [{"worker_id": ONE, "draining": True}]}}, {"workers": "problem"}),
        ({"queues": {"queues": [{"name": "q", "depth": 1}]}}, {"queues": "problem"}),
        (
            {
                "queues": {
                    "queues": [{"name": "q", "depth": 1, "workers": [ONE], "paused_since": "2027-01-01T00:00:00Z"}]
                }
            },
            {"queues": "warning"},
        ),
        ({"scaling": {"queues": [{"queue": "q", "due": 1, "oldest_due_seconds": 60.1}]}}, {"late runs": "problem"}),
        ({"findings": {"findings": [{"check": "lane"}]}}, {"findings": "problem"}),
    ],
)
def test_from_outside(stand_in: StandIn, answers: dict[str, Any], expected: dict[str, str]) -> None:
    url = stand_in(Server(**answers)).url

    said = command("doctor", "--url", url, "--json")

    assert wrong(said) == expected
    assert said.exit_code == ("problem" in expected.values())


def test_a_clock_that_is_wrong(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    url = stand_in(Server()).url
    assert states(command("doctor", "--url", url, "--json"))["clock"] == "ok"

    monkeypatch.setattr("tests.cli.standin.Handler.date_time_string", lambda *_: NOW)
    said = command("doctor", "--url", url, "--json")

    assert wrong(said) == {"clock": "warning"}
    assert said.exit_code == 0


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_names_of_others_command_no_terminal(stand_in: StandIn, as_json: list[str]) -> None:
    evil = Server(
        me={**ADMIN, "user_id": EVIL},
        readyz=(503, {"title": EVIL, "detail": f"{EVIL}\nok  everything  fine"}),
        queues={"queues": [{"name": EVIL, "depth": 1}]},
        findings={"findings": [{"check": EVIL}]},
        scaling=(500, {"title": EVIL, "detail": EVIL}),
    )
    url = stand_in(evil).url

    said = command("doctor", "--url", url, *as_json)

    assert said.exit_code == 1
    assert said.stdout.count("owned") == 5
    assert obeyed(said.stdout) == set()
    assert not any(line.startswith("ok  everything") for line in said.stdout.splitlines()), "nor pretend to be a check"


def test_on_a_terminal_it_is_a_table(tmp_path: Path) -> None:
    shown = on_a_terminal("doctor", ends=1)

    assert "1 problem" in shown
    assert "\x1b[31mproblem" in shown
    assert "\x1b[32mok" in shown
