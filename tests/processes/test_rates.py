"""A rate over several workers: how many started when, as the tasks themselves wrote it down."""

from __future__ import annotations

import time
from bisect import bisect_left

import pytest
from tests.processes.fleet import Fleet, until

pytestmark = pytest.mark.kills

LIMIT = 10
RATE = {"limit": LIMIT, "per": "1s", "key": "calls"}
# Starts are given as instants that keep the limit exactly. From there to the first line of the task it takes a moment,
# and not always the same: so any stretch is allowed what two seconds more would hold. Twice as slow as the rate
# would be one that is not made use of.
TOLERANCE = 2.0
SLOWEST = 2


def most_within(starts: list[float], seconds: float) -> int:
    """The largest number of starts in any stretch of this length."""
    return max(bisect_left(starts, at + seconds) - number for number, at in enumerate(starts))


def test_three_workers_keep_one_rate_together_and_make_use_of_it(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.deploy("--concurrency", "5", workers=3)  # no single one could hold what the rate lets start
    runs = fleet.batch([{"task": "slow", "payload": {"seconds": 0.9}, "rate": RATE}] * 60)

    events = fleet.started(*runs)

    starts = sorted(event["at"] for event in events)
    took = starts[-1] - starts[0]
    print(f"60 in {took:.2f} s; most in 1 s: {most_within(starts, 1)}, in 2 s: {most_within(starts, 2)}")
    assert len({event["pids"][0] for event in events}) > 1
    assert most_within(starts, 1) <= LIMIT * (1 + TOLERANCE)
    assert most_within(starts, 2) <= LIMIT * (2 + TOLERANCE)
    assert took > 60 / LIMIT - 2  # a second's worth may start at once
    assert took < SLOWEST * 60 / LIMIT
    assert {run["status"] for run in fleet.at_rest(runs).values()} == {"succeeded"}
    assert len(fleet.events("start")) == 60


def test_a_backlog_that_waited_while_no_worker_was_there_does_not_start_in_one_bunch(postgres_fleet: Fleet) -> None:
    """The schedulers are there all the while."""
    fleet = postgres_fleet
    fleet.start("api")
    fleet.start("scheduler")
    workers = [fleet.start("worker", "--lease", "3s") for _ in range(3)]
    fleet.ready(workers=3)
    runs = fleet.batch([{"task": "mark", "rate": RATE}] * 80)
    until(lambda: len(fleet.events("start")) >= 5, "some have started", fleet.tell)
    for worker in workers:
        worker.kill()
    killed_at = time.time()
    until(lambda: time.time() > killed_at + 5, "five seconds have passed")
    assert len(fleet.events("start")) < 40, "there is hardly a backlog left"

    for _ in workers:
        fleet.start("worker", "--lease", "3s")
    back_at = time.time()

    starts = sorted(event["at"] for event in fleet.started(*runs) if event["at"] > back_at)
    took = starts[-1] - starts[0]
    print(f"{len(starts)} in {took:.2f} s; most in 1 s: {most_within(starts, 1)}, in 2 s: {most_within(starts, 2)}")
    assert most_within(starts, 1) <= LIMIT * (1 + TOLERANCE)
    assert most_within(starts, 2) <= LIMIT * (2 + TOLERANCE)
    assert took < SLOWEST * len(starts) / LIMIT
    assert {run["status"] for run in fleet.at_rest(runs).values()} == {"succeeded"}
