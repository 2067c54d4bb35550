"""`oncue problems`, `oncue stats` and `oncue upcoming`: what they ask and print."""

import json
from typing import Any

import pytest
from tests.cli.conftest import StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import on_a_terminal

from oncue.cli.stats import spark

JOB_ID = "01990000-0000-7000-8000-000000000001"
PROBLEM = {
    "kind": "late_runs",
    "severity": "problem",
    "title": "Runs of the queue \x1b[31mmail start late",
    "detail": "The oldest has been due for 90 s.",
    "count": 4,
    "since": "2026-11-16T08:00:00.000Z",
    "link": "/v1/runs?status=queued&queue=mail",
    "remedy": "Start more workers.",
    "command": "oncue runs list --status queued --queue mail",
}


def series(request: Request, role: str) -> Said:
    if request.parts == ["me"]:
        return 200, {"user_id": "ada", "role": role, "key_id": "01990000-0000-7000-8000-0000000000c1"}
    hour = "2026-11-16T{}:00:00.000Z"
    names: list[str | None] = ["mail", "other"] if "by" in request.query else [None]
    points = [{"at": hour.format("00"), "n": 1}, {"at": hour.format("02"), "n": 8}]
    return 200, {
        "start_time": hour.format("00"),
        "end_time": "2026-11-16T03:30:00.000Z",
        "step": request.query["step"],
        "by": request.query.get("by"),
        "series": [
            {"what": what, "name": name, "total": 9, "points": points}
            for what in request.query["what"].split(",")
            for name in names
        ],
    }


def test_problems_are_a_table_and_the_answer_as_json(stand_in: StandIn) -> None:
    standin = stand_in(lambda request: (200, {"problems": [PROBLEM], "more": False}))

    plain, whole = command("problems"), command("problems", "--json")
    shown = on_a_terminal("problems", columns=120, ONCUE_URL=standin.url, ONCUE_API_KEY="oc_1")

    assert standin.lines == ["GET /v1/problems"] * 3
    head, line = plain.stdout.splitlines()
    row: dict[str, str] = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert (row["severity"], row["count"], row["command"]) == ("problem", "4", PROBLEM["command"])
    assert json.loads(whole.stdout)["problems"] == [PROBLEM]
    assert "Start more workers." in shown
    assert "\x1b[31mmail" not in plain.stdout + shown


def test_the_command_of_a_problem_can_be_copied_at_80_columns(stand_in: StandIn) -> None:
    long = {**PROBLEM, "title": "The job " + "x" * 60, "command": f"oncue dead list --job {JOB_ID} --from '1h ago'"}
    standin = stand_in(lambda request: (200, {"problems": [PROBLEM, long], "more": False}))

    shown = on_a_terminal("problems", columns=80, ONCUE_URL=standin.url, ONCUE_API_KEY="oc_1")

    assert "oncue runs list --status queued --queue mail" in shown
    assert "oncue dead list --job 00000001 --from '1h ago'" in shown
    assert JOB_ID in command("problems").stdout


def test_no_problem_is_said_on_terminals_only(stand_in: StandIn) -> None:
    standin = stand_in(lambda request: (200, {"problems": [], "more": False}))

    assert "No problems." in on_a_terminal("problems", ONCUE_URL=standin.url, ONCUE_API_KEY="oc_1")
    assert command("problems", "-q").stdout == ""


@pytest.mark.parametrize(("role", "names"), [("admin", ["mail", "other"]), ("member", ["all runs"])])
def test_todays_counts_by_task_or_in_all(stand_in: StandIn, role: str, names: list[str]) -> None:
    standin = stand_in(lambda request: series(request, role))

    found = command("stats", "--utc")
    whole: Any = json.loads(command("stats", "--utc", "--json").stdout)

    lines = [line.split("\t") for line in found.stdout.splitlines()]
    assert lines[0] == ["name", "created", "succeeded", "dead", "retried", "by hour"]
    assert lines[1:] == [[name, "9", "9", "9", "9", "1,0,8,0"] for name in names]
    assert {one["what"] for one in whole["series"]} == {"created", "succeeded", "dead", "retried"}
    [asked, *_] = [request.query for request in standin.requests if "what" in request.query]
    assert (asked["from"][10:], asked.get("by")) == ("T00:00:00+00:00", "task" if role == "admin" else None)
    assert command("stats", "-q").stdout.split("\n")[:-1] == names


@pytest.mark.parametrize(("numbers", "bars"), [((), ""), ((0, 0), ""), ((1, 0, 8, 0), "▁ █"), ((5, 5), "██")])
def test_bars_are_relative_to_the_largest(numbers: tuple[int, ...], bars: str) -> None:
    assert spark(numbers) == bars


def test_what_is_to_come_is_a_table(stand_in: StandIn) -> None:
    one = {"at": "2030-01-01T08:00:00.000Z", "local": "2030-01-01T09:00:00.000+01:00", "job_id": JOB_ID, "task": "mail"}
    more = {"job_name": None, "queue": "q", "run_id": None, "note": "its queue is paused"}
    standin = stand_in(lambda request: (200, {"upcoming": [one | more], "next_page_token": None, "exact_until": None}))

    found = command("upcoming", "--from", "2030-01-01T00:00:00Z", "--task", "mail", "--job", JOB_ID, "--limit", "5")

    head, line = found.stdout.splitlines()
    assert dict(zip(head.split("\t"), line.split("\t"), strict=True)) == {
        "in": one["at"], "job": JOB_ID, "name": "", "task": "mail", "queue": "q", "note": "its queue is paused",
        "local": one["local"], "run": "",
    }  # fmt: skip
    [asked] = standin.requests
    assert asked.query == {"from": "2030-01-01T00:00:00.000Z", "task": "mail", "job_id": JOB_ID, "limit": "5"}
    assert json.loads(command("upcoming", "--json").stdout)["upcoming"] == [one | more]
    assert command("upcoming", "-q").stdout == f"{JOB_ID}\n"
