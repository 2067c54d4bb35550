"""A job that takes its worker with it."""

from __future__ import annotations

import pytest
from tests.processes.fleet import Fleet

pytestmark = pytest.mark.kills


def test_a_job_that_ends_its_worker_is_dead_after_three_deliveries_and_its_neighbours_finish(any_fleet: Fleet) -> None:
    up = any_fleet.up()
    neighbours = [any_fleet.create("slow", {"seconds": 1.5}) for _ in range(4)]
    any_fleet.started(*neighbours)

    poison = any_fleet.create("poison", max_retries=10)

    run = any_fleet.at_rest([poison], 20)[poison]
    assert run["status"] == "dead"
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost"] * 3
    assert "3 workers were lost while running it" in run["error_message"]
    assert len(any_fleet.events("start", poison)) == 3
    assert {run["status"] for run in any_fleet.at_rest(neighbours, 20).values()} == {"succeeded"}
    assert up.process.poll() is None
    assert up.said.count("a worker process ended; another takes its place") == 2  # the third time it ran alone
    after = any_fleet.create("mark")
    assert any_fleet.at_rest([after], 10)[after]["status"] == "succeeded"
