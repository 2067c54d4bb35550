"""The PostgreSQL server crashes under load and comes back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.processes.fleet import Fleet, Json, children_of, until

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

OUTAGE = 4.0
ANSWER_WITHIN = 2.0  # beyond a few times what readiness takes, which asks for a second at most


@pytest.fixture
def crashing_fleet(crashable_postgres: PrivatePostgres, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, crashable_postgres.create_database("oncue"))
    fleet.start("api")
    fleet.start("scheduler")
    for _ in range(2):
        fleet.start("worker")
    fleet.ready(workers=2)
    try:
        yield fleet
    finally:
        fleet.close()


class Load:
    """Callers that create jobs and ask whether the API is ready, all the while; and what they were answered."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._enough = Event()
        self.created: list[str] = []
        self.answers: list[tuple[float, str, int, float, str | None]] = []  # when, path, status, seconds, Retry-After
        self._callers = [Thread(target=self._create) for _ in range(3)] + [Thread(target=self._ask)]

    def __enter__(self) -> Load:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for caller in self._callers:
            caller.join()

    def statuses(self, path: str, since: float, until: float) -> list[int]:
        """Of what was asked and answered in between."""
        return [
            status
            for at, asked, status, seconds, _ in self.answers
            if asked == path and since < at and at + seconds < until
        ]

    def says_it_is_away(self, since: float) -> None:
        """Every caller is sent away again and again, though the store has said nothing yet, and will not."""
        for path, enough in (("/readyz", 3), ("/v1/jobs", 9)):
            until(lambda p=path, n=enough: len(self.statuses(p, since, time.time())) >= n, f"{path} answers")
            assert set(self.statuses(path, since, time.time())) == {503}
        assert self.slowest("/v1/jobs", since) < ANSWER_WITHIN + 3 * self.slowest("/readyz", since)

    def slowest(self, path: str, since: float) -> float:
        return max(seconds for at, asked, _, seconds, _ in self.answers if asked == path and at > since)

    def _create(self) -> None:
        for number in count():
            if self._enough.wait(0.03):
                return
            job = {"task": "slow", "payload": {"seconds": 0.2 * (number % 4)}}
            status, answer = self._call("POST", "/v1/jobs", job)
            if status == 201:
                self.created.append(answer["job_id"])

    def _ask(self) -> None:
        while not self._enough.wait(0.05):
            self._call("GET", "/readyz")

    def _call(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        asked_at = time.time()
        status, answer, headers = self._fleet.raw(method, path, body)
        self.answers.append((asked_at, path, status, time.time() - asked_at, headers.get("Retry-After")))
        return status, answer


def test_after_a_crash_of_postgres_nothing_is_lost_and_work_goes_on(
    crashing_fleet: Fleet, crashable_postgres: PrivatePostgres
) -> None:
    fleet = crashing_fleet
    every_second = fleet.create("mark", schedule="every 1s", overlap="allow", catch_up="all")
    with Load(fleet) as load:
        until(lambda: len(fleet.events("end")) > 50, "work is done", fleet.tell)
        crashable_postgres.stop("immediate")
        away_at = time.time()
        until(lambda: time.time() > away_at + OUTAGE, "it is away for a while")
        load.says_it_is_away(away_at)
        crashable_postgres.start()
        back_at = time.time()
        goes_on(fleet, load, back_at)
        crashable_postgres.restart("immediate")
        goes_on(fleet, load, time.time())

    assert {status for _, _, status, _, _ in load.answers} == {200, 201, 503}
    assert all(after is not None for _, _, status, _, after in load.answers if status == 503)
    ended = fleet.at_rest(load.created)
    assert {run["status"] for run in ended.values()} == {"succeeded"}
    fleet.call("DELETE", f"/jobs/{every_second}")
    starts = [event["run"] for event in fleet.events("start")]
    assert len(starts) == len(set(starts))  # no worker died: nothing has a reason to start twice
    assert set(load.created) <= set(starts)
    assert any_at(fleet, away_at)  # else no run was caught by the crash
    assert ticks_missing(fleet, every_second) == []


def test_while_postgres_hangs_the_api_says_so_and_afterwards_work_goes_on(
    crashing_fleet: Fleet, crashable_postgres: PrivatePostgres
) -> None:
    fleet = crashing_fleet
    with Load(fleet) as load:
        until(lambda: len(fleet.events("end")) > 50, "work is done", fleet.tell)
        with hanging(crashable_postgres.pid):
            away_at = time.time()
            until(lambda: time.time() > away_at + OUTAGE, "it hangs for a while")
            load.says_it_is_away(away_at)
        goes_on(fleet, load, time.time())

    ended = fleet.at_rest(load.created)
    assert {run["status"] for run in ended.values()} == {"succeeded"}
    starts = [event["run"] for event in fleet.events("start")]
    assert len(starts) == len(set(starts))


@contextmanager
def hanging(postmaster: int) -> Iterator[None]:
    """The server and all its processes take connections and words, and answer nothing."""
    os.kill(postmaster, signal.SIGSTOP)  # first: it would start more of them
    stopped = [postmaster, *children_of(postmaster)]
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def goes_on(fleet: Fleet, load: Load, back_at: float) -> None:
    """Runs start again, new jobs are taken, and the API says so."""

    def all_of_it() -> bool:
        starts = fleet.events("start")
        now = time.time()
        return (
            starts[-1]["at"] > back_at
            and 201 in load.statuses("/v1/jobs", back_at, now)
            and 200 in load.statuses("/readyz", back_at, now)
            and load.created[-1] in {event["run"] for event in starts}
        )

    until(all_of_it, "work goes on", fleet.tell)


def any_at(fleet: Fleet, at: float) -> bool:
    ends = {event["run"]: event["at"] for event in fleet.events("end")}
    return any(event["at"] < at < ends[event["run"]] for event in fleet.events("start") if event["run"] in ends)


def ticks_missing(fleet: Fleet, job: str) -> list[float]:
    """Between its first and its last start, instants a second apart at which it did not start."""
    due = sorted(round(event["due"], 3) for event in fleet.events("start") if event["job"] == job)
    expected = [round(due[0] + second, 3) for second in range(round(due[-1] - due[0]) + 1)]
    return sorted(set(expected) ^ set(due))
