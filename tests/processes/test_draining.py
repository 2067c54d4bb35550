"""SIGTERM to a worker under load: what can finish does, the rest is handed back unspent and finishes elsewhere."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.processes.fleet import Fleet, Json, Member, until

pytestmark = pytest.mark.kills

GRACE = 5.0
LONG_GRACE = "10m"  # whoever waits for its end is seen not to stop at once
OPTIONS = ("--lease", "5s", "--processes", "16", "--allow-commands")
KINDS = ("gated", "gated_in_thread", "gated_in_process")
WAIT = ("/bin/sh", "-c", 'until [ -e "$0" ]; do sleep 0.1; done')


def of_every_kind(fleet: Fleet, gate: Path) -> list[str]:
    """Runs in the loop, in threads, in processes of their own, and commands. They last until the gate is opened."""
    kinds = [fleet.create(task, {"gate": str(gate)}) for task in KINDS for _ in range(3)]
    return [*kinds, *(fleet.command(*WAIT, str(gate)) for _ in range(3))]


def first_of_two_workers(fleet: Fleet, grace: str, gates: list[Path]) -> tuple[Member, list[list[str]]]:
    """A worker that has runs behind all these gates going, and another beside it that has none yet."""
    fleet.start("api")
    fleet.start("scheduler")
    first = fleet.start("worker", "--shutdown-grace", grace, *OPTIONS)
    fleet.ready(workers=1)
    runs = [of_every_kind(fleet, gate) for gate in gates]
    fleet.started(*(run for group in runs for run in group[:9]))
    fleet.start("worker", "--shutdown-grace", grace, *OPTIONS)
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


def drains(fleet: Fleet) -> None:
    until(lambda: any(worker["draining"] for worker in fleet.workers()), "it drains", fleet.tell)


def test_a_worker_told_to_stop_finishes_what_it_can_and_hands_back_the_rest(postgres_fleet: Fleet) -> None:
    """The long ones would last for ever: that it ends at all shows that it does not wait for them."""
    fleet = postgres_fleet
    gates = [fleet.folder / "long", fleet.folder / "short"]
    first, [long, short] = first_of_two_workers(fleet, f"{GRACE:.0f}s", gates)
    told = fleet.run(long[0])["executor_id"]
    with under_load(fleet) as small:
        first.send(signal.SIGTERM)
        told_at = time.monotonic()
        drains(fleet)
        gates[1].touch()

        assert first.ended() == 0

        took = time.monotonic() - told_at
        until(lambda: len(small) > 30, "there is load", fleet.tell)
    assert took > GRACE
    gates[0].touch()
    ended = fleet.at_rest([*short, *long, *small])
    assert all(nothing_was_spent(run) for run in ended.values()), [
        r for r in ended.values() if not nothing_was_spent(r)
    ]
    assert {ended[run]["executor_id"] for run in short} == {told}
    assert told not in {ended[run]["executor_id"] for run in long}
    assert starts(fleet, short[:9]) == [1] * 9
    assert starts(fleet, long[:9]) == [2] * 9
    assert [run for run in long[3:6] if lives_twice(fleet, run)] == []
    assert starts(fleet, small) == [1] * len(small)


def test_a_worker_told_twice_stops_at_once_and_hands_back_all_the_same(fleet: Fleet) -> None:
    gate = fleet.folder / "gate"
    first, [runs] = first_of_two_workers(fleet, LONG_GRACE, [gate])
    told = fleet.run(runs[0])["executor_id"]
    first.send(signal.SIGTERM)
    drains(fleet)
    first.send(signal.SIGTERM)

    assert first.ended() == 0

    said = [json.loads(line) for line in first.said.splitlines() if '"waiting_for_runs"' in line]
    assert [(len(line["runs"]), line["active"] > 5, "hint" in line) for line in said[:1]] == [(5, True, False)]
    gate.touch()
    ended = fleet.at_rest(runs)
    assert [run for run in ended.values() if not nothing_was_spent(run)] == []
    assert told not in {run["executor_id"] for run in ended.values()}
    assert starts(fleet, runs[:9]) == [2] * 9
    assert [run for run in runs[3:6] if lives_twice(fleet, run)] == []


def test_an_idle_worker_told_to_stop_is_gone_at_once(fleet: Fleet) -> None:
    up = fleet.up("--shutdown-grace", LONG_GRACE)
    up.send(signal.SIGTERM)

    assert up.ended() == 0

    assert fleet.processes() == {}


def test_a_function_that_swallows_its_cancel_does_not_hold_up_its_worker(fleet: Fleet) -> None:
    """Its process ended only when it was killed, a lease later: longer than what starts and stops services waits."""
    tasks = fleet.folder / "deaf.py"
    tasks.write_text(
        "import asyncio\nfrom contextlib import suppress\nfrom oncue import Tasks\ntasks = Tasks()\n"
        "@tasks.task\nasync def deaf() -> None:\n"
        "    while True:\n        with suppress(asyncio.CancelledError):\n            await asyncio.sleep(60)\n"
    )
    up = fleet.start("up", "--lease", "30s", "--shutdown-grace", "1s", tasks=tasks)
    fleet.ready(workers=1)
    run = fleet.create("deaf")
    until(lambda: fleet.run(run)["status"] == "running", "it runs", fleet.tell)
    up.send(signal.SIGTERM)

    assert up.ended() == 0

    kinds = {json.loads(line)["kind"] for line in up.said.splitlines() if line.startswith("{")}
    assert kinds >= {"drained", "stopped"}
    assert not kinds & {"worker_stuck", "worker_killed"}
    fleet.start("up", tasks=tasks)
    fleet.ready(workers=1)
    until(lambda: fleet.run(run)["status"] == "running", "it runs again", fleet.tell)
    assert fleet.run(run)["attempts"] == []
