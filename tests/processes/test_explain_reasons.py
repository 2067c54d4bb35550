"""Every reason why a run has not run, brought about with real workers; and when it is gone, the run runs."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from tests.processes.conftest import closing
from tests.processes.fleet import Fleet, Json, Member, moment, only_in_the_long_version, read_proc, rfc3339, until

from oncue.clock import SystemClock
from oncue.domain.change import JobChange, pause, resume
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.domain.job import Snapshot
from oncue.domain.policy import CatchUp
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Hint, Topic
from oncue.settings import Settings
from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

NARROW = ("--queues", "narrow", "--concurrency", "1", "--lease", "9s")


@pytest.fixture(scope="module")
def postgres_database(postgres_server: PrivatePostgres) -> Iterator[str]:
    yield postgres_server.create_database("oncue_reasons")
    postgres_server.drop_database("oncue_reasons")


ENGINES = [  # all reasons of one engine in one process of xdist: they share a fleet
    pytest.param("sqlite", marks=pytest.mark.xdist_group("reasons-sqlite")),
    pytest.param(
        "postgres", marks=[pytest.mark.postgres, pytest.mark.xdist_group("reasons-postgres"), only_in_the_long_version]
    ),
]


@pytest.fixture(scope="module", params=ENGINES)
def all_day(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One fleet for all reasons: a worker with ten places on two queues, and one with a single place on its own."""
    folder: Path = tmp_path_factory.mktemp("reasons")
    engine = request.getfixturevalue("postgres_database") if request.param == "postgres" else None
    for fleet in closing(Fleet(folder, engine)):
        fleet.deploy("--concurrency", "10", "--queues", "default,side")
        fleet.start("worker", *NARROW)
        fleet.ready(workers=2)
        yield fleet


@pytest.fixture
def crowd(all_day: Fleet) -> Iterator[Fleet]:
    """With nothing left running by the test before."""
    yield all_day
    started, ended = ({event["run"] for event in all_day.events(kind)} for kind in ("start", "end"))
    for run in started - ended:
        all_day.raw("POST", f"/v1/runs/{run}/cancel")


@contextmanager
def another_worker(fleet: Fleet, *options: str) -> Iterator[Member]:
    """There only while the block runs, and registered no longer when it is over."""
    worker = fleet.start("worker", *options)
    try:
        yield worker
    finally:
        worker.send(signal.SIGTERM)
        worker.ended()


def reason(fleet: Fleet, run: str) -> str:
    found: str = why(fleet, run)["reason"]
    return found


def why(fleet: Fleet, run: str) -> Json:
    """The explanation of a run."""
    of_run = fleet.call("GET", f"/runs/{run}/explain")
    assert of_run.keys() == {"state", "reason", "detail", "holder", "position", "until"}
    assert of_run["detail"]
    return of_run


def told(fleet: Fleet, run: str, expected: str) -> Json:
    """The explanation, which has this reason at once or as soon as workers have looked."""
    until(lambda: reason(fleet, run) == expected, f"it is {expected}", lambda: str(why(fleet, run)))
    return why(fleet, run)


def ran(fleet: Fleet, *runs: str) -> None:
    """All of them have, once, and that is what is told of them now."""
    ended = fleet.at_rest(runs)
    assert {run["status"] for run in ended.values()} == {"succeeded"}
    assert [len(fleet.events("start", run)) for run in runs] == [1] * len(runs)
    assert {reason(fleet, run) for run in runs} == {"finished"}


def busy(fleet: Fleet, seconds: float = 60, **job: object) -> str:
    """A run that has started."""
    run = fleet.create("slow", {"seconds": seconds}, **job)
    fleet.started(run)
    return run


def gated(fleet: Fleet, **job: object) -> tuple[str, Path]:
    """A run that has started, and the gate that it waits for."""
    gate = fleet.folder / secrets.token_hex(4)
    run = fleet.create("gated", {"gate": str(gate)}, **job)
    fleet.started(run)
    return run, gate


def cancel(fleet: Fleet, run: str) -> None:
    fleet.call("POST", f"/runs/{run}/cancel")


# ------------------------------------------------------------------------------------------------------------ its state


def test_not_due(crowd: Fleet) -> None:
    due = time.time() + 3
    run = crowd.create("mark", schedule=rfc3339(due))

    answer = why(crowd, run)

    assert (answer["state"], answer["reason"]) == ("scheduled", "not_due")
    assert rfc3339(due).split("+")[0] in answer["detail"]
    ran(crowd, run)
    assert crowd.events("start", run)[0]["at"] >= due


def test_not_due_before_the_next_attempt(crowd: Fleet) -> None:
    run = crowd.create("fail", max_retries=1, retry={"backoff": "3s", "jitter": 0})

    answer = told(crowd, run, "not_due")

    assert answer["state"] == "retrying"
    assert crowd.at_rest([run])[run]["status"] == "dead"
    assert len(crowd.events("start", run)) == 2
    assert reason(crowd, run) == "finished"


def test_running_and_finished(crowd: Fleet) -> None:
    run, gate = gated(crowd)

    answer = why(crowd, run)

    assert (answer["state"], answer["reason"]) == ("running", "running")
    assert crowd.run(run)["executor_id"] in answer["detail"]
    gate.touch()
    ran(crowd, run)
    assert why(crowd, run)["state"] == "succeeded"


def test_finished_after_it_was_cancelled(crowd: Fleet) -> None:
    run = busy(crowd)
    cancel(crowd, run)

    answer = told(crowd, run, "finished")

    assert answer["state"] == "cancelled"
    assert len(crowd.events("start", run)) == 1


async def test_paused(crowd: Fleet) -> None:
    async with store(crowd) as engine:
        run = crowd.create("mark", schedule=rfc3339(time.time() + 3))
        await change(engine, run, pause)
        due = moment(crowd.run(run)["scheduled_for"])
        until(lambda: time.time() > due + 0.5, "it is due, and workers have looked")

        answer = why(crowd, run)

        assert answer["reason"] == "paused"
        assert crowd.events("start", run) == []
        await change(engine, run, lambda snap, now: resume(snap, CatchUp.ALL, now))
        await engine.signals.send([Hint(Topic.RUNS)])
        ran(crowd, run)


@asynccontextmanager
async def store(fleet: Fleet) -> AsyncIterator[Engine]:
    engine = await open_engine(Settings(engine=fleet.engine))
    try:
        yield engine
    finally:
        await engine.close()


async def change(engine: Engine, job: str, how: Callable[[Snapshot, Instant], JobChange]) -> None:
    """Straight in the store: there is no call for it yet."""
    now = SystemClock().now()
    found = await engine.jobs.read(None, JobId(UUID(job)))
    assert found
    assert await engine.jobs.apply(how(found, now), now)


def test_queue_paused(crowd: Fleet) -> None:
    crowd.call("POST", "/queues/side/pause")
    run = crowd.create("mark", queue="side")

    answer = why(crowd, run)

    assert (answer["state"], answer["reason"]) == ("queued", "queue_paused")
    assert "'side'" in answer["detail"]
    assert crowd.events("start", run) == []
    crowd.call("POST", "/queues/side/resume")
    ran(crowd, run)


# -------------------------------------------------------------------------------------------------------- behind others


def test_overlap(crowd: Fleet) -> None:
    gate = crowd.folder / "overlap"
    job = crowd.create("gated", {"gate": str(gate)}, schedule="every 1h")
    first, second = (crowd.call("POST", f"/jobs/{job}/runNow")["run_id"] for _ in range(2))
    crowd.started(first)

    answer = why(crowd, second)

    assert (answer["state"], answer["reason"]) == ("queued", "overlap")
    assert (answer["holder"], answer["position"]) == (first, 1)
    of_job = crowd.call("GET", f"/jobs/{job}/explain")
    assert (of_job["reason"], of_job["holder"]) == ("overlap", first)
    gate.touch()
    ran(crowd, first, second)
    assert crowd.events("start", second)[0]["at"] > crowd.events("end", first)[0]["at"]
    assert crowd.call("GET", f"/jobs/{job}/explain")["reason"] == "not_due"
    crowd.call("DELETE", f"/jobs/{job}")


def test_group(crowd: Fleet) -> None:
    first = busy(crowd, group="g")
    second, third = (crowd.create("mark", group="g") for _ in range(2))

    answers = [why(crowd, run) for run in (second, third)]

    assert [(a["reason"], a["holder"], a["position"]) for a in answers] == [("group", first, 1), ("group", first, 2)]
    assert crowd.events("start", second) == []
    cancel(crowd, first)
    ran(crowd, second, third)
    assert crowd.events("start", third)[0]["at"] > crowd.events("end", second)[0]["at"]


def test_concurrency(crowd: Fleet) -> None:
    two = {"key": "printer", "limit": 2}
    inside = [busy(crowd, concurrency=two) for _ in range(2)]
    waiting = [crowd.create("mark", concurrency=two) for _ in range(2)]

    answers = [why(crowd, run) for run in waiting]

    assert [(answer["reason"], answer["position"]) for answer in answers] == [("concurrency", 1), ("concurrency", 2)]
    assert {answer["holder"] for answer in answers} <= set(inside)
    assert [crowd.events("start", run) for run in waiting] == [[], []]
    cancel(crowd, inside[1])
    ran(crowd, *waiting)
    cancel(crowd, inside[0])


def test_rate(crowd: Fleet) -> None:
    one = {"limit": 1, "per": "4s", "key": "calls"}
    first = busy(crowd, 0.1, rate=one)
    second = crowd.create("mark", rate=one)

    answer = told(crowd, second, "rate")

    assert "'calls'" in answer["detail"]
    ran(crowd, first, second)
    assert crowd.events("start", second)[0]["at"] > crowd.events("start", first)[0]["at"] + 3.9


# -------------------------------------------------------------------------------------------------------------- workers


def test_no_worker(crowd: Fleet) -> None:
    run = crowd.create("mark", queue="far")

    answer = why(crowd, run)

    assert (answer["state"], answer["reason"]) == ("queued", "no_worker")
    assert "--queues far" in answer["detail"]
    with another_worker(crowd, "--queues", "far"):
        ran(crowd, run)


def test_no_labels(crowd: Fleet) -> None:
    run = crowd.create("mark", labels=["gpu"])

    answer = why(crowd, run)

    assert (answer["state"], answer["reason"]) == ("queued", "no_labels")
    assert "--labels gpu" in answer["detail"]
    with another_worker(crowd, "--labels", "gpu"):
        ran(crowd, run)


def test_too_big(crowd: Fleet) -> None:
    run = crowd.create("mark", resources={"slots": 40})

    answer = why(crowd, run)

    assert (answer["state"], answer["reason"]) == ("queued", "too_big")
    assert "40 slots" in answer["detail"]
    assert "10 slots" in answer["detail"]
    with another_worker(crowd, "--concurrency", "50"):
        ran(crowd, run)


def test_no_capacity(crowd: Fleet) -> None:
    holder = busy(crowd, queue="narrow")
    first, second = (crowd.create("mark", queue="narrow") for _ in range(2))

    answers = [why(crowd, run) for run in (first, second)]

    assert [(a["state"], a["reason"], a["position"]) for a in answers] == [
        ("queued", "no_capacity", 1),
        ("queued", "no_capacity", 2),
    ]
    cancel(crowd, holder)
    ran(crowd, first, second)


def test_worker_lost_that_is_heard_again(crowd: Fleet) -> None:
    run, gate = gated(crowd, queue="narrow")
    with stopped(crowd):
        answer = told(crowd, run, "worker_lost")
        assert (answer["state"], answer["reason"]) == ("running", "worker_lost")
        assert crowd.run(run)["executor_id"] in answer["detail"]

    told(crowd, run, "running")
    gate.touch()
    ran(crowd, run)


def test_worker_lost_for_good(crowd: Fleet) -> None:
    """It starts elsewhere when the lease is over."""
    run, gate = gated(crowd, queue="narrow")
    with stopped(crowd):
        told(crowd, run, "worker_lost")
        crowd.start("worker", *NARROW)
        until(lambda: len(crowd.events("start", run)) == 2, "it starts again", crowd.tell)
        assert reason(crowd, run) == "running"
    gate.touch()
    assert crowd.at_rest([run])[run]["status"] == "succeeded"


@contextmanager
def stopped(fleet: Fleet) -> Iterator[None]:
    """The first worker with a single place, both of its processes."""
    worker = next(member for member in fleet.members if b"narrow" in read_proc(member.pid, "cmdline"))
    assert worker.inner
    pids = [worker.pid, worker.inner]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
