"""Counts of what there is and what happened."""

from typing import Any

from tests.api.conftest import Desk
from tests.test_docs import ROOT, table

from oncue.domain.instants import MINUTE, rfc3339

API = ROOT / "docs" / "api.md"


def said(counts: dict[str, Any]) -> dict[str, Any]:
    return {name: n for name, n in counts.items() if n}


async def test_runs_are_counted_by_how_they_ended_by_task_and_by_queue(desk: Desk) -> None:
    store = desk.store
    worker = await store.worker()
    await desk.create(queue="q")
    await store.succeed(worker, *await store.claim_due(worker))
    await desk.dead()
    await desk.create("slow", payload={"seconds": 1})
    await store.fail(worker, *await store.claim_due(worker))
    cancelled = await desk.create(schedule=rfc3339(store.at(MINUTE)))
    await desk.call("DELETE", f"/v1/jobs/{cancelled['job_id']}")

    stats = await desk.get("/stats")

    assert [count for count, _ in table(API, "count", "meaning")] == list(stats["runs"])
    assert said(stats["runs"]) == {"open": 1, "created": 4, "succeeded": 1, "dead": 1, "cancelled": 1, "retried": 1}
    assert [said(one) for one in stats["tasks"]] == [
        {"task": "mark", "created": 3, "succeeded": 1, "dead": 1, "cancelled": 1},
        {"task": "slow", "open": 1, "created": 1, "retried": 1},
    ]
    assert [said(one) for one in stats["queues"]] == [
        {"queue": "default", "open": 1, "created": 3, "dead": 1, "cancelled": 1, "retried": 1},
        {"queue": "q", "created": 1, "succeeded": 1},
    ]


async def test_a_member_counts_ones_own_and_an_administrator_everybodys(desk: Desk) -> None:
    await desk.create(key="bob", queue="secret")
    await desk.create()

    mine, all_ = await desk.get("/stats"), await desk.get("/stats", key="root")

    assert (mine["runs"]["created"], [one["queue"] for one in mine["queues"]]) == (1, ["default"])
    assert (all_["runs"]["created"], [one["queue"] for one in all_["queues"]]) == (2, ["default", "secret"])


async def test_before_anything_happened_everything_is_nought(desk: Desk) -> None:
    stats = await desk.get("/stats")

    assert (set(stats["runs"].values()), stats["tasks"], stats["queues"]) == ({0}, [], [])
