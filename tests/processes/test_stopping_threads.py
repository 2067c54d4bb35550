"""Threads that take their time to stop, or never do: what must not run beside them does not start before they end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from math import inf
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.processes.fleet import LONG, Fleet, Json, until

pytestmark = pytest.mark.kills

PAIRS = 100 if LONG else 3  # of each kind: a run or an attempt that is told to stop, and the one after it
AT_ONCE = 10 if LONG else 1  # jobs with a schedule, groups, and concurrency keys
LEFT_BEHIND = "its function did not stop and was left behind"
OPTIONS = ("--lease", "5s", "--threads", "100", "--max-abandoned-threads", "100")


def replaced(fleet: Fleet) -> None:
    """Each occurrence of a schedule takes the place of the one before."""
    start = {"every": "2s" if LONG else "1s", "max_runs": PAIRS // AT_ONCE + 1}
    for n in range(AT_ONCE):
        fleet.create("tidy_up", {"lane": f"replace {n}"}, schedule=start, overlap="replace")


def in_groups(fleet: Fleet) -> None:
    for n in range(AT_ONCE):
        job = {"task": "tidy_up", "payload": {"lane": f"group {n}"}, "group": f"g{n}"}
        fleet.batch([job] * (PAIRS // AT_ONCE + 1))


def behind_keys(fleet: Fleet) -> None:
    for n in range(AT_ONCE):
        job = {"task": "tidy_up", "payload": {"lane": f"concurrency {n}"}, "concurrency": {"key": f"k{n}", "limit": 1}}
        fleet.batch([job] * (PAIRS // AT_ONCE + 1))


def timed_out(fleet: Fleet) -> None:
    often = {"timeout": "500ms", "max_retries": 2, "retry": {"backoff": "10ms", "jitter": 0}}
    many = -(-PAIRS // 2)
    fleet.batch([{"task": "tidy_up", "payload": {"lane": f"timeout {n}"}, **often} for n in range(many)])


@contextmanager
def cancelling(fleet: Fleet, *kinds: str) -> Iterator[None]:
    """Cancel each run of these kinds as soon as it has started."""
    enough, seen = Event(), set[str]()

    def watch() -> None:
        with ThreadPoolExecutor(2 * AT_ONCE) as callers:
            while not enough.wait(0.02):
                for start in fleet.events("start"):
                    if start["run"] not in seen and start["lane"].startswith(kinds):
                        seen.add(start["run"])
                        callers.submit(fleet.raw, "POST", f"/v1/runs/{start['run']}/cancel")

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        enough.set()
        watcher.join()


def pairs_of(fleet: Fleet, kind: str) -> tuple[int, list[tuple[Json, Json]]]:
    """How many times something was to start after something else of its lane, and where it did so before the end."""
    lanes: dict[str, list[Json]] = {}
    for start in fleet.events("start"):
        if start["lane"].startswith(kind):
            lanes.setdefault(start["lane"], []).append(start)
    ends = {(end["run"], end["attempt"]): end["at"] for end in fleet.events("end")}
    followed = [pair for starts in lanes.values() for pair in pairwise(sorted(starts, key=lambda one: one["at"]))]
    early = [(one, other) for one, other in followed if other["at"] < ends.get((one["run"], one["attempt"]), inf)]
    return len(followed), early


STORIES: dict[str, Callable[[Fleet], None]] = {
    "replace": replaced,
    "group": in_groups,
    "concurrency": behind_keys,
    "timeout": timed_out,
}


def test_what_must_not_run_beside_a_thread_starts_when_it_has_ended(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.deploy(*OPTIONS)
    with cancelling(fleet, "group", "concurrency"):
        for make in STORIES.values():
            make(fleet)
        until(lambda: all(pairs_of(fleet, kind)[0] >= PAIRS for kind in STORIES), "so many pairs", fleet.tell, 120)

    overlaps = {kind: pairs_of(fleet, kind) for kind in STORIES}
    for kind, (pairs, early) in overlaps.items():
        print(f"{kind}: {len(early)} overlaps of {pairs} pairs")
    assert [early for _, early in overlaps.values()] == [[]] * len(STORIES)


def explained(fleet: Fleet, run: str) -> str:
    detail: str = fleet.call("GET", f"/runs/{run}/explain")["detail"]
    return detail


def cancelled_while_it_stays(fleet: Fleet, gate: Path, **job: str) -> str:
    """A run that was cancelled, of a thread that goes on until the gate is opened."""
    run = fleet.create("gated_in_thread", {"gate": str(gate)}, **job)
    fleet.started(run)
    fleet.call("POST", f"/runs/{run}/cancel")
    return run


def test_a_group_waits_for_a_thread_that_never_stops_and_is_told_why_unless_its_job_says_otherwise(
    any_fleet: Fleet,
) -> None:
    fleet, gate = any_fleet, any_fleet.folder / "gate"
    fleet.deploy(*OPTIONS)
    stuck = cancelled_while_it_stays(fleet, gate, group="waits")
    waiting = fleet.create("mark", group="waits")
    released = cancelled_while_it_stays(fleet, gate, group="goes on", on_left_behind="release")
    going_on = fleet.create("mark", group="goes on")

    fleet.started(going_on)
    [attempt] = fleet.at_rest([released])[released]["attempts"]
    assert (attempt["outcome"], attempt["error_message"]) == ("cancelled", LEFT_BEHIND)
    until(lambda: "does not stop" in explained(fleet, waiting), "its wait is explained", fleet.tell)
    told = explained(fleet, waiting)
    assert told.startswith(f"The group 'waits' runs one run at a time. Blocked by run {stuck}: it was cancelled ")
    assert "restart worker" in told
    assert "does not stop" in explained(fleet, stuck)
    assert fleet.run(stuck)["status"] == "cancelling"
    assert "the function does not stop" in fleet.text(f"/runs/{stuck}/logs")
    assert fleet.events("start", waiting) == []

    gate.touch()
    [attempt] = fleet.at_rest([stuck, waiting])[stuck]["attempts"]
    assert (attempt["outcome"], attempt["error_message"]) == ("cancelled", LEFT_BEHIND)
    [start], [end] = fleet.events("start", waiting), fleet.events("end", stuck)
    assert start["at"] > end["at"]


def test_a_group_goes_on_when_the_process_of_a_thread_that_never_stops_is_gone(any_fleet: Fleet) -> None:
    fleet, gate = any_fleet, any_fleet.folder / "gate"
    fleet.start("api")
    fleet.start("scheduler")
    first = fleet.start("worker", "--shutdown-grace", "10m", *OPTIONS)
    fleet.ready(workers=1)
    stuck = fleet.create("gated_in_thread", {"gate": str(gate)}, group="g", timeout="500ms", max_retries=0)
    waiting = fleet.create("mark", group="g")
    fleet.started(stuck)
    until(lambda: "does not stop" in fleet.text(f"/runs/{stuck}/logs"), "it is left behind", fleet.tell)
    fleet.start("worker", *OPTIONS)
    fleet.ready(workers=2)

    asked_at = time.monotonic()
    first.send(signal.SIGTERM)
    assert first.ended() == 0
    assert time.monotonic() - asked_at < 30  # nobody waits for it for the ten minutes of the grace

    ended = fleet.at_rest([stuck, waiting])
    [attempt] = ended[stuck]["attempts"]
    assert (ended[stuck]["status"], attempt["outcome"]) == ("dead", "timed_out")
    assert attempt["error_message"].endswith(LEFT_BEHIND)
    assert fleet.events("start", waiting)[0]["at"] > fleet.events("still there", stuck)[-1]["at"]
