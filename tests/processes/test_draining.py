"""SIGTERM to a worker under load: what can finish does, the rest is handed back unspent and finishes elsewhere."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from tests.processes.fleet import Fleet, Json, Member, until

pytestmark = pytest.mark.kills

GRACE = 3.0
TO_STOP = 4.0  # beyond the grace, for runs that do not stop by themselves
OPTIONS = ("--lease", "5s", "--processes", "16", "--allow-commands")
SHORT, LONG = 2.5, 10.0


def of_every_kind(fleet: Fleet, seconds: float) -> list[str]:
    """Runs in the loop, in threads, in processes of their own, and commands."""
    kinds = [fleet.create(task, {"seconds": seconds}) for task in ("slow", "in_thread", "in_process") for _ in range(3)]
    return [*kinds, *(fleet.command("sleep", str(seconds)) for _ in range(3))]


def first_of_two_workers(fleet: Fleet, grace: str, seconds: list[float]) -> tuple[Member, list[list[str]]]:
    """A worker that has runs of all these lengths going, and another beside it that has none yet."""
    fleet.start("api")
    fleet.start("scheduler")
    first = fleet.start("worker", "--grace", grace, *OPTIONS)
    fleet.ready(workers=1)
    runs = [of_every_kind(fleet, length) for length in seconds]
    fleet.started(*(run for group in runs for run in group[:9]))
    fleet.start("worker", "--grace", grace, *OPTIONS)
    fleet.ready(workers=2)
    return first, runs


@contextmanager
def under_load(fleet: Fleet) -> Iterator[list[str]]:
    """Small jobs all the while; the ids of those that were acknowledged."""
    ids: list[str] = []
    enough = Event()

    def create() -> None:
        while not enough.wait(0.02):
            ids.append(fleet.create("mark"))

    loader = Thread(target=create)
    loader.start()
    try:
        yield ids
    finally:
        enough.set()
        loader.join()


def nothing_was_spent(run: Json) -> bool:
    return run["status"] == "succeeded" and [(a["number"], a["outcome"]) for a in run["attempts"]] == [(1, "succeeded")]


def starts(fleet: Fleet, run_ids: list[str]) -> list[int]:
    return [len(fleet.events("start", run_id)) for run_id in run_ids]


def lives_twice(fleet: Fleet, run: str) -> bool:
    """It started elsewhere while the thread that could not be stopped was still at it."""
    first, second = fleet.events("start", run)
    return any(
        event["at"] > second["at"] for event in fleet.events("still there", run) if event["pids"] == first["pids"]
    )


def test_a_worker_told_to_stop_finishes_what_it_can_and_hands_back_the_rest(any_fleet: Fleet) -> None:
    fleet = any_fleet
    first, [long, short] = first_of_two_workers(fleet, "3s", [LONG, SHORT])
    told = fleet.run(long[0])["executor_id"]
    with under_load(fleet) as small:
        first.send(signal.SIGTERM)
        told_at = time.monotonic()

        assert first.ended(within=GRACE + TO_STOP) == 0

        took = time.monotonic() - told_at
    assert GRACE < took < GRACE + TO_STOP
    ended = fleet.at_rest([*short, *long, *small], 30)
    assert all(nothing_was_spent(run) for run in ended.values()), [
        r for r in ended.values() if not nothing_was_spent(r)
    ]
    assert {ended[run]["executor_id"] for run in short} == {told}
    assert told not in {ended[run]["executor_id"] for run in long}
    assert starts(fleet, short[:9]) == [1] * 9
    assert starts(fleet, long[:9]) == [2] * 9
    assert [run for run in long[3:6] if lives_twice(fleet, run)] == []
    assert len(small) > 30
    assert starts(fleet, small) == [1] * len(small)


def test_a_worker_told_twice_stops_at_once_and_hands_back_all_the_same(any_fleet: Fleet) -> None:
    fleet = any_fleet
    first, [runs] = first_of_two_workers(fleet, "20s", [8.0])
    told = fleet.run(runs[0])["executor_id"]
    first.send(signal.SIGTERM)
    until(lambda: any(worker["draining"] for worker in fleet.workers()), 3, "it drains", fleet.tell)
    told_at = time.monotonic()
    first.send(signal.SIGTERM)

    assert first.ended(within=3) == 0

    assert time.monotonic() - told_at < 3
    ended = fleet.at_rest(runs, 20)
    assert [run for run in ended.values() if not nothing_was_spent(run)] == []
    assert told not in {run["executor_id"] for run in ended.values()}
    assert starts(fleet, runs[:9]) == [2] * 9
    assert [run for run in runs[3:6] if lives_twice(fleet, run)] == []


def test_an_idle_worker_told_to_stop_is_gone_at_once(fleet: Fleet) -> None:
    up = fleet.up()
    up.send(signal.SIGTERM)

    assert up.ended(within=3) == 0

    assert fleet.processes() == {}
