"""Large values through real processes, and what is left of them when a process is killed at any step of their life."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from uuid import UUID

import pytest
from tests.processes.fleet import DEADLINE, LONG, Fleet, Json, until

from oncue.clock import SystemClock
from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, Instant
from oncue.domain.reference import read_reference
from oncue.engines.open import open_engine
from oncue.services.storage_cleaning import StorageCleaning
from oncue.settings import Settings
from oncue.storage.open import open_storage
from oncue.testing.clock import FakeClock

pytestmark = pytest.mark.kills

STORAGE = Path(__file__).parent.parent / "storage"
TASKS = STORAGE / "large_tasks.py"
MB = 1_000_000
SHORT = ("--lease", "2s")
JOB = {"task": "large", "payload": {"text": "p" * (5 * MB), "size": MB}}

OF_PAYLOADS = ["before row", "after row", "during put", "after put", "before create", "after create"]
OF_RESULTS = ["before row", "after row", "during put", "after put", "before settle", "after settle"]


# On PostgreSQL the steps at which its statements have a part, on SQLite the others; all on SQLite in the long version.
ON_POSTGRES = ("after row", "after create", "before settle")


def steps_of(steps: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("stepping", "step"),
        [("fleet", step) for step in steps if LONG or step not in ON_POSTGRES]
        + [("postgres_fleet", step) for step in steps if step in ON_POSTGRES],
        indirect=["stepping"],
    )


@pytest.fixture
def stepping(request: pytest.FixtureRequest) -> Fleet:
    fleet: Fleet = request.getfixturevalue(request.param)
    return fleet


def ended(fleet: Fleet, run_id: str) -> Json:
    return fleet.at_rest([run_id])[run_id]


def objects(fleet: Fleet) -> set[str]:
    folder = fleet.folder / "objects"
    return {str(file.relative_to(folder)) for file in (folder / "v1").rglob("*") if file.is_file()}


async def referred(fleet: Fleet, *run_ids: str) -> set[str]:
    """The objects that these runs refer to, after the cleaner has come by in two days."""
    settings = Settings(engine=fleet.engine, data_dir=str(fleet.folder))
    engine = await open_engine(settings)
    clock = FakeClock(Instant(SystemClock().now() + 2 * DAY))
    try:
        await StorageCleaning(engine, open_storage(settings, clock), clock).run_once()
        assert (await engine.objects.look(clock.now())).unused == ()
        views = [await engine.history.run(None, RunId(UUID(run_id))) for run_id in run_ids]
    finally:
        await engine.close()
    stored = [value for view in views if view is not None for value in (view.payload, view.result)]
    return {reference.key for reference in map(read_reference, stored) if reference is not None}


def faulty(fleet: Fleet, step: str) -> dict[str, str]:
    died = str(fleet.folder / "died")
    return {"PYTHONPATH": str(STORAGE / "faults"), "FAULT_STEP": step, "FAULT_DIED": died}


def test_five_megabytes_go_in_and_twenty_come_out(fleet: Fleet) -> None:
    fleet.start("up", *SHORT, tasks=TASKS)
    fleet.ready(workers=1)
    text = "p" * (5 * MB)
    for task in ("large", "large_apart"):
        run_id = fleet.create(task, {"text": text, "size": 20 * MB})
        run = ended(fleet, run_id)
        assert (run["status"], run["result"], run["degraded"]) == ("succeeded", None, []), run
        result = fleet.call("GET", f"/runs/{run_id}/result")
        assert (result["length"], hashlib.sha256(result["text"].encode()).hexdigest()) == (
            5 * MB,
            hashlib.sha256(b"r" * (20 * MB)).hexdigest(),
        )
        assert fleet.call("GET", f"/jobs/{run_id}")["payload"]["text"] == text


@steps_of(OF_PAYLOADS)
def test_a_killed_api_leaves_no_object_behind_and_loses_none(stepping: Fleet, step: str) -> None:
    fleet = stepping
    fleet.start("scheduler")
    fleet.start("worker", *SHORT, tasks=TASKS)
    api = fleet.start("api", env=faulty(fleet, step))
    fleet.ready(workers=1)
    status, _, _ = fleet.raw("PUT", "/v1/jobs/by-key/one", JOB)
    assert (status, api.ended()) == (0, -9)

    fleet.start("api")
    fleet.ready(workers=1)
    job_id = fleet.call("PUT", "/jobs/by-key/one", JOB)["job_id"]
    run = ended(fleet, job_id)

    assert (run["status"], run["attempt_number"]) == ("succeeded", 1)
    kept = asyncio.run(referred(fleet, job_id))
    assert (len(kept), objects(fleet)) == (2, kept)
    assert fleet.call("GET", f"/runs/{job_id}/result")["length"] == 5 * MB


@steps_of(OF_RESULTS)
def test_a_killed_worker_leaves_no_object_behind_and_loses_none(stepping: Fleet, step: str) -> None:
    fleet = stepping
    fleet.start("scheduler")
    fleet.start("api")
    fleet.start("worker", *SHORT, tasks=TASKS, env=faulty(fleet, step))
    fleet.ready(workers=1)
    run_id = fleet.create("large", {"size": MB})
    run = ended(fleet, run_id)

    assert (fleet.folder / "died").exists()
    assert run["status"] == "succeeded", run
    kept = asyncio.run(referred(fleet, run_id))
    assert (len(kept), objects(fleet)) == (1, kept)
    assert len(fleet.call("GET", f"/runs/{run_id}/result")["text"]) == MB


def test_storage_that_is_away_for_a_while_loses_nothing(fleet: Fleet) -> None:
    """Large ones are refused; what runs ends later, or without its result, which follows."""
    (fleet.folder / "objects").mkdir()
    fleet.start("up", *SHORT, "--storage-patience", "6s", tasks=TASKS)
    fleet.ready(workers=1)
    (fleet.folder / "objects").rmdir()
    (fleet.folder / "objects").write_text("in the way")
    waits, small = [fleet.create("large", {"size": MB}) for _ in range(5)], fleet.create("large")

    status, _, headers = fleet.raw("POST", "/v1/jobs", JOB)
    assert (status, headers["Retry-After"]) == (503, "10")
    assert ended(fleet, small)["status"] == "succeeded"
    until(lambda: fleet.run(waits[0])["status"] == "running", "the run is done and waits for storage", fleet.tell)
    degraded = ended(fleet, waits[0])
    assert (degraded["status"], degraded["degraded"]) == ("succeeded", ["result"])
    late = fleet.create("large", {"size": MB})
    time.sleep(1)
    (fleet.folder / "objects").unlink()
    assert (ended(fleet, late)["status"], ended(fleet, late)["degraded"]) == ("succeeded", [])
    until(
        lambda: not any(fleet.run(run_id)["degraded"] for run_id in waits), "results are attached", fleet.tell, DEADLINE
    )
    for run_id in waits:
        assert len(fleet.call("GET", f"/runs/{run_id}/result")["text"]) == MB
        assert fleet.run(run_id)["attempt_number"] == 1
