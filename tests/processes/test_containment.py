"""Runs that do harm: each is contained, its neighbours are not harmed, and the worker lives or is replaced."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.processes.fleet import Fleet, Json, alive, moment, until

from oncue.services.run_log import END
from oncue.settings import Settings

pytestmark = pytest.mark.kills

BRIEFLY: dict[str, Any] = {"timeout": "1s", "max_retries": 0}
LOG_CAP = Settings().max_log_bytes
MEMORY_MB = 300
STUBBORN = "trap '' TERM; while :; do sleep 3601; done"
LEASE = 15
COMMANDS = ("--allow-commands", "--processes", "4")


@contextmanager
def neighbours_on_time(fleet: Fleet) -> Iterator[None]:
    """While the block runs, a job fires every second: each time once, with success, and long before a lease is over."""
    job = fleet.create("mark", schedule="every 1s")
    slow = [fleet.create(task, {"seconds": 2}) for task in ("slow", "in_thread", "in_process")]
    fleet.started(*slow)
    yield
    until(lambda: len(starts_of(fleet, job)) > 2, "the job has fired a few times", fleet.tell)
    fleet.call("DELETE", f"/jobs/{job}")
    assert {run["status"] for run in fleet.at_rest(slow).values()} == {"succeeded"}
    assert [len(fleet.events("start", run)) for run in slow] == [1, 1, 1]
    status = {run["run_id"]: run["status"] for run in fleet.runs_of(job)}
    marks = starts_of(fleet, job)
    started = [event["run"] for event in marks]
    assert len(started) == len(set(started))
    assert {status[run] for run in started[:-1]} == {"succeeded"}  # the last one may have been stopped with its job
    assert {run for run in status if status[run] != "cancelled"} <= set(started)
    assert set(status.values()) <= {"succeeded", "cancelled"}
    assert all(0 <= event["at"] - event["due"] < LEASE / 2 for event in marks), marks


def fires(fleet: Fleet) -> list[Json]:
    """Starts of the job that fires every second."""
    return [event for event in fleet.events("start") if event["job"] != event["run"]]


def starts_of(fleet: Fleet, job: str) -> list[Json]:
    return [event for event in fleet.events("start") if event["job"] == job]


def timed_out(run: Json) -> bool:
    return run["status"] == "dead" and [attempt["outcome"] for attempt in run["attempts"]] == ["timed_out"]


# --------------------------------------------------------------------------------------------------- the worker is lost


@pytest.mark.parametrize("task", ["block_the_loop", "hold_the_gil"])
def test_a_run_that_stops_the_worker_past_its_lease_ends_up_alone_and_harms_nobody(fleet: Fleet, task: str) -> None:
    up = fleet.up("--lease", "2s")
    inner = up.inner
    bad = fleet.create(task, {"seconds": 5}, max_retries=0)
    fleet.started(bad)

    neighbours = [fleet.create("mark") for _ in range(5)]

    ended = fleet.at_rest([bad, *neighbours])
    assert {ended[run]["status"] for run in neighbours} == {"succeeded"}
    for run in neighbours:  # one that was cut off by the worker's end may have started before
        assert not any(alive(event["pids"][0]) for event in fleet.events("start", run)[:-1])
    assert ended[bad]["status"] == "succeeded"
    assert [attempt["outcome"] for attempt in ended[bad]["attempts"]] == ["lost", "lost", "succeeded"]
    workers = [event["pids"][0] for event in fleet.events("start", bad)]
    assert workers[0] == inner
    assert workers[2] != up.inner  # in a process of its own
    assert fleet.events("start", bad)[2]["pids"][3] == up.inner  # a worker that lives on
    assert not alive(workers[0])
    assert not alive(workers[1])


def test_threads_that_never_end_are_abandoned_and_too_many_make_way_for_a_fresh_worker(fleet: Fleet) -> None:
    up = fleet.up()
    inner = up.inner
    assert inner

    stuck = [fleet.create("never_end", **BRIEFLY) for _ in range(8)]

    assert all(map(timed_out, fleet.at_rest(stuck).values()))
    assert alive(inner)
    with neighbours_on_time(fleet):
        last = fleet.create("never_end", **BRIEFLY)  # with it there are more than `max_abandoned_threads`
        assert timed_out(fleet.at_rest([last])[last])
        until(lambda: not alive(inner), "the worker has drained", fleet.tell)
        until(lambda: up.inner, "another takes its place", fleet.tell)
    assert len(fleet.events("start", last)) == 1


# ----------------------------------------------------------------------------------------------------- the worker lives


def test_a_command_that_ignores_term_is_killed(fleet: Fleet) -> None:
    up = fleet.up(*COMMANDS)
    inner = up.inner
    with neighbours_on_time(fleet):
        stubborn = fleet.command(
            "/bin/sh", "-c", "trap '' TERM; while :; do sleep 3601; done", timeout="5s", max_retries=0
        )
        until(lambda: fleet.running("sleep 3601"), "it runs", fleet.tell)

        assert timed_out(fleet.at_rest([stubborn])[stubborn])

        assert fleet.running("sleep 3601") == []
    assert up.inner == inner


def test_grandchildren_in_sessions_of_their_own_end_with_their_run(fleet: Fleet) -> None:
    up = fleet.up(*COMMANDS)
    inner = up.inner
    with neighbours_on_time(fleet):
        runs = [
            fleet.command("/bin/sh", "-c", "(setsid sleep 3600 &); exec sleep 3600"),
            fleet.create("start_a_grandchild"),
        ]
        fleet.started(runs[1])
        until(lambda: len(fleet.running("sleep 3600")) >= 4, "they run", fleet.tell)
        for run in runs:
            fleet.call("POST", f"/runs/{run}/cancel")

        assert {run["status"] for run in fleet.at_rest(runs).values()} == {"cancelled"}

        assert fleet.running("sleep 3600") == []
    assert up.inner == inner


@pytest.mark.parametrize("how", ["print_for_ever", "print_for_ever_apart", "command"])
def test_endless_output_is_cut_and_disturbs_nobody(fleet: Fleet, how: str) -> None:
    up = fleet.up(*COMMANDS)
    inner = up.inner
    with neighbours_on_time(fleet):
        job = {"timeout": "4s", "max_retries": 0}
        run = fleet.command("yes", "and so on", **job) if how == "command" else fleet.create(how, **job)

        ended = fleet.at_rest([run])[run]
        assert timed_out(ended)
    assert any(moment(ended["start_time"]) < event["at"] < moment(ended["end_time"]) for event in fires(fleet)), (
        "nothing else was done while it spoke"
    )
    log = fleet.text(f"/runs/{run}/logs")
    assert LOG_CAP < len(log.encode()) < LOG_CAP + 2 * END, "a log that is cut, and its end"
    assert log.startswith("and so on")
    assert "the rest is left out" in log
    assert "this is the end of the log" in log
    assert fleet.running("yes and so on") == []
    assert up.inner == inner


def test_a_run_that_takes_all_memory_fails_at_its_limit(fleet: Fleet) -> None:
    up = fleet.up(*COMMANDS)
    inner = up.inner
    code = "taken = []\nwhile True: taken.append(bytearray(8 * 1024 * 1024)); print(8 * len(taken), flush=True)"
    job: Json = {"max_retries": 0, "resources": {"memory_mb": MEMORY_MB}}
    with neighbours_on_time(fleet):
        function, command = fleet.create("take_all_memory", **job), fleet.command(sys.executable, "-c", code, **job)

        ended = fleet.at_rest([function, command])

    assert (ended[function]["status"], ended[function]["error_type"]) == ("dead", "MemoryError")
    assert (ended[command]["status"], ended[command]["error_type"]) == ("dead", "ExitCode")
    assert "MemoryError" in ended[command]["error_message"]
    counted = fleet.text(f"/runs/{command}/logs").partition("Traceback")[0].split()
    taken = [fleet.events("full", function)[0]["megabytes"], int(counted[-1])]
    assert all(MEMORY_MB / 2 < megabytes < MEMORY_MB for megabytes in taken), taken
    assert up.inner == inner
