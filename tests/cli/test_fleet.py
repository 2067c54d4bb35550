"""`oncue workers`, `queues`, `tasks` and `events`: what they ask and print."""

import json
from typing import Any
from uuid import UUID

import pytest
from tests.cli.conftest import StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import on_a_terminal

WORKER: dict[str, Any] = {
    "worker_id": "01990000-0000-7000-8000-0000000000a1",
    "name": "web-1",
    "host": "host",
    "started_at": "2026-11-16T08:00:00.000Z",
    "seen_at": "2026-11-16T08:00:00.000Z",
    "lease": "15s",
    "status": "active",
    "version": "0.1.0",
    "running": 3,
    "slots": {"loop": 8, "thread": 2},
    "free_slots": {"loop": 5, "thread": 2},
    "resources_used": {"cpu": 1.5, "memory_mb": 256},
    "tasks": ["hello", "mail"],
    "queues": ["default"],
    "offer": {"resources": {"cpu": 4, "memory_mb": 1024, "slots": 8}},
}
OTHER = WORKER | {
    "worker_id": "01990000-0000-7000-8000-0000000000b2",
    "name": "\x1b[31mweb-2",
    "status": "no_heartbeat",
}
QUEUE: dict[str, Any] = {
    "name": "mail",
    "depth": 12,
    "due": 7,
    "more": True,
    "running": 2,
    "oldest_due_seconds": 90.0,
    "lag_p99_ms": 1_500.0,
    "rate_per_minute": 4.2,
    "drain_seconds": 100.0,
    "workers": [WORKER["worker_id"]],
    "draining_workers": [],
    "classes": [{"task": "hello", "priority": "high", "labels": [], "resources": {}, "depth": 12}],
}
SCHEMA = {"$ref": "#/$defs/P", "$defs": {"P": {"properties": {"to": {}, "cc": {}}, "required": ["to"]}}}
TASK = {"name": "hello", "schema": SCHEMA, "defaults": {"timeout": "30s"}, "roles": ["admin"], "workers": 2}


def fleet(request: Request) -> Said:
    match request.parts:
        case ["workers"]:
            return 200, {"workers": [WORKER, OTHER]}
        case ["workers", _, "runs"]:
            run = {"run_id": "01990000-0000-7000-8000-0000000000c3", "job_id": WORKER["worker_id"], "status": "running"}
            return 200, {"runs": [run], "next_page_token": None}
        case ["workers", worker_id, *act]:
            found = next(one for one in (WORKER, OTHER) if one["worker_id"] == worker_id)
            return 200, found | ({"status": "draining", "draining": True} if act == ["drain"] else {})
        case ["queues"]:
            return 200, {"queues": [QUEUE]}
        case ["queues", "mail", *_]:
            return 200, QUEUE
        case ["tasks"]:
            return 200, {"tasks": [TASK]}
    return 404, {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "Not found.", "errors": []}


def rows(printed: str) -> list[dict[str, str]]:
    head, *lines = [line.split("\t") for line in printed.splitlines()]
    return [dict(zip(head, line, strict=True)) for line in lines]


@pytest.mark.parametrize(
    ("list_", "row"),
    [
        (
            "workers",
            {"name": "web-1", "status": "active", "running": "3", "tasks": "hello,mail", "id": WORKER["worker_id"]},
        ),
        (
            "queues",
            {"name": "mail", "waiting": "10", "running": "2", "due": "7+", "workers": "1", "priorities": "high:12"},
        ),
        ("tasks", {"name": "hello", "parameters": "to, cc?", "workers": "2", "defaults": '{"timeout":"30s"}'}),
    ],
)
def test_a_list_has_all_columns_in_pipes_and_those_that_fit_on_terminals(
    stand_in: StandIn, list_: str, row: dict[str, str]
) -> None:
    standin = stand_in(fleet)

    first = rows(command(list_, "list").stdout)[0]
    narrow, wide = (
        on_a_terminal(list_, "list", columns=width, ONCUE_URL=standin.url, ONCUE_API_KEY="oc_1") for width in (80, 200)
    )

    assert {name: first[name] for name in row} == row
    assert json.loads(command(list_, "list", "--json").stdout)[list_][0] in (WORKER, QUEUE, TASK)
    assert command(list_, "list", "-q").stdout.splitlines()[0] in (WORKER["worker_id"], "mail", "hello")
    assert max(len(line) for line in narrow.splitlines()) <= 80 < max(len(line) for line in wide.splitlines())
    assert "\x1b[31mweb" not in narrow + wide


@pytest.mark.parametrize(
    "given", ["web-1", "0000a1", WORKER["worker_id"], WORKER["worker_id"].replace("-", "").upper()]
)
def test_a_worker_is_found_by_id_end_of_id_or_name(stand_in: StandIn, given: str) -> None:
    standin = stand_in(fleet)

    drained, resumed = command("workers", "drain", given), command("workers", "resume", given)

    assert (drained.exit_code, resumed.exit_code) == (0, 0), drained.stderr
    assert [line for line in standin.lines if line.startswith("POST")] == [
        f"POST /v1/workers/{WORKER['worker_id']}/{act}" for act in ("drain", "resume")
    ]
    assert drained.stdout == "Worker web-1 is draining: it takes no new runs. It finishes the 3 it holds.\n"
    assert resumed.stdout == "Worker web-1 is resumed.\n"


def test_one_worker_that_is_missing_does_not_stop_the_others(stand_in: StandIn) -> None:
    standin = stand_in(fleet)

    done = command("workers", "drain", "nobody", "-", stdin="web-1\n0000b2\n")

    assert done.exit_code == 1
    assert "No worker matches 'nobody'" in done.stderr
    assert len([line for line in standin.lines if line.endswith("/drain")]) == 2


def test_workers_of_the_same_name_are_shown_to_choose_from(stand_in: StandIn) -> None:
    standin = stand_in(lambda _: (200, {"workers": [WORKER, OTHER | {"name": "web-1"}]}))

    refused = command("workers", "drain", "web-1")

    assert (refused.exit_code, standin.lines) == (1, ["GET /v1/workers"])
    assert "000000a1" in refused.stderr
    assert "000000b2" in refused.stderr


def test_a_worker_a_queue_and_a_task_are_shown(stand_in: StandIn) -> None:
    stand_in(fleet)

    worker, queue, task = (
        command(kind, "show", name) for kind, name in (("workers", "web-1"), ("queues", "mail"), ("tasks", "hello"))
    )

    assert "running:         3/10" in worker.stdout
    assert "01990000-0000-7000-8000-0000000000c3" in worker.stdout
    assert "drains in:   1m 40s" in queue.stdout
    assert "parameters:  to, cc?" in task.stdout
    assert json.loads(command("tasks", "show", "hello", "--json").stdout) == TASK
    missing = {kind: command(kind, "show", "nobody") for kind in ("queues", "tasks")}
    assert {
        kind: (one.exit_code, f"{kind[:-1]} is called 'nobody'" in one.stderr) for kind, one in missing.items()
    } == {
        "queues": (1, True),
        "tasks": (1, True),
    }


@pytest.mark.parametrize(("act", "word"), [("pause", "paused"), ("resume", "resumed")])
def test_queues_are_paused_and_resumed(stand_in: StandIn, act: str, word: str) -> None:
    standin = stand_in(fleet)

    done = command("queues", act, "mail")

    assert done.stdout == f"Queue mail is {word}; 10 runs wait, 2 running.\n"
    assert standin.lines == [f"POST /v1/queues/mail/{act}"]


EVENTS = [
    ("run", {"run_id": "01990000-0000-7000-8000-0000000000c3", "status": "dead", "task": "t", "error_message": "no"}),
    ("dead", {"run_id": "01990000-0000-7000-8000-0000000000c3", "task": "t", "error_type": "E"}),
    ("worker", {"worker_id": WORKER["worker_id"], "change": "no_heartbeat", "name": "\x1b]0;x\x07w"}),
    ("queue", {"name": "mail", "change": "paused"}),
    ("pulse", {"running": 3, "due": 4, "more": True, "dead_letters": 0}),
    ("resync", {}),
    ("marvel", {"new": 1}),
]


def test_events_are_lines_of_json_in_pipes_and_of_words_otherwise(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the server refuses: a stream has no other end."""
    from oncue.client import Client, Event, Unauthorized

    asked: list[dict[str, Any]] = []

    def events(self: Client, **how: Any) -> Any:
        asked.append(how)
        yield from [Event(kind=kind, id="1", data=data) for kind, data in EVENTS]
        raise Unauthorized(type="about:blank", title="Unauthorized", status=401, detail="No key.", errors=())

    monkeypatch.setattr(Client, "events", events)
    stand_in(fleet)
    job = "01990000-0000-7000-8000-0000000000d4"

    piped = command("events", "--job", job, "--types", "run, dead", "--pulse")
    words = command("events", "-o", "table", "--utc")
    ids = command("events", "-q")

    assert asked[0] == {"job": UUID(job), "run": None, "types": ["run", "dead"], "pulse": True}
    assert asked[1] == {"job": None, "run": None, "types": None, "pulse": False}
    assert piped.exit_code == 1
    told = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [(one["event"], one["data"]) for one in told] == EVENTS
    lines = [line[10:] for line in words.stdout.splitlines()]
    assert lines[0] == "run     000000c3  dead        t  no"
    assert lines[2].startswith("worker  000000a1  no heartbeat")
    assert "due 4+" in lines[4]
    assert lines[6].startswith("marvel")
    assert not any(letter < " " for line in lines for letter in line)
    assert ids.stdout.splitlines()[:2] == ["01990000-0000-7000-8000-0000000000c3"] * 2
    assert command("events", "--job", job, "--run", job).exit_code == 2
