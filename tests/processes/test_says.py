"""What a real `oncue up` says: on a terminal a banner, elsewhere lines of JSON, and a secret in none of them."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.processes.fleet import ONCUE, TASKS, Fleet, Json, until

from oncue.domain.keys import make_key

pytestmark = pytest.mark.kills

SECRET = "hunter2-do-not-tell"
FOREIGN_KEY = make_key(b"k" * 32)
ADDRESS = f"http://127.0.0.1:9/{SECRET}?token={SECRET}"
FAILING: dict[str, Json] = {
    "leaks": {"secret": SECRET},
    "kills_its_worker": {"secret": SECRET},
    "http": {"url": ADDRESS, "headers": {"X-Token": SECRET}},
}
SAID = {
    *("started", "attempt_failed", "run_dead", "worker_restarted", "library", "request", "key_refused"),
    *("stopping", "drained", "stopped"),
}


def lines_of(file: Path) -> list[Json]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_no_line_has_a_secret_in_it(fleet: Fleet) -> None:
    file = fleet.folder / "stderr.jsonl"
    with file.open("wb") as stderr:
        options = ("--access-log", "--http-allow", "127.0.0.1/32")
        tasks = Path(__file__).with_name("secretive_tasks.py")
        member = fleet.start("up", *options, tasks=tasks, stderr=stderr.fileno())
    fleet.ready(workers=1)
    fleet.at_rest([fleet.create("leaves_an_error", {"secret": SECRET})])  # before its worker is killed
    runs = [fleet.create(task, given, max_retries=1, retry={"backoff": "100ms"}) for task, given in FAILING.items()]
    ask_with_secrets(fleet)
    ended = fleet.at_rest(runs)
    member.send(signal.SIGTERM)

    assert member.ended() == 0
    said = file.read_text()
    assert {line["kind"] for line in lines_of(file)} >= SAID
    assert all(line["event"] and line["level"] for line in lines_of(file))
    assert SECRET in str(ended[runs[0]]["attempts"]), "it was there to be told"
    assert SECRET not in said
    assert FOREIGN_KEY not in said
    assert fleet.key not in said


def ask_with_secrets(fleet: Fleet) -> None:
    """With a secret in the query, in the path, in the body, and with a key that is not valid."""
    assert fleet.raw("GET", f"/v1/jobs?token={SECRET}")[0] == 422
    with_password = {"url": f"http://ada:{SECRET}@127.0.0.1/"}
    for task, payload in (("leaks", {"other": SECRET}), ("http", with_password)):
        assert fleet.raw("POST", "/v1/jobs", {"task": task, "payload": payload})[0] == 422
    stranger = Fleet(fleet.folder)
    stranger.port, stranger._key = fleet.port, FOREIGN_KEY
    assert stranger.raw("GET", f"/v1/jobs?token={SECRET}")[0] == 401


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_nor_has_what_is_said_when_the_database_is_unavailable(role: str, tmp_path: Path) -> None:
    engine = f"postgresql://ada:{SECRET}@127.0.0.1:9/x?application_name={SECRET}"

    refused = subprocess.run(
        [ONCUE, role, "--data-dir", tmp_path],
        env={**os.environ, "ONCUE_ENGINE": engine},
        capture_output=True,
        text=True,
    )

    assert refused.returncode == 1
    assert "127.0.0.1:9" in refused.stderr
    assert SECRET not in refused.stdout + refused.stderr


def test_on_a_terminal_it_shows_what_it_has_started(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    argv = [ONCUE, "up", "--tasks", TASKS, "--data-dir", tmp_path / "data", "--port", "0"]
    process = subprocess.Popen(argv, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = read_until(ours, "oncue --help")
    shown += "" if "oc_" in shown else read_until(ours, "oc_")
    process.send_signal(signal.SIGINT)
    rest = read_until(ours, "Stopped")
    assert process.wait(30) == 0
    os.close(ours)

    [first] = [line for line in shown.splitlines() if line.startswith("oncue ")]
    assert "http://127.0.0.1:" in first
    assert f"key in {tmp_path}/data/admin.key" in first
    assert f"database  sqlite {tmp_path}/data/oncue.db, schema" in shown
    assert "tasks     mark, slow, relay (" in shown
    assert "slots     1000 async, 32 threads, " in shown
    assert "metrics   /metrics                            traces  off" in shown
    assert "listens at" not in shown
    assert f"The admin key, shown only once and kept in {tmp_path}/data/admin.key:" in shown
    assert f"  {(tmp_path / 'data' / 'admin.key').read_text().strip()}" in shown + rest
    assert "admin_key_created" not in shown + rest
    for kind in ("stopping", "drained", "stopped"):
        assert kind in rest


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_elsewhere_it_tells_where_the_admin_key_is_and_not_the_key(form: list[str], tmp_path: Path) -> None:
    """A file, a pipe and a journal keep what is printed."""
    argv = [ONCUE, "up", "--tasks", TASKS, "--data-dir", tmp_path / "data", "--port", "0", *form]
    log = tmp_path / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True)
    until(
        lambda: '"admin_key_created"' in log.read_text() or process.poll() is not None, "it has started", log.read_text
    )
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)

    file = tmp_path / "data" / "admin.key"
    key = file.read_text().strip()
    assert str(file) in shown
    assert key not in shown + log.read_text()
    assert [line["file"] for line in lines_of(log) if line["kind"] == "admin_key_created"] == [str(file)]


def read_until(terminal: int, word: str) -> str:
    shown, end = "", time.monotonic() + 60
    while word not in shown:
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 10_000).decode()
    return shown
