"""kill -9 of whoever started it: nothing that a run started lives on."""

from __future__ import annotations

import os
import signal

import pytest
from tests.processes.fleet import Fleet, Member, alive, until

pytestmark = pytest.mark.kills

OPTIONS = ("--allow-commands", "--processes", "4", "--shutdown-grace", "1s")


def with_children_running(fleet: Fleet) -> list[int]:
    """A command and a process-isolated run, each with a grandchild in a session of its own. All of their processes."""
    command = fleet.command("/bin/sh", "-c", "(setsid sleep 3600 &); exec sleep 3600")
    apart = fleet.create("start_a_grandchild")
    fleet.started(apart)
    until(lambda: len(fleet.running("sleep 3600")) >= 4, "the command has its grandchild", fleet.tell)
    assert fleet.run(command)["status"] == "running"
    of_runs = [*fleet.running("sleep 3600"), *fleet.running("warden.py"), *fleet.running("executors.template")]
    sleeping = [pid for pid in fleet.running("sleep 3600") if "warden" not in fleet.processes()[pid]]
    assert len({os.getsid(pid) for pid in sleeping}) == 3
    return of_runs


def all_gone(fleet: Fleet, pids: list[int]) -> None:
    until(lambda: not any(map(alive, pids)), "they are gone", lambda: f"{fleet.processes()}\n{fleet.tell()}")


def test_up_killed_takes_everything_along(fleet: Fleet) -> None:
    up = fleet.up(*OPTIONS)
    with_children_running(fleet)

    up.kill()

    until(lambda: fleet.processes() == {}, "nothing is left", lambda: str(fleet.processes()))


def roles_apart(fleet: Fleet) -> Member:
    fleet.start("api")
    worker = fleet.start("worker", *OPTIONS)
    fleet.ready(workers=1)
    return worker


def test_a_worker_killed_takes_everything_along(fleet: Fleet) -> None:
    worker = roles_apart(fleet)
    inner = worker.inner
    assert inner
    children = with_children_running(fleet)

    worker.kill()

    all_gone(fleet, [inner, *children])


def test_a_worker_whose_inner_process_is_killed_keeps_none_of_its_children(fleet: Fleet) -> None:
    worker = roles_apart(fleet)
    inner = worker.inner
    assert inner
    children = with_children_running(fleet)

    os.kill(inner, signal.SIGKILL)

    all_gone(fleet, [inner, *children])
    assert worker.process.poll() is None
    until(lambda: worker.inner not in (None, inner), "another inner process is there", fleet.tell)


def test_what_a_thread_task_has_left_ends_with_a_worker_that_is_told_to_stop(fleet: Fleet) -> None:
    worker = roles_apart(fleet)
    fleet.at_rest([fleet.create("leave_a_sleeper")])
    (sleeper,) = fleet.running("sleep 3600")
    where = fleet.command("pwd")
    assert fleet.at_rest([where])[where]["result"]["output"] == f"{fleet.folder}\n"  # and not where that task went

    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    all_gone(fleet, [sleeper])


def test_what_a_thread_task_has_left_in_its_group_ends_with_a_worker_process_that_is_killed(fleet: Fleet) -> None:
    inner = roles_apart(fleet).inner
    assert inner
    fleet.at_rest([fleet.create("leave_a_sleeper", {"session": False})])
    (sleeper,) = fleet.running("sleep 3600")

    os.kill(inner, signal.SIGKILL)
    all_gone(fleet, [sleeper])


def test_a_thread_task_that_forks_and_returns_twice_ends_once_and_its_copy_goes(fleet: Fleet) -> None:
    up = fleet.up()
    run = fleet.create("fork_and_return", max_retries=0)

    assert fleet.at_rest([run])[run]["result"] == up.inner
    until(lambda: len(fleet.events("end", run)) == 2, "both have returned", fleet.tell)
    (copy,) = [event["pids"][0] for event in fleet.events("end", run) if event["copy"]]
    all_gone(fleet, [copy])
    neighbour = fleet.create("mark")
    assert fleet.at_rest([neighbour])[neighbour]["status"] == "succeeded"
    assert up.inner == fleet.run(run)["result"]
