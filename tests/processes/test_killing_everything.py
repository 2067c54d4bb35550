"""kill -9 of all there is, the database server too, at moments nobody chose, again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.processes.fleet import LONG, Fleet, moment, rfc3339, until

from oncue.domain.policy import LOSSES
from oncue.testing.postgres import PrivatePostgres

pytestmark = [pytest.mark.kills, pytest.mark.first]

SEED = 15
CRASHES = 5
TICKS = 20 if LONG else 12  # one a second, through most of the crashes
OPTIONS = ("--lease", "3s")


class Load(Thread):
    """Creates jobs whenever somebody takes them. Only those that were acknowledged count."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet
        self._enough = Event()
        self.created: list[str] = []

    def run(self) -> None:
        while not self._enough.wait(0.03):
            seconds = 0.1 * (len(self.created) % 5)
            status, answer, _ = self._fleet.raw("POST", "/v1/jobs", {"task": "slow", "payload": {"seconds": seconds}})
            if status == 201:
                self.created.append(answer["job_id"])

    def stop(self) -> None:
        self._enough.set()
        self.join()


def survives(fleet: Fleet, crash_store: Callable[[], None]) -> None:
    up = fleet.up(*OPTIONS)
    start = int(time.time()) + 1
    chance = random.Random(SEED)
    span = {"start_at": rfc3339(start + 0.5), "end_at": rfc3339(start + TICKS + 0.2)}
    job = fleet.create("mark", schedule={"cron": "* * * * * *", **span}, overlap="allow", catch_up="all")
    load = Load(fleet)
    load.start()
    killed: list[tuple[float, int | None]] = []
    try:
        for _ in range(CRASHES):
            before = len(load.created)
            until(lambda before=before: len(load.created) > before + 5, "jobs are taken", fleet.tell)
            time.sleep(chance.uniform(0.0, 1.0))
            killed.append((time.time(), up.inner))
            up.kill()
            crash_store()
            up = fleet.up(*OPTIONS)
    finally:
        load.stop()

    until(lambda: time.time() > start + TICKS + 1, "the schedule is over")
    ended = fleet.at_rest(load.created)
    for run in ended.values():
        lost = [attempt["outcome"] for attempt in run["attempts"]] == ["lost"] * LOSSES
        assert run["status"] == ("dead" if lost else "succeeded"), run
    until(lambda: fleet.call("GET", f"/jobs/{job}")["status"] == "finished", "the job has finished", fleet.tell)
    ticks = fleet.runs_of(job)
    assert {run["status"] for run in ticks} == {"succeeded"}
    assert sorted(moment(run["scheduled_for"]) for run in ticks) == [start + second for second in range(1, TICKS + 1)]
    dead = {inner for _, inner in killed}
    for run_id in [*load.created, *(run["run_id"] for run in ticks)]:
        starts = fleet.events("start", run_id)
        assert starts, f"{run_id} succeeded and never started"
        assert all(dead & set(event["pids"]) for event in starts[:-1]), "started twice, though its worker lived"


def test_what_sqlite_acknowledged_survives_the_end_of_every_process(fleet: Fleet) -> None:
    survives(fleet, lambda: None)


def test_what_postgres_acknowledged_survives_the_end_of_every_process_and_of_the_server(
    crashable_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    fleet = Fleet(tmp_path, crashable_postgres.create_database("oncue"))
    try:
        survives(fleet, lambda: crashable_postgres.restart("immediate"))
    finally:
        fleet.close()
