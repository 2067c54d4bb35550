"""The release before this one and this one on one store, while jobs are made and run.

Whoever adds a migration after which the release before is wrong, or cannot start, finds out here.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from tests.processes.fleet import Fleet, Json, Member, only_in_the_long_version, until
from tests.processes.releases import PREVIOUS, Load, migrate, package_of, stop
from tests.processes.traffic import Traffic

from oncue.engines.sql import migrations

pytestmark = [pytest.mark.kills, pytest.mark.first, pytest.mark.xdist_group("two versions")]  # one copy of the other

NEWEST = migrations("oncue.engines.sqlite")[-1][0]
LEASE = ("--lease", "4s")


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package_of(PREVIOUS, tmp_path_factory.mktemp("previous"))


def works_on(fleet: Fleet, *, workers: int) -> None:
    until(lambda: fleet.raw("GET", "/readyz")[0] == 200, "the API is ready", fleet.tell)
    until(lambda: sum(not one["draining"] for one in fleet.workers()) == workers, "they are there", fleet.tell)


def reads_everything(fleet: Fleet) -> None:
    for path in ("jobs", "runs", "dead-letters", "stats", "workers", "tasks", "queues", "keys", "audit"):
        status, answer, _ = fleet.raw("GET", f"/v1/{path}")
        assert status == 200, (path, answer, fleet.tell())


def every_one_ran_once(fleet: Fleet, made: list[str]) -> None:
    """Once for each attempt; and there is more than one only if its worker was killed."""
    ended: dict[str, Json] = fleet.at_rest(made)
    assert {run["status"] for run in ended.values()} == {"succeeded"}
    starts = Counter(event["run"] for event in fleet.events("start"))
    for run_id, run in ended.items():
        losses = [one for one in run["attempts"] if one["outcome"] == "lost"]
        assert starts[run_id] <= 1 + len(losses), (run, fleet.events(run=run_id))
        assert fleet.events("end", run_id)


def test_the_release_before_goes_on_and_comes_back_on_the_new_schema(any_fleet: Fleet, previous: Path) -> None:
    """Catches a schema that old processes refuse, or use wrongly: a worker that crashes would never come back."""
    old, new = any_fleet.of(previous), any_fleet.of(None)
    api, scheduler, worker = old.start("api"), old.start("scheduler"), old.start("worker", *LEASE)
    works_on(old, workers=1)
    load = Load(old)
    with load.going():
        each_second = old.create("mark", schedule="every 1s", name="tick")
        load.goes_on(old)
        assert f"to version {NEWEST}." in migrate(new) or NEWEST == 1
        load.goes_on(old)

        worker.kill()
        scheduler.kill()
        api.kill()
        again = [old.start("api"), old.start("scheduler"), old.start("worker", *LEASE)]
        load.goes_on(old)
        reads_everything(old)

        members = [new.start("api"), new.start("scheduler"), new.start("worker", *LEASE)]
        works_on(new, workers=2)
        load.apis.append(new)
        load.goes_on(new, jobs=40)
        for mine, other in ((old, new), (new, old)):  # each reads and changes what the other made
            job = mine.create("mark", schedule="every 1h", name="a")
            assert other.call("PATCH", f"/jobs/{job}", {"name": "b", "timeout": "5s"})["name"] == "b"
            assert mine.call("GET", f"/jobs/{job}")["version"] == 2
            assert other.call("POST", f"/jobs/{job}/pause", {})["status"] == "paused"
            assert mine.call("POST", f"/jobs/{job}/resume", {})["status"] == "active"
            reads_everything(other)

        stop(again[2])  # what the old API makes, the new worker runs
        load.goes_on(new, jobs=20)
        back = old.start("worker", *LEASE)
        works_on(new, workers=2)
        stop(members[2])  # and the other way around, as after going back to the old one
        load.goes_on(new, jobs=20)
    new.call("DELETE", f"/jobs/{each_second}")
    every_one_ran_once(new, load.made)
    nominal = [run["scheduled_for"] for run in new.runs_of(each_second) if run["status"] == "succeeded"]
    assert len(nominal) == len(set(nominal)) > 3
    assert back.process.poll() is None


async def write_later_field(engine: str, table: str, job_id: str) -> None:
    """Into the definition of a job, past oncue. The key of a one-shot's run is its job's."""
    session = await asyncpg.connect(engine)
    stored = await session.fetchval(f"select spec from {table} where job_id = $1", UUID(job_id))
    await session.execute(f"update {table} set spec = $2 where job_id = $1", UUID(job_id), with_later_field(stored))
    await session.close()


def with_later_field(stored: bytes) -> bytes:
    return json.dumps(json.loads(stored) | {"later": {"a": 1}}).encode()


async def test_what_a_later_release_made_waits_for_it(postgres_fleet: Fleet) -> None:
    """The later one is played: a field that this one does not know is put into the definition of a job that waits."""
    fleet = postgres_fleet
    fleet.deploy()
    job = fleet.create("mark", schedule="every 1h")
    strange = fleet.create("mark", schedule=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 8)))
    for table, key in (("jobs", job), ("waiting", strange)):
        await write_later_field(fleet.engine, table, key)
    assert fleet.call("PATCH", f"/jobs/{job}", {"timeout": "5s"})["timeout"] == "5s"
    fleet.call("POST", f"/jobs/{job}/runNow", {})
    plain = fleet.create("mark", schedule=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 9)))

    fleet.at_rest([plain])

    assert fleet.events(run=strange) == []
    assert fleet.run(strange)["status"] == "queued"
    [asked_for] = fleet.runs_of(job)
    assert (asked_for["status"], fleet.events(run=asked_for["run_id"])) == ("queued", [])
    assert fleet.call("DELETE", f"/jobs/{strange}")["status"] == "cancelled"


@pytest.mark.parametrize(
    "order",
    [
        ("worker", "scheduler", "api"),
        pytest.param(("api", "scheduler", "worker"), marks=only_in_the_long_version),
    ],
    ids="-".join,
)
def test_a_roll_out_and_a_roll_back_under_load_lose_and_double_nothing(
    postgres_fleet: Fleet, previous: Path, order: tuple[str, ...]
) -> None:
    """Two of each role, replaced one by one with SIGTERM: as the docs say, and the other way around."""
    fleet = postgres_fleet
    apis = {"a": fleet, "b": fleet.of(None)}
    running = {(role, name): start_of(apis[name], role, previous) for role in order for name in apis}
    works_on(fleet, workers=2)
    traffic = Traffic(list(apis.values()), 50)
    with traffic.going():
        traffic.goes_on(fleet)
        migrate(fleet)
        for code in (None, previous):
            for (role, name), member in list(running.items()):
                stop(member)
                running[role, name] = start_of(apis[name], role, code)
                traffic.goes_on(fleet)
    print(f"{len(traffic.made)} created, {len(traffic.retried)} of them at the second try")
    assert traffic.failed == []
    fleet.started(*traffic.made)
    until(lambda: {run["status"] for run in fleet.all_runs().values()} == {"succeeded"}, "all have ended", fleet.tell)
    assert fleet.all_runs().keys() == set(traffic.made)
    assert sorted(event["run"] for event in fleet.events("start")) == sorted(traffic.made)


def start_of(fleet: Fleet, role: str, code: Path | None) -> Member:
    """One of this version, once it is there: an API answers, others have got as far as working."""
    fleet.code = code
    member = fleet.start(role)
    fleet.code = None
    if role == "api":
        until(lambda: fleet.raw("GET", "/readyz")[0] == 200, "the API is ready", fleet.tell)
    return member
