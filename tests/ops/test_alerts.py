"""Every alert of ops/prometheus/rules.yml fires in a real Prometheus, because its cause was made in real processes.

Each test is one thing that goes wrong. Where the cause takes days or a bug, what is stored is changed by SQL, and the
test says so.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.ops.programs import program
from tests.ops.prometheus import Caller, Watched, watching
from tests.ops.test_prometheus import ALERTS
from tests.processes.fleet import Fleet, Member, only_in_the_long_version, until

from oncue.domain.instants import DAY, HOUR
from oncue.testing.postgres import PrivatePostgres

LEASE = ("--lease", "4s")


@pytest.fixture
def watched(tmp_path: Path, postgres_url: str) -> Iterator[Watched]:
    yield from closing(tmp_path, postgres_url)


@pytest.fixture
def server(postgres_server: PrivatePostgres) -> Iterator[PrivatePostgres]:
    """One that may be stopped without harm to other tests."""
    if not postgres_server.ours:
        pytest.skip("the server is not ours to stop")
    with PrivatePostgres(fast=True) as server:
        yield server


@pytest.fixture
def watched_alone(tmp_path: Path, server: PrivatePostgres) -> Iterator[Watched]:
    """The only one on that server."""
    yield from closing(tmp_path, server.create_database("oncue"))


def closing(folder: Path, engine: str) -> Iterator[Watched]:
    program("prometheus")
    watched = Watched(Fleet(folder, engine))
    try:
        yield watched
    finally:
        watched.fleet.close()


def deploy(watched: Watched, *options: str, workers: int = 1) -> tuple[Member, list[Member]]:
    """The roles apart: the scheduler, and the workers, alike in their options."""
    watched.start("api")
    scheduler = watched.start("scheduler")
    able = [watched.start("worker", *options) for _ in range(workers)]
    watched.fleet.ready(workers=workers)
    return scheduler, able


def disguised(folder: Path, code: str) -> dict[str, str]:
    """The environment of a process that runs this first."""
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": str(folder)}


def sql(engine: str, statement: str, *given: Any) -> None:
    async def once() -> None:
        connection = await asyncpg.connect(engine)
        try:
            changed = await connection.execute(statement, *given)
            assert not changed.endswith(" 0"), statement
        finally:
            await connection.close()

    asyncio.run(once())


@contextmanager
def beside(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> Iterator[None]:
    """It goes on in a thread, until it is told that it is enough."""
    loop, enough = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(work(enough),))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(enough.set)
        thread.join()
        loop.close()


def test_every_alert_has_a_test_here() -> None:
    assert set(re.findall(r'"(Oncue\w+)"', Path(__file__).read_text())) == ALERTS.keys()


@pytest.mark.ops
def test_all_workers_are_killed_while_runs_are_due(watched: Watched) -> None:
    _, workers = deploy(watched, *LEASE, workers=3)
    fleet = watched.fleet
    fleet.at_rest([fleet.create("mark")])
    with watching(watched) as prometheus:
        for worker in workers:
            worker.kill()
        fleet.batch([{"task": "mark"}] * 5)

        prometheus.fires(
            "OncueNoWorker", "OncueNoWorkerForTask", "OncueNothingStarts", "OncueQueueOld", "OncueWorkersLost"
        )


@pytest.mark.ops
@only_in_the_long_version
def test_there_is_more_work_than_the_workers_have_slots(watched: Watched) -> None:
    deploy(watched, "--concurrency", "2")
    fleet = watched.fleet
    fleet.at_rest([fleet.create("mark")])
    with watching(watched) as prometheus:
        fleet.batch([{"task": "slow", "payload": {"seconds": 1.5}}] * 120)

        prometheus.fires("OncueWorkersFull", "OncueStartSLOFastBurn", "OncueStartSLOSlowBurn", "OncueStartSLOTicket")


@pytest.mark.ops
def test_a_task_fails(watched: Watched) -> None:
    deploy(watched)
    fleet = watched.fleet
    with watching(watched) as prometheus:
        prometheus.fires(
            "OncueTaskFailing",
            "OncueDeadLetters",
            meanwhile=lambda: fleet.batch([{"task": "fail", "max_retries": 0}] * 5),
        )

        assert {labels["task"] for labels in prometheus.alerts()["OncueTaskFailing"]} == {"fail"}


@pytest.mark.ops
@only_in_the_long_version
def test_no_worker_sends_notices(watched: Watched) -> None:
    deploy(watched, "--no-notify")
    notify = [{"on": ["dead"], "webhook": "https://example.org/hook"}]
    with watching(watched) as prometheus:
        watched.fleet.create("fail", max_retries=0, notify=notify)
        prometheus.fires("OncueNoticesFailing")


@pytest.mark.ops
@only_in_the_long_version
def test_the_folder_of_object_storage_is_gone(watched: Watched, tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    for role in ("api", "scheduler", "worker"):
        watched.start(role, "--storage", folder.as_uri())
    fleet = watched.fleet
    fleet.ready(workers=1)
    large = {"task": "gated", "payload": {"gate": "x" * 300_000}, "schedule": "every 1h"}
    with watching(watched) as prometheus:
        assert fleet.raw("POST", "/v1/jobs", large)[0] == 201
        shutil.rmtree(folder)
        folder.write_text("in the way")

        prometheus.fires("OncueStorageAway", meanwhile=lambda: fleet.raw("POST", "/v1/jobs", large))

        assert fleet.raw("POST", "/v1/jobs", large)[0] == 503


@pytest.mark.ops
@pytest.mark.first
def test_the_only_scheduler_is_killed_and_comes_back_later(watched: Watched) -> None:
    scheduler, _ = deploy(watched)
    fleet = watched.fleet
    fleet.create("mark", schedule="every 1s", catch_up="skip")
    until(lambda: fleet.events("end"), "it runs", fleet.tell)
    with watching(watched) as prometheus:
        until(
            lambda: prometheus.query("oncue_cluster_selfaudit_pass_timestamp_seconds"),
            "the self-audit has passed",
            prometheus.tell,
        )
        scheduler.kill()

        prometheus.fires("OncueNoScheduler", "OncuePlannerBehind", "OncueSelfAuditStalled")

        watched.start("scheduler", port=watched.ports[scheduler])
        prometheus.fires("OncueMissed")


@pytest.mark.ops
@only_in_the_long_version
def test_a_worker_process_blocks_its_loop_and_is_killed_again_and_again(watched: Watched) -> None:
    _, [worker] = deploy(watched)
    with watching(watched) as prometheus:
        watched.fleet.create("block_the_loop", {"seconds": 1.5}, schedule="every 2s", catch_up="skip")
        prometheus.fires("OncueLoopDelay")

        def kill() -> None:
            if inner := worker.inner:
                os.kill(inner, signal.SIGKILL)

        prometheus.fires("OncueWorkerRestarts", "OncueWorkerDown", meanwhile=kill)


@pytest.mark.ops
@only_in_the_long_version
def test_a_run_is_taken_from_a_worker_that_still_runs_it(watched: Watched) -> None:
    """Set by SQL: the first worker counts as dead. It learns of it by its next heartbeat, two minutes later."""
    _, [first, second] = deploy(watched, "--lease", "10m", workers=2)
    fleet = watched.fleet
    with watching(watched) as prometheus:
        run = fleet.create("relay", {"lengths": [3.0, 30.0]})
        [start] = fleet.started(run)
        taken_from = first if start["pids"][0] == first.inner else second
        sql(fleet.engine, "delete from workers where worker_id = $1", fleet.run(run)["executor_id"])

        prometheus.fires("OncueResultsRefused")

        assert taken_from.process.poll() is None


@pytest.mark.ops
@only_in_the_long_version
def test_a_machine_has_a_wrong_clock(watched: Watched, tmp_path: Path) -> None:
    scheduler, _ = deploy(watched)
    code = "import time\nright = time.time_ns\ntime.time_ns = lambda: right() + 7_000_000_000\n"
    with watching(watched) as prometheus:
        scheduler.kill()
        watched.start("scheduler", port=watched.ports[scheduler], env=disguised(tmp_path, code))

        prometheus.fires("OncueClockOff")

        [target] = watched.targets("scheduler")[-1:]
        assert [labels["instance"] for labels in prometheus.alerts()["OncueClockOff"]] == [target]


@pytest.mark.ops
@only_in_the_long_version
def test_a_process_of_another_version_stays(watched: Watched, tmp_path: Path) -> None:
    deploy(watched)
    with watching(watched) as prometheus:
        watched.start("scheduler", env=disguised(tmp_path, 'import oncue\noncue.__version__ = "0.0.0"\n'))

        prometheus.fires("OncueVersionsMixed")


@pytest.mark.ops
@pytest.mark.first
def test_the_stored_state_is_wrong(watched: Watched) -> None:
    """Set by SQL: a cursor that a bug moved, a definition that nobody can plan, history that nobody dropped."""
    deploy(watched)
    fleet = watched.fleet
    moved, broken = (fleet.create("mark", schedule="every 1h") for _ in range(2))
    with watching(watched) as prometheus:
        sql(fleet.engine, "update agenda set next_at = next_at + $2 where job_id = $1", moved, HOUR)
        sql(fleet.engine, "update jobs set spec = 'nothing'::bytea where job_id = $1", broken)
        sql(fleet.engine, "update agenda set next_at = floor where job_id = $1", broken)
        sql(fleet.engine, "update pieces set from_at = from_at - $1 where parent = 'history'", 100 * DAY)

        prometheus.fires("OncueJobsPutOff", "OncueRetentionBehind", "OncueSelfAudit")

        assert [labels["check"] for labels in prometheus.alerts()["OncueSelfAudit"]] == ["cursor"]


@pytest.mark.ops
@pytest.mark.first
def test_the_database_is_slow_and_then_gone(server: PrivatePostgres, watched_alone: Watched) -> None:
    deploy(watched_alone, *LEASE)
    fleet = watched_alone.fleet
    create_often = Caller(fleet)
    with watching(watched_alone) as prometheus:
        with beside(partial(hold_a_transaction, fleet.engine)), beside(partial(lock_again_and_again, fleet.engine)):
            prometheus.fires("OncueStoreSlow", "OncueOldSnapshot", meanwhile=create_often)
        server.stop("immediate")

        prometheus.fires(
            "OncueClusterBlind", "OncueStoreErrors", "OncueApiErrors", "OncueWorkerDown", meanwhile=create_often
        )


async def hold_a_transaction(engine: str, enough: asyncio.Event) -> None:
    connection = await asyncpg.connect(engine)
    async with connection.transaction():
        await connection.execute("select pg_current_xact_id()")
        await enough.wait()
    await connection.close()


async def lock_again_and_again(engine: str, enough: asyncio.Event) -> None:
    connection = await asyncpg.connect(engine)
    while not enough.is_set():
        async with connection.transaction():
            await connection.execute("lock table running in exclusive mode")
            await asyncio.sleep(1.8)
        await asyncio.sleep(0.1)
    await connection.close()
