"""What a real worker says of itself reaches whoever asks why something does not run."""

from typing import Any

import httpx2
import pytest
from tests.examples.server import ask, create, eventually


async def worker_of(client: httpx2.AsyncClient) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        workers = (await ask(client, "GET", "/workers", 200))["workers"]
        return workers[0] if workers else None

    return await eventually(look)


async def test_a_worker_says_what_it_can_run(client: httpx2.AsyncClient) -> None:
    worker = await worker_of(client)
    announced = [task["name"] for task in (await ask(client, "GET", "/tasks", 200))["tasks"]]
    queues = {queue["name"]: queue for queue in (await ask(client, "GET", "/queues", 200))["queues"]}

    assert (worker["offer"]["tasks"], worker["offer"]["queues"], worker["offer"]["labels"]) == (
        sorted([*announced, "notify"]),
        ["default", "oncue"],
        [],
    )
    assert worker["offer"]["resources"]["memory_mb"] > 0
    assert queues["default"]["workers"] == [worker["worker_id"]]


@pytest.mark.parametrize(
    ("asks", "reason", "says"),
    [
        ({"queue": "elsewhere"}, "no_worker", "Start a worker with --tasks FILE.py --queues elsewhere"),
        ({"labels": ["moon"]}, "no_labels", "Start a worker with --tasks FILE.py --queues default --labels moon"),
        ({"resources": {"memory_mb": 1_000_000}}, "too_big", "Request less"),
    ],
)
async def test_a_job_that_it_cannot_take_says_why(
    client: httpx2.AsyncClient, asks: dict[str, Any], reason: str, says: str
) -> None:
    await worker_of(client)
    job = await create(client, {"task": "hello", **asks})

    for path in (f"/jobs/{job['job_id']}/explain", f"/runs/{job['job_id']}/explain"):
        found = await ask(client, "GET", path, 200)
        assert (found["state"], found["reason"], says in found["detail"]) == ("queued", reason, True), found
    await ask(client, "DELETE", f"/jobs/{job['job_id']}", 200)
