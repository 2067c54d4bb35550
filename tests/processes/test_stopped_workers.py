"""Workers that are stopped (SIGSTOP, a machine asleep) for longer than their lease, and wake up again."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest
from tests.processes.fleet import Fleet, Member, alive, moment, until

pytestmark = pytest.mark.kills

LEASE = 5.0
OPTIONS = ("--lease", "5s")


def two_workers_and_a_run(fleet: Fleet) -> tuple[Member, Member, str]:
    """The first worker has a run going that would take a second; started again, it lasts until the gate is opened."""
    fleet.start("api")
    fleet.start("scheduler")
    first = fleet.start("worker", *OPTIONS)
    fleet.ready(workers=1)
    run = fleet.create("relay", {"lengths": [1.5, 0], "gate": str(gate_of(fleet))})
    [start] = fleet.started(run)
    assert start["pids"][0] == first.inner
    return first, fleet.start("worker", *OPTIONS), run


def gate_of(fleet: Fleet) -> Path:
    return fleet.folder / "gate"


def ids_of_workers(fleet: Fleet) -> set[str]:
    return {worker["worker_id"] for worker in fleet.workers()}


def test_a_worker_that_sleeps_past_its_lease_finds_its_run_taken_and_its_result_refused(any_fleet: Fleet) -> None:
    first, second, run = two_workers_and_a_run(any_fleet)
    inner = first.inner
    assert inner
    was = any_fleet.run(run)["executor_id"]
    for pid in (first.pid, inner):
        os.kill(pid, signal.SIGSTOP)
    until(lambda: len(any_fleet.events("start", run)) == 2, "the run starts again", any_fleet.tell)
    taken_by = second.inner

    os.kill(inner, signal.SIGCONT)  # first without its keeper, who would end it: it does what harm it can
    until(lambda: not alive(inner), "the one taken for dead has ended", any_fleet.tell)
    os.kill(first.pid, signal.SIGCONT)

    assert any_fleet.run(run)["status"] == "running"  # still the second's, whatever the first has said
    gate_of(any_fleet).touch()
    ended = any_fleet.at_rest([run])[run]
    assert ended["status"] == "succeeded"
    assert ended["result"] == {"pid": taken_by, "attempt": 2}
    assert [attempt["outcome"] for attempt in ended["attempts"]] == ["lost", "succeeded"]
    until(lambda: len(any_fleet.workers()) == 2, "the first worker is back", any_fleet.tell)
    assert was not in ids_of_workers(any_fleet)
    assert first.process.poll() is None
    assert len(any_fleet.events("start", run)) == 2


def test_a_worker_whose_keeper_is_stopped_ends_itself_before_its_run_starts_elsewhere(postgres_fleet: Fleet) -> None:
    fleet = postgres_fleet
    first, second, run = two_workers_and_a_run_that_lasts(fleet)
    inner = first.inner
    assert inner
    os.kill(first.pid, signal.SIGSTOP)

    until(lambda: not alive(inner), "the inner process has ended by itself", fleet.tell)
    ended_at = time.time()

    until(lambda: len(fleet.events("start", run)) == 2, "the run starts again", fleet.tell)
    again = fleet.events("start", run)[1]
    assert again["at"] > ended_at
    assert again["pids"][0] == second.inner
    os.kill(first.pid, signal.SIGCONT)
    until(lambda: first.inner not in (None, inner), "its keeper starts another", fleet.tell)
    until(lambda: len(fleet.workers()) == 2, "which is registered", fleet.tell)


def test_a_worker_whose_inner_process_is_stopped_is_ended_by_its_keeper_and_replaced(postgres_fleet: Fleet) -> None:
    fleet = postgres_fleet
    first, _, run = two_workers_and_a_run_that_lasts(fleet)
    inner = first.inner
    assert inner
    stopped_at = time.time()
    os.kill(inner, signal.SIGSTOP)

    until(lambda: not alive(inner), "the keeper has ended it", fleet.tell)

    assert fleet.events("start", run)[-1]["attempt"] == 1  # as long as it was vouched for, nobody took its run
    until(lambda: len(fleet.events("start", run)) == 2, "the run starts again", fleet.tell)
    assert fleet.events("start", run)[1]["at"] > stopped_at + 0.9 * LEASE
    until(lambda: first.inner not in (None, inner), "its keeper starts another", fleet.tell)
    assert first.process.poll() is None


def test_a_worker_that_waits_for_the_store_to_register_does_not_outlive_its_lease(fleet: Fleet) -> None:
    """The lease counts from the instant that is stored, and not from when the store has answered."""
    fleet.up()
    worker = fleet.start("worker", *OPTIONS)
    inner = until(lambda: worker.inner, "its process has been started", fleet.tell)
    with (fleet.folder / "oncue.db.lock").open("r+b") as store:
        fcntl.flock(store, fcntl.LOCK_EX)
        in_line = waits_for_the_store
        until(lambda: in_line(inner) and not in_line(worker.pid), "it waits for the store", fleet.tell)
        os.kill(worker.pid, signal.SIGSTOP)  # nobody sends heartbeats for it
        time.sleep(0.5 * LEASE)  # the length of the wait is what is tested
    seen = until(lambda: [one for one in fleet.workers() if one["lease"] == "5s"], "it is registered", fleet.tell)
    until(lambda: not alive(inner), "it has ended by itself", fleet.tell)
    ended_at = time.time()

    os.kill(worker.pid, signal.SIGCONT)
    assert ended_at < moment(seen[0]["seen_at"]) + LEASE


def two_workers_and_a_run_that_lasts(fleet: Fleet) -> tuple[Member, Member, str]:
    fleet.start("api")
    fleet.start("scheduler")
    first = fleet.start("worker", *OPTIONS)
    fleet.ready(workers=1)
    run = fleet.create("slow", {"seconds": 60})
    fleet.started(run)
    second = fleet.start("worker", *OPTIONS)
    fleet.ready(workers=2)
    return first, second, run


def waits_for_the_store(pid: int) -> bool:
    """Whether the process stands in line for a lock on a file."""
    return any("->" in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())
