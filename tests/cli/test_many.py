"""--all: what would be hit is said before, then a bulk does it; and what is said of bulks and groups of errors."""

import json
import re
from typing import Any

import pytest
from tests.cli.conftest import Oncue, StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import on_a_terminal

from oncue.cli import many

B1 = "01990000-0000-7000-8000-0000000000b1"
R1 = "01990000-0000-7000-8000-0000000000a1"
BULK: dict[str, Any] = {
    "bulk_id": B1,
    "action": "pause",
    "of": "jobs",
    "filter": {"tag": "x"},
    "state": "running",
    "done": 0,
    "total": 3,
    "created_at": "2026-11-16T08:00:00.000Z",
}
REFUSED = {"refused": 1, "reasons": [{"id": R1, "reason": "it \x1b[31mstarted"}]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "LOOK_INTERVAL", 0)


def bulks(count: int = 3, **end: Any) -> Any:
    """A server that works through one bulk in two looks."""
    looks = [BULK, {**BULK, "done": 2}, {**BULK, "done": 3, "state": "finished", **end}]

    def answer(request: Request) -> Said:
        if request.method == "POST" and request.body.get("dry_run"):
            return 200, {"count": count, "at_least": count >= 1_000, "samples": []}
        return (202 if request.method == "POST" else 200), looks.pop(0) if len(looks) > 1 else looks[0]

    return answer


def test_a_bulk_is_previewed_started_and_followed(stand_in: StandIn) -> None:
    server = stand_in(bulks())

    result = command("jobs", "pause", "--all", "--tag", "x", "--prefix", "a", "--yes")

    assert (result.exit_code, result.stdout) == (0, "Paused 3 jobs.\n")
    assert f"oncue bulk show {B1}" in result.stderr
    asked = {"action": "pause", "filter": {"tag": "x", "name_prefix": "a"}, "of": "jobs"}
    assert [request.body for request in server.requests[:2]] == [{**asked, "dry_run": True}, asked]
    assert server.lines[2:] == [f"GET /v1/bulk/{B1}"] * 2


@pytest.mark.parametrize(
    ("typed", "body"),
    [
        (("jobs", "resume", "--missed", "last"), {"action": "resume", "of": "jobs", "missed": "last"}),
        (("jobs", "cancel"), {"action": "cancel", "of": "jobs"}),
        (("jobs", "run"), {"action": "run", "of": "jobs"}),
        (("runs", "cancel"), {"action": "cancel", "of": "runs"}),
        (("runs", "retry"), {"action": "retry", "of": "runs"}),
        (("dead", "requeue"), {"action": "requeue", "of": "dead_letters"}),
        (
            ("dead", "requeue", "--patch", '{"a": null}'),
            {"action": "requeue", "of": "dead_letters", "payload_patch": {"a": None}},
        ),
        (("dead", "discard"), {"action": "discard", "of": "dead_letters"}),
    ],
)
def test_every_command_with_all_starts_its_bulk(stand_in: StandIn, typed: tuple[str, ...], body: Any) -> None:
    server = stand_in(bulks())

    result = command(*typed, "--all", "--task", "hello", "-y", "--json")

    assert (result.exit_code, json.loads(result.stdout)["done"]) == (0, 3)
    assert server.requests[1].body == {**body, "filter": {"task": "hello"}}


def test_what_could_not_be_done_is_said_and_ends_with_1(stand_in: StandIn) -> None:
    stand_in(bulks(**REFUSED))
    result = command("jobs", "pause", "--all", "-y")
    assert (result.exit_code, result.stdout) == (1, "Paused 3 jobs.\n")
    assert re.search(f"1 job could not be processed:\n  {R1}: it .*started\n", result.stderr)
    assert "\x1b" not in result.stderr

    stand_in(bulks(state="failed", why="the key was revoked"))
    result = command("jobs", "pause", "--all", "-y")
    assert (result.exit_code, result.stdout) == (1, "Paused 3 jobs, then failed: the key was revoked.\n")


def test_nothing_is_started_without_a_yes_or_without_a_match(stand_in: StandIn) -> None:
    server = stand_in(bulks())
    result = command("dead", "discard", "--all", stdin="y\n")
    assert (result.exit_code, "--yes" in result.stderr) == (2, True)
    assert [request.body.get("dry_run") for request in server.requests] == [True]

    server = stand_in(bulks(count=0))
    result = command("dead", "discard", "--all", "-y")
    assert (result.exit_code, result.stderr, len(server.requests)) == (0, "No dead letters match.\n", 1)


def test_people_are_asked_with_the_count(stand_in: StandIn) -> None:
    server = stand_in(bulks(count=1_000))

    said = on_a_terminal("jobs", "cancel", "--all", typed="n\n", ends=1)

    assert "Cancel 1,000 jobs or more? [y/N]" in said
    assert "Nothing was changed." in said
    assert len(server.requests) == 1


def test_the_end_of_the_input_at_a_question_is_a_no(stand_in: StandIn) -> None:
    server = stand_in(bulks(count=1_000))

    on_a_terminal("jobs", "cancel", "--all", typed="\x04", ends=1)

    assert len(server.requests) == 1


WRONG = [
    (("jobs", "pause"), "give either JOBs or --all"),
    (("jobs", "pause", "a", "--all"), "give either JOBs or --all"),
    (("runs", "cancel", "a", "--task", "t"), "give either RUNs or --all"),
    (("jobs", "cancel", "--all", "--purge"), "leave out --all"),
    *(
        ((*act, "--all", "--wait"), "leave out --all")
        for act in (("jobs", "run"), ("runs", "retry"), ("dead", "requeue"))
    ),
    (("runs", "retry", "--all", "--payload", "{}"), "leave out --all"),
    (("dead", "requeue", "--all", "--payload", "{}", "-y"), "--payload is for one RUN"),
    (("dead", "requeue", "a", "b", "--payload", "{}"), "--payload is for one RUN"),
]


@pytest.mark.parametrize(("typed", "said"), WRONG)
def test_what_does_not_go_together_is_refused(typed: tuple[str, ...], said: str) -> None:
    result = command(*typed)

    assert (result.exit_code, said in result.stderr) == (2, True)


def test_bulks_are_listed_shown_and_stopped(stand_in: StandIn) -> None:
    shown = {**BULK, **REFUSED, "state": "stopped", "started_by": "ada"}
    server = stand_in(lambda request: (200, {"bulks": [shown]} if request.path == "/v1/bulk" else shown))

    assert command("bulk", "list", "-q").stdout == f"{B1}\n"
    assert "pause" in command("bulk", "list").stdout
    told = command("bulk", "show", "0000b1").stdout
    assert re.search(f"{R1}: it .*started", told)
    assert "\x1b" not in told
    assert command("bulk", "stop", B1).stdout == "Paused 0 jobs, then stopped.\n"
    assert server.lines[-1] == f"DELETE /v1/bulk/{B1}"
    unknown = command("bulk", "show", "ffffff")
    assert (unknown.exit_code, "No bulk matches 'ffffff'" in unknown.stderr) == (1, True)


def test_a_bulk_is_meant_by_six_digits_at_least_and_several_are_taken(stand_in: StandIn) -> None:
    other = "01990000-0000-7000-8000-0000000001b1"
    both = [{**BULK, "bulk_id": one, "state": "stopped"} for one in (B1, other)]
    server = stand_in(lambda request: (200, {"bulks": both} if request.path == "/v1/bulk" else both[0]))

    for verb in ("show", "stop"):
        empty, short, several = (command("bulk", verb, typed) for typed in ("", "1", "0199000000"))
        assert (empty.exit_code, "an argument is empty" in empty.stderr) == (2, True)
        assert (short.exit_code, "No bulk matches '1'. Use an id, or the last 6" in short.stderr) == (1, True)
        assert (several.exit_code, several.stderr.splitlines()[0]) == (
            1,
            "Several bulks match '0199000000'. Use the id of one, such as:",
        )
    assert [line for line in server.lines if line != "GET /v1/bulk"] == []
    assert command("bulk", "stop", "-", "0001b1", stdin=f"{B1}\n").exit_code == 0
    assert [line for line in server.lines if line[:3] == "DEL"] == [f"DELETE /v1/bulk/{one}" for one in (B1, other)]


def test_groups_of_errors_are_listed(stand_in: StandIn) -> None:
    group = {
        "fingerprint": "3f2a91c07be45d18",
        "task": "hello",
        "error_type": "ValueError",
        "sample": "no \x1b user",
        "count": 7,
        "open_letters": 2,
        "trend": [0] * 23 + [3],
        "first_seen": "2026-11-16T08:00:00.000Z",
        "last_seen": "2026-11-16T09:00:00.000Z",
    }
    stand_in(lambda _: (200, {"errors": [group], "next_page_token": None}))

    lines = command("errors").stdout.splitlines()

    assert lines[1].split("\t")[:3] == ["3f2a91c07be45d18", "7", "2"]
    assert re.search(r"ValueError: no .*user", lines[1])
    assert "\x1b" not in lines[1]
    assert command("errors", "-q").stdout == "3f2a91c07be45d18\n"


def test_all_of_it_on_a_real_server(oncue: Oncue) -> None:
    for _ in range(3):
        assert oncue("jobs", "create", "--task", "hello", "--schedule", "every 1h", "--tag", "many").exit_code == 0

    paused = oncue("jobs", "pause", "--all", "--tag", "many", "-y", "--json")
    assert (paused.exit_code, json.loads(paused.stdout)["done"]) == (0, 3)
    again = oncue("jobs", "cancel", "--all", "--tag", "many", "-y")
    assert (again.exit_code, again.stdout) == (0, "Cancelled 3 jobs.\n")
    assert oncue("jobs", "pause", "--all", "--tag", "many", "-y").stderr == "No jobs match.\n"
    assert len(json.loads(oncue("bulk", "list", "--json").stdout)["bulks"]) == 2
    assert oncue("errors").exit_code == 0
