"""The primary is lost and its replica promoted, under load: work goes on there, and never again on the old primary."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.processes.fleet import LONG, Fleet, until

from oncue.testing.postgres_replica import ReplicatedPostgres

pytestmark = pytest.mark.kills

NOTES = "select count(*) from pg_stat_activity where application_name = 'oncue: timeline 2 is newer'"
WITHIN = 10.0  # seconds from the promotion to the first create and the first start


@pytest.fixture
def pair(replicated_postgres: ReplicatedPostgres) -> ReplicatedPostgres:
    """What is acknowledged is on both."""
    replicated_postgres.first.set_synchronous(replicated_postgres.second)
    return replicated_postgres


@pytest.fixture
def paired_fleet(pair: ReplicatedPostgres, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, pair.create_database("oncue"))
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.close()


class Creating:
    """Callers that create one-shots, and when each was acknowledged."""

    def __init__(self, fleet: Fleet, callers: int = 3) -> None:
        self._fleet = fleet
        self._enough = Event()
        self.acknowledged: dict[str, float] = {}
        self.refused = 0
        self._callers = [Thread(target=self._create) for _ in range(callers)]

    def __enter__(self) -> Creating:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for caller in self._callers:
            caller.join()

    def _create(self) -> None:
        while not self._enough.wait(0.03):
            status, answer, _ = self._fleet.raw("POST", "/v1/jobs", {"task": "mark"})
            if status == 201:
                self.acknowledged[answer["job_id"]] = time.time()
            self.refused += status == 503

    def since(self, at: float) -> float | None:
        """Seconds until the first job that was acknowledged after this."""
        return min((one - at for one in list(self.acknowledged.values()) if one > at), default=None)


@pytest.mark.parametrize("how", ["kill", "silence"])
def test_work_goes_on_at_the_promoted_replica(paired_fleet: Fleet, pair: ReplicatedPostgres, how: str) -> None:
    """Catches a silent host that takes the time of all hosts of the URL."""
    fleet = paired_fleet
    fleet.create("mark", schedule="every 1s", overlap="allow", catch_up="all")
    with Creating(fleet) as creating:
        until(lambda: len(fleet.events("end")) > 30, "work is done", fleet.tell)
        getattr(pair.first, how)()
        until(lambda: creating.refused, "the API says that the database is away", fleet.tell)
        pair.second.promote()
        promoted = time.time()
        until(lambda: creating.since(promoted), "jobs are created again", fleet.tell)
        until(lambda: started_since(fleet, promoted), "runs start again", fleet.tell)
        created, started = creating.since(promoted), started_since(fleet, promoted)
        print(f"{how}: first create {created:.2f} s after the promotion, first start {started:.2f} s")

    assert created < WITHIN
    assert started < WITHIN
    ended = fleet.at_rest(list(creating.acknowledged))
    assert {run["status"] for run in ended.values()} == {"succeeded"}
    assert twice(fleet) == []


def test_an_old_primary_that_comes_back_is_not_used(paired_fleet: Fleet, pair: ReplicatedPostgres) -> None:
    """Catches connections that go to the first host that accepts writes: half of the fleet at each of two servers."""
    fleet = paired_fleet
    fleet.create("mark", schedule="every 1s", overlap="allow", catch_up="all")
    with Creating(fleet) as creating:
        until(lambda: len(fleet.events("end")) > 30, "work is done", fleet.tell)
        pair.first.kill()
        pair.second.promote()
        promoted = time.time()
        until(lambda: creating.since(promoted), "jobs are created again", fleet.tell)
    pair.first.start()
    before = len(fleet.workers())
    latest = fleet.start("worker")
    until(lambda: len(fleet.workers()) > before, "the new worker is registered", fleet.tell)
    with Creating(fleet, callers=20) as more:
        until(lambda: len(more.acknowledged) > 200, "work goes on", fleet.tell)

    fleet.at_rest([*creating.acknowledged, *more.acknowledged])
    assert twice(fleet) == []
    pair.second.silence()
    until(lambda: refused_as_old(fleet), "the API refuses the old primary while the new one is silent", fleet.tell)
    pair.second.kill()
    until(lambda: refused_as_old(fleet), "the API refuses the old primary", fleet.tell)
    until(lambda: "old_primary" in latest.said, "the worker refuses the old primary", fleet.tell)
    if LONG:  # about every ten seconds processes look at the other hosts
        until(lambda: pair.first.ask(NOTES), "those that know better say so at the old primary", fleet.tell)
        late = fleet.start("worker")  # which has seen nothing
        until(lambda: "old_primary" in late.said, "a new process refuses it, too", fleet.tell)


def started_since(fleet: Fleet, at: float) -> float | None:
    return min((one["at"] - at for one in fleet.events("start") if one["at"] > at), default=None)


def twice(fleet: Fleet) -> list[tuple[str, float]]:
    """Occurrences that started twice, be it by two runs."""
    times = Counter((one["job"], one["due"]) for one in fleet.events("start"))
    return [occurrence for occurrence, starts in times.items() if starts > 1]


def refused_as_old(fleet: Fleet) -> bool:
    status, answer, headers = fleet.raw("POST", "/v1/jobs", {"task": "mark"})
    assert status == 503
    return bool(headers["Retry-After"]) and [one["code"] for one in answer["errors"]] == ["old_primary"]
