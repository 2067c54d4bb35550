"""A bulk over many jobs while the processes that work on it are killed: it goes on, and runs each job once."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.processes.fleet import LONG, Fleet, until

pytestmark = pytest.mark.kills

JOBS = 100_000 if LONG else 800
AT_ONCE = 10_000  # in a batch
WITHIN = 3_600.0 if LONG else 120.0  # seconds


def test_each_job_runs_once_though_its_schedulers_are_killed(any_fleet: Fleet) -> None:
    fleet = any_fleet
    fleet.start("api")
    worker = fleet.start("worker")
    fleet.ready(workers=1)
    worker.kill()  # its tasks stay known; the runs only have to be there
    job = {"task": "mark", "schedule": {"cron": "0 0 1 1 *"}, "tags": ["many"]}
    for start in range(0, JOBS, AT_ONCE):
        fleet.batch([job] * min(AT_ONCE, JOBS - start))
    other = fleet.create("mark", schedule={"cron": "0 0 1 1 *"})

    bulk_id = fleet.call("POST", "/bulk", {"action": "run", "filter": {"tag": "many"}})["bulk_id"]
    for part in (0.1, 0.3, 0.5):
        scheduler = fleet.start("scheduler")
        until(
            lambda part=part: fleet.call("GET", f"/bulk/{bulk_id}")["done"] >= part * JOBS,
            "it goes on",
            fleet.tell,
            WITHIN,
        )
        assert fleet.call("GET", f"/bulk/{bulk_id}")["state"] == "running", "it was too quick to be cut off"
        scheduler.kill()
    fleet.start("scheduler")
    until(lambda: fleet.call("GET", f"/bulk/{bulk_id}")["state"] == "finished", "it is finished", fleet.tell, WITHIN)

    ended = fleet.call("GET", f"/bulk/{bulk_id}")
    assert (ended["done"], ended["refused"], ended["reasons"]) == (JOBS, 0, [])
    runs = Counter(run["job_id"] for run in fleet.all_runs().values())
    assert len(runs) == JOBS
    assert set(runs.values()) == {1}
    assert other not in runs
