"""A synchronous replica falls silent: commits wait for it, reads and pings are answered."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.processes.fleet import COMMAND, LONG, Fleet, Json, until

from oncue.testing.postgres_replica import ReplicatedPostgres

pytestmark = pytest.mark.kills

CALLERS = 8
CALLS = 400 if LONG else 100  # a quarter each of creates, PUTs, pauses and cancels
WITHIN = 2.0  # seconds
BUSY = 1.0 if LONG else 3.0  # more, because other tests use the machine, too


class Answered(NamedTuple):
    status: int
    seconds: float
    after: str | None
    body: Json


class Stalled:
    """A fleet on two servers of which the second is synchronous, and jobs that calls can be about."""

    def __init__(self, fleet: Fleet, servers: ReplicatedPostgres) -> None:
        self.fleet = fleet
        self.servers = servers
        fleet.deploy()
        self.jobs = fleet.batch(
            [{"task": "slow", "payload": {"seconds": 0}, "schedule": "every 1h"} for _ in range(CALLS)]
        )
        servers.first.set_synchronous(servers.second)

    def call(self, number: int) -> Answered:
        """The same request for the same number, each time."""
        kind, key = number % 4, f"number-{number}"
        job = {"task": "slow", "payload": {"seconds": number}, "schedule": "every 1h"}
        method, path, body, headers = [
            ("POST", "/v1/jobs", job, {"Idempotency-Key": key}),
            ("PUT", f"/v1/jobs/by-key/{key}", job, {}),
            ("POST", f"/v1/jobs/{self.jobs[number]}/pause", {}, {}),
            ("DELETE", f"/v1/jobs/{self.jobs[number]}", None, {}),
        ][kind]
        return self.asked(method, path, body, headers)

    def asked(
        self, method: str, path: str, body: Json | None = None, headers: dict[str, str] | None = None
    ) -> Answered:
        began = time.monotonic()
        status, answer, told = self.fleet.raw(method, path, body, headers=headers)
        return Answered(status, time.monotonic() - began, told.get("Retry-After"), answer)

    def all_calls(self) -> list[Answered]:
        with ThreadPoolExecutor(CALLERS) as callers:
            return list(callers.map(self.call, range(CALLS)))

    def waiting(self) -> int:
        """Sessions of the first server that wait for the replica."""
        waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
        return int(self.servers.first.ask(waiting))


@pytest.fixture
def stalled(replicated_postgres: ReplicatedPostgres, tmp_path: Path) -> Iterator[Stalled]:
    fleet = Fleet(tmp_path, replicated_postgres.create_database("oncue"))
    try:
        yield Stalled(fleet, replicated_postgres)
    finally:
        replicated_postgres.second.wake()
        fleet.close()


def p99(answers: list[Answered]) -> float:
    return sorted(one.seconds for one in answers)[int(0.99 * (len(answers) - 1))]


def test_while_a_synchronous_replica_is_silent_changes_are_refused_at_once_and_reads_go_on(stalled: Stalled) -> None:
    """100 calls of eight callers: creates, PUTs, pauses and cancels."""
    silent = stalled.servers.second
    assert stalled.asked("GET", "/readyz").status == 200
    silent.silence()
    answers = stalled.all_calls()

    print(f"{CALLS} calls: p99 {p99(answers):.2f} s, {stalled.waiting()} sessions wait")
    assert {(one.status, one.after) for one in answers} == {(503, "1")}  # so that none was acknowledged
    assert p99(answers) < WITHIN + BUSY
    assert {silent.name in one.body["detail"] for one in answers} == {True}
    reads = [stalled.asked("GET", f"/v1/jobs/{job}") for job in stalled.jobs[:20]]
    assert {(one.status, one.body["status"]) for one in reads} == {(200, "active")}
    assert p99(reads) < BUSY
    ready = stalled.asked("GET", "/readyz")
    assert (ready.status, silent.name in ready.body["detail"]) == (503, True)
    assert ready.seconds < WITHIN + BUSY
    assert silent.name in doctor(stalled.fleet)
    assert 0 < stalled.waiting() < 60, "what gave up waiting waits on, unseen, and is not tried again and again"

    silent.wake()
    woken = time.monotonic()
    until(lambda: stalled.asked("GET", "/readyz").status == 200, "it is ready again", stalled.fleet.tell)
    repeated = stalled.all_calls()
    print(f"ready {time.monotonic() - woken:.2f} s after the replica woke, with all calls again")
    assert {one.status for one in repeated} <= {200, 201, 202}
    assert len({one.body["job_id"] for one in repeated}) == CALLS
    there = {job["job_id"] for job in stalled.fleet.call("GET", "/jobs?limit=1000")["jobs"]}
    assert {one.body["job_id"] for one in repeated} <= there
    assert "Traceback" not in stalled.fleet.tell()


def doctor(fleet: Fleet) -> str:
    asked = [*COMMAND, "doctor", "--engine", fleet.engine, "--data-dir", str(fleet.folder)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout
