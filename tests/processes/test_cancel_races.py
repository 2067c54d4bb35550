"""A cancel at the very moment at which a worker claims the run."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.processes.fleet import LONG, Fleet, Json, rfc3339

pytestmark = pytest.mark.kills

RACES = 500 if LONG else 300
CONNECTIONS = 8
LEAD = 0.15


class Aim:
    """When to cancel, before or after the due time: corrected by each race towards where both outcomes are as likely.

    However slow the machine is, the races are then about the moment of the claim.
    """

    def __init__(self) -> None:
        self.offset = 0.0

    def correct(self, *, too_late: bool) -> None:
        step = -0.001 if too_late else 0.001
        self.offset = max(-LEAD, self.offset + step)


def test_nothing_starts_after_the_answer_cancelled_in_hundreds_of_races(postgres_fleet: Fleet) -> None:
    fleet = postgres_fleet
    fleet.start("api")
    fleet.start("scheduler")
    fleet.start("worker")
    fleet.start("worker")
    fleet.ready(workers=2)

    aim = Aim()

    def race(seed: int) -> tuple[str, int, Json, float]:
        due = time.time() + LEAD
        run_id = fleet.create("slow", {"seconds": 0.03}, schedule=rfc3339(due))
        time.sleep(max(0.0, due + aim.offset + random.Random(seed).uniform(-0.015, 0.015) - time.time()))
        status, answer, _ = fleet.raw("POST", f"/v1/runs/{run_id}/cancel")
        aim.correct(too_late=answer.get("start_time") is not None or status == 409)
        return run_id, status, answer, time.time()

    with ThreadPoolExecutor(CONNECTIONS) as connections:
        races = list(connections.map(race, range(RACES)))

    first_start: dict[str, Json] = {}
    for event in fleet.events("start"):
        assert event["run"] not in first_start, "started twice"
        first_start[event["run"]] = event
    ended = fleet.at_rest([run_id for run_id, *_ in races])
    untouched = 0
    for run_id, status, answer, answered_at in races:
        start = first_start.get(run_id)
        final = ended[run_id]["status"]
        if status == 200:
            assert answer["status"] == final == "cancelled", (answer, final)
            assert start is None or start["at"] < answered_at, (start, answered_at)
            untouched += start is None
        else:
            assert (status, final) == (409, "succeeded"), (status, answer, final)
    assert untouched > RACES / 10  # else nothing was raced
    assert RACES - untouched > RACES / 10
