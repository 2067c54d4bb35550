"""`--wait` says why a run waits and what became of its attempts, on standard error; real servers, and stand-ins."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.cli.conftest import Oncue, StandIn, command
from tests.cli.standin import Request, Said
from tests.cli.terminal import Terminal

from oncue.domain.instants import SECOND

J1 = "01990000-0000-7000-8000-000000000001"
R1 = "01990000-0000-7000-8000-0000000000a1"
AT = "2027-01-01T00:00:"
PLACES = "".join(f'  File "shop.py", line {line}, in f{line}\n    f{line + 1}()\n' for line in range(9))
FAILED = f"Traceback (most recent call last):\n{PLACES}ValueError: no money\n"


def attempt(number: int, outcome: str = "failed", **more: Any) -> dict[str, Any]:
    error = {"error_type": "ValueError", "error_message": "no money\nat all"}
    return {"number": number, "outcome": outcome, "end_time": f"{AT}00.000Z", **error, **more}


class Waits:
    """A server whose run goes through these states, one at each look, with the last explanation that came so far."""

    def __init__(self, *states: dict[str, Any], logs: Sequence[str] = ()) -> None:
        self._states = chain(states[:-1], repeat(states[-1]))
        self._why: Any = None
        self._logs: Iterator[str] = chain(logs, repeat(""))
        self.asked_why = 0

    def __call__(self, request: Request) -> Said:
        if request.method == "POST":
            return 202, {"run_id": R1}
        if request.path.endswith("/explain"):
            self.asked_why += 1
            return (404, {"status": 404}) if self._why is None else (200, self._why)
        if request.path.endswith("/logs"):
            return 200, next(self._logs)
        state = dict(next(self._states))
        self._why = state.pop("why", self._why)
        return 200, {"run_id": R1, "job_id": J1, "task": "hello", **state}


def waits(detail: str, reason: str = "no_worker", **more: Any) -> dict[str, Any]:
    return {"status": "queued", "why": {"state": "queued", "reason": reason, "detail": detail, **more}}


@pytest.fixture
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncue.cli.reasons.ASK_INTERVAL", 0)
    monkeypatch.setattr("oncue.client.waiting.LONGEST_POLL_INTERVAL", 0.01)


DONE = {"status": "succeeded", "attempt_number": 1}
RUNNING = {"status": "running", "attempt_number": 1}
RETRY = {"state": "retrying", "reason": "not_due", "detail": "The last …", "until": f"{AT}04.010Z"}


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ([waits("No worker."), waits("No worker."), RUNNING, DONE], ["no_worker: No worker."]),
        ([waits("4 runs wait."), waits("3 runs wait."), waits("Next."), DONE],
         ["no_worker: 4 runs wait.", "no_worker: Next."]),
        ([waits("No worker."), waits("Paused.", "paused"), DONE], ["no_worker: No worker.", "paused: Paused."]),
        ([waits("No worker."), RUNNING, waits("No worker."), DONE], ["no_worker: No worker."] * 2),
        ([{"status": "queued"}, DONE], []),  # no explanation
        ([RUNNING, {"status": "retrying", "why": RETRY, "attempts": [attempt(1)]}, DONE],
         ["attempt 1 failed, retry in 4 s: ValueError: no money"]),
        ([{"status": "retrying", "why": RETRY, "attempts": [attempt(1), attempt(2, "timed_out")]}, DONE],
         ["attempt 2 timed out, retry in 4 s: ValueError: no money"]),  # the first was over before
        ([RUNNING, {**RUNNING, "attempts": [{"number": 1, "outcome": "lost"}, attempt(2)]}, DONE],
         ["attempt 1 was lost", "attempt 2 failed: ValueError: no money"]),
        ([RUNNING, {"status": "retrying", "attempts": [attempt(1)], "why": waits("No worker.")["why"]}, DONE],
         ["attempt 1 failed: ValueError: no money", "no_worker: No worker."]),
        ([RUNNING, {"status": "succeeded", "attempt_number": 2, "attempts": [attempt(1), attempt(2, "succeeded")]}],
         ["attempt 1 failed: ValueError: no money"]),
        ([RUNNING, {"status": "cancelled", "attempt_number": 1, "attempts": [attempt(1)]}], []),  # which the end says
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.usefixtures("asked_often")
def test_each_new_reason_and_each_attempt_is_said_once_on_standard_error(
    stand_in: StandIn, states: list[dict[str, Any]], said: list[str], as_json: bool
) -> None:
    for arguments in (("jobs", "run", J1, "--wait"), ("runs", "wait", R1)):
        stand_in(Waits(*states))
        result = command(*arguments, *(["--json"] if as_json else []))

        assert result.stderr.splitlines() == said
        if as_json:
            assert json.loads(result.stdout)["status"] == states[-1]["status"]


def test_the_reason_is_asked_for_every_two_seconds_while_the_run_waits_and_when_the_time_is_over(
    stand_in: StandIn,
) -> None:
    server = Waits(waits("No worker with the task 'a'. Start one."))
    stand_in(server)
    started = time.monotonic()

    result = command("jobs", "run", J1, "--wait", "--timeout", "2.5s", "--json")

    assert time.monotonic() - started < 10
    assert (result.exit_code, result.stdout, server.asked_why) == (4, "", 2)
    why, refused = result.stderr.splitlines()
    assert why == "no_worker: No worker with the task 'a'. Start one."
    late = f"Run {R1} is still queued after 2.5 s and continues. Wait again or cancel it."
    assert json.loads(refused)["detail"] == f"{late}\n{why}"


@pytest.mark.parametrize("interval", [0, 2 * SECOND])
def test_when_the_time_is_over_the_reason_is_said_unless_it_was_said_last(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    monkeypatch.setattr("oncue.cli.reasons.ASK_INTERVAL", interval)
    stand_in(Waits(*(waits(f"{count} runs wait.") for count in (3, 2, 1))))

    said = command("jobs", "run", J1, "--wait", "--timeout", "0.5s").stderr

    late = f"Run {R1} is still queued after 0.5 s and continues. Wait again or cancel it."
    lines = ["no_worker: N runs wait.", late]
    assert re.sub(r"\d runs", "N runs", said).splitlines() == (lines if interval == 0 else lines[::-1])


def test_a_terminal_shows_of_a_traceback_its_last_place_and_none_twice(stand_in: StandIn) -> None:
    retry = {"status": "retrying", "why": RETRY, "attempts": [attempt(1)]}
    again = {**retry, "attempts": [attempt(1), attempt(2)]}
    log = [f"one\n{FAILED[:70]}", FAILED[70:], f"── start 2, {AT}04.010Z ──\n{FAILED}", "dots", " and an end\n"]
    stand_in(Waits(RUNNING, retry, again, RUNNING, DONE, logs=log))

    in_a_pipe = command("jobs", "run", J1, "--wait").stdout
    stand_in(Waits(RUNNING, retry, again, RUNNING, DONE, logs=log))
    with closing(Terminal("jobs", "run", J1, "--wait")) as terminal:
        assert terminal.ended() == 0
        shown = terminal.shown.splitlines()

    assert in_a_pipe.startswith(f"{''.join(log)}")
    assert shown[1:] == [  # after the address of a server that is not here
        "one",
        "Traceback (most recent call last):",
        "  … 16 more lines, see `oncue runs logs`",
        '  File "shop.py", line 8, in f8',
        "    f9()",
        "ValueError: no money",
        "attempt 1 failed, retry in 4 s: ValueError: no money",
        f"── start 2, {AT}04.010Z ──",
        "Traceback as before: ValueError: no money",
        "attempt 2 failed, retry in 4 s: ValueError: no money",
        "dots and an end",
        "Run 000000a1 succeeded.",
    ]


def test_waiting_for_a_queue_without_a_worker_on_a_terminal(oncue: Oncue) -> None:
    queue = f"q{uuid4().hex[:6]}"

    with closing(Terminal("enqueue", "hello", "--queue", queue, "--wait", "--timeout", "4s")) as terminal:
        assert terminal.ended() == 4
        shown = terminal.shown

    why = ["no_worker: No live worker with the task 'hello' takes runs from the queue",
           f"  '{queue}'. Start a worker with --tasks FILE.py --queues {queue}."]  # fmt: skip
    run_id = shown.split("Run ")[1].split()[0]
    assert shown.splitlines() == [
        *why,
        f"Run {run_id} is still queued after 4 s and",
        "  continues. Wait again or cancel it.",
    ]
    assert oncue("runs", "explain", run_id).stdout.splitlines()[0] == " ".join(line.strip() for line in why)


def test_waiting_through_a_retry_on_a_terminal(oncue: Oncue, tmp_path: Path) -> None:
    fails_once = 'if mkdir "$0" 2>/dev/null; then echo no money >&2; exit 7; fi; rmdir "$0"; echo paid'
    payload = json.dumps({"argv": ["sh", "-c", fails_once, str(tmp_path / "once")]})
    retry = ("--max-retries", "3", "--field", 'retry={"backoff": "3s", "jitter": 0}')

    with closing(Terminal("jobs", "create", "--task", "command", "--payload", payload, *retry, "--wait")) as terminal:
        assert terminal.ended() == 0
        shown = terminal.shown.splitlines()

    assert re.fullmatch(r"Created job \w{8} of task command\. Runs now\.", shown[0])
    [told] = [line for line in shown if line.startswith("attempt ")]
    assert told.startswith("attempt 1 failed, retry in 3 s: ")
    before, after = shown[: shown.index(told)], shown[shown.index(told) + 1 :]
    assert any("no money" in line for line in before)
    assert after[0].startswith("── start 2, ")
    assert re.fullmatch(r"Run \w{8} succeeded in \S+\.", after[-2])
