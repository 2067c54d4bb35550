"""A job that takes its worker with it."""

from __future__ import annotations

import pytest
from tests.processes.fleet import Fleet

pytestmark = pytest.mark.kills


def test_a_job_that_ends_its_worker_is_dead_after_three_deliveries_and_its_neighbours_finish(fleet: Fleet) -> None:
    up = fleet.up()
    neighbours = [fleet.create("slow", {"seconds": 3}) for _ in range(4)]
    fleet.started(*neighbours)

    poison = fleet.create("poison", max_retries=10)

    run = fleet.at_rest([poison])[poison]
    assert run["status"] == "dead"
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost"] * 3
    assert "3 workers were lost while running it" in run["error_message"]
    assert len(fleet.events("start", poison)) == 3
    assert {run["status"] for run in fleet.at_rest(neighbours).values()} == {"succeeded"}
    assert up.process.poll() is None
    assert up.said.count("worker_restarted") == 2  # the third time it ran alone
    after = fleet.create("mark")
    assert fleet.at_rest([after])[after]["status"] == "succeeded"
