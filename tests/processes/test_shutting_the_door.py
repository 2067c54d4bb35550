"""SIGTERM to an API that is in use: whoever has asked is answered, streams end as responses end, and it says 0."""

from __future__ import annotations

import json
import signal
from threading import Thread

import pytest
from tests.processes.fleet import Fleet, Member, until
from tests.processes.streams import Wire

pytestmark = pytest.mark.kills

ENDED = b"0\r\n\r\n"  # the last chunk of a response that is complete
JOB = json.dumps({"task": "slow", "payload": {"seconds": 0}}).encode()


@pytest.fixture(params=["up on sqlite", "api on postgres"])
def started(request: pytest.FixtureRequest) -> tuple[Fleet, Member]:
    """Each role on the engine where it is usual: how a door is shut has nothing to do with the store."""
    fleet: Fleet = request.getfixturevalue("fleet" if request.param == "up on sqlite" else "postgres_fleet")
    if request.param == "up on sqlite":
        return fleet, fleet.up()
    api = fleet.start("api")
    fleet.start("worker")
    fleet.ready(workers=1)
    return fleet, api


def test_streams_end_and_what_was_asked_is_answered(started: tuple[Fleet, Member]) -> None:
    fleet, server = started
    with (
        Wire(fleet, "GET", "/v1/events") as stream,
        Wire(fleet, "GET", "/v1/events") as other,
        Wire(fleet, "POST", "/v1/jobs", length=len(JOB)) as asked,
        Wire(fleet, "GET", "/healthz") as idle,
    ):
        for open_one in (stream, other):
            open_one.until(b"id: ")
        idle.until(b'{"status":"ok"}')
        asked.send(JOB[:10])
        server.send(signal.SIGTERM)
        ended = [open_one.to_the_end().endswith(ENDED) for open_one in (stream, other)]
        asked.send(JOB[10:])
        answer = asked.to_the_end()

        assert server.ended() == 0

    assert ended == [True, True]
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert "Traceback" not in server.said


def test_jobs_that_were_acknowledged_under_load_are_there(started: tuple[Fleet, Member]) -> None:
    fleet, server = started
    made: list[str] = []
    refused: list[object] = []

    def create() -> None:
        while True:
            status, answer, _ = fleet.raw("POST", "/v1/jobs", {"task": "slow", "payload": {"seconds": 0}})
            if status == 0:
                return
            if status == 201:
                made.append(answer["job_id"])
            else:
                refused.append((status, answer))

    callers = [Thread(target=create) for _ in range(4)]
    for caller in callers:
        caller.start()
    until(lambda: len(made) > 40, "jobs are made", fleet.tell)
    server.send(signal.SIGTERM)

    assert server.ended() == 0

    for caller in callers:
        caller.join()
    assert refused == []
    again = fleet.start("api")
    until(lambda: fleet.raw("GET", "/readyz")[0] == 200, "it is back", fleet.tell)
    assert {fleet.raw("GET", f"/v1/jobs/{job}")[0] for job in made} == {200}
    again.send(signal.SIGTERM)
    assert again.ended() == 0
