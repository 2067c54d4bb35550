"""A worker takes the queues that its tasks name, or says that it does not."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.processes.fleet import COMMAND, Fleet, Member, until

pytestmark = pytest.mark.kills

TASKS = """
import oncue

tasks = oncue.Tasks()


@tasks.task(queue="{queue}")
async def send() -> int:
    return 1


@tasks.task(schedule=oncue.every("1h"))
async def sums() -> int:
    return 2


sums.using(key="at-night", queue="night").declare(oncue.every("1h"))
"""
NOT_TAKEN = "queues mail (send), night (sums): write --queues default,mail,night"


@pytest.fixture
def file(fleet: Fleet) -> Path:
    file = fleet.folder / "code" / "tasks.py"
    file.parent.mkdir()
    file.write_text(TASKS.format(queue="mail"))
    return file


def said(member: Member, kind: str) -> list[dict[str, object]]:
    lines = [line for line in member.said.splitlines() if line.startswith("{")]
    return [line for line in map(msgspec.json.decode, lines) if line["kind"] == kind]


def succeeds(fleet: Fleet, run: str) -> None:
    until(lambda: fleet.run(run)["status"] == "succeeded", "it is taken", fleet.tell)


def test_up_takes_the_queues_of_its_tasks_and_of_their_schedules(fleet: Fleet, file: Path) -> None:
    member = fleet.start("up", tasks=file)
    fleet.ready(workers=1)

    succeeds(fleet, fleet.create("send"))
    night = fleet.call("GET", "/jobs/by-key/at-night")["job_id"]
    succeeds(fleet, fleet.call("POST", f"/jobs/{night}/runNow")["run_id"])
    [started] = said(member, "started")
    assert started["queues"] == ["default", "mail", "night"]
    assert said(member, "queues_not_taken") == []


@pytest.mark.parametrize("options", [("worker",), ("up", "--queues", "default")], ids=" ".join)
def test_a_worker_says_which_queues_of_its_tasks_it_does_not_take(
    fleet: Fleet, file: Path, options: tuple[str, ...]
) -> None:
    member = fleet.start(*options, tasks=file)
    until(lambda: said(member, "started"), "it starts", fleet.tell)
    [line] = until(lambda: said(member, "queues_not_taken"), "it says so", fleet.tell)

    assert NOT_TAKEN in str(line["note"])
    assert line["queues"] == ["mail", "night"]
    assert said(member, "started")[0]["queues"] == ["default"]


def test_a_reload_takes_the_queues_of_the_new_code(fleet: Fleet, file: Path) -> None:
    member = fleet.start("dev", "--tasks", str(file), "--port", str(fleet.port))
    fleet.ready(workers=1)
    succeeds(fleet, fleet.create("send"))

    file.write_text(TASKS.format(queue="post"))
    until(lambda: "tasks and takes the queues default, post, night" in member.said, "it says so", fleet.tell)

    def in_the_new_queue() -> str:
        """The id of a job, once there is one: the API trusts what it has read of tasks for half a second."""
        job = fleet.call("POST", "/jobs", {"task": "send"})
        return str(job["job_id"]) if job["queue"] == "post" else ""

    succeeds(fleet, until(in_the_new_queue, "the API knows the new queue", fleet.tell))


def test_the_banner_lists_the_queues_and_those_that_are_not_taken(fleet: Fleet, file: Path) -> None:
    of_up = banner(fleet, "up", "--port", "0", "--tasks", str(file))
    of_worker = banner(fleet, "worker", "--tasks", str(file))

    assert re.search(r"tasks +send, sums, http .*queues +default, mail, night\n", of_up)
    assert "does not take" not in of_up
    assert re.search(rf"queues +default\n  note +this worker does not take the {re.escape(NOT_TAKEN)}\n", of_worker)
    assert "no tasks of your own" not in of_up + of_worker


@pytest.mark.parametrize("role", ["dev", "scheduler"])
def test_the_banner_says_that_no_tasks_were_given(fleet: Fleet, role: str) -> None:
    shown = banner(fleet, role, *(["--port", "0"] if role == "dev" else []))

    note = re.search(r"tasks +http, notify .*\n  note +no tasks of your own: write --tasks tasks.py\n", shown)
    assert bool(note) is (role == "dev")
    assert ("no tasks of your own" in shown) is (role == "dev")


def banner(fleet: Fleet, *command: str) -> str:
    """What it prints on a terminal, up to the last line of its banner."""
    ours, theirs = pty.openpty()
    argv = [*COMMAND, *command, "--engine", fleet.engine, "--data-dir", str(fleet.folder)]
    process = subprocess.Popen(argv, stdout=theirs, stderr=subprocess.DEVNULL, cwd=fleet.folder)
    os.close(theirs)
    try:
        seen = ""
        while "oncue --help" not in seen:
            assert select.select([ours], [], [], 60)[0], seen
            seen += os.read(ours, 65536).decode()
        return seen.replace("\r\n", "\n")
    finally:
        process.terminate()
        process.wait(60)
        os.close(ours)
