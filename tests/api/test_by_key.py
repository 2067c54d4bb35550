"""The job that a user has under a stable key, read by that key."""

from typing import Any

import httpx2
import pytest
from tests.api.conftest import Desk


async def put(desk: Desk, key: str, caller: str = "ada", **fields: Any) -> Any:
    body = {"task": "mark", "schedule": "every 1h", **fields}
    answer = await desk.call("PUT", f"/v1/jobs/by-key/{key}", body, key=caller)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def read(desk: Desk, key: str, caller: str = "ada") -> httpx2.Response:
    return await desk.call("GET", f"/v1/jobs/by-key/{key}", key=caller)


async def test_it_is_the_job_as_it_is_read_by_its_id(desk: Desk) -> None:
    job = await put(desk, "nightly")

    answer = await read(desk, "nightly")

    by_id = await desk.call("GET", f"/v1/jobs/{job['job_id']}")
    assert (answer.status_code, answer.json(), answer.headers["ETag"]) == (200, by_id.json(), by_id.headers["ETag"])


@pytest.mark.parametrize("key", ["status", "runs", "a/b", "x/explain", "a%20b", "%C3%BC"])
async def test_a_key_may_be_called_like_a_part_of_another_path(desk: Desk, key: str) -> None:
    job = await put(desk, key)

    assert (await read(desk, key)).json()["job_id"] == job["job_id"]


async def test_each_user_has_keys_of_their_own_and_so_has_an_administrator(desk: Desk) -> None:
    hers = await put(desk, "k")
    for who in ("bob", "root"):
        answer = await read(desk, "k", who)
        assert (answer.status_code, answer.content) == (404, (await read(desk, "nobody has it", who)).content)

    roots = await put(desk, "k", "root")

    assert (await read(desk, "k", "root")).json()["job_id"] == roots["job_id"]
    assert (await read(desk, "k", "viewer")).json()["job_id"] == hers["job_id"]


async def test_of_those_that_had_it_it_is_the_last(desk: Desk) -> None:
    first = await put(desk, "k")
    await desk.call("DELETE", f"/v1/jobs/{first['job_id']}")
    assert ((await read(desk, "k")).json()["job_id"], (await read(desk, "k")).json()["status"]) == (
        first["job_id"],
        "cancelled",
    )

    second = await put(desk, "k")

    assert (await read(desk, "k")).json()["job_id"] == second["job_id"] != first["job_id"]


async def test_what_cannot_be_a_key_is_refused(desk: Desk) -> None:
    answer = await read(desk, "x" * 201)

    assert (answer.status_code, [one["path"] for one in answer.json()["errors"]]) == (422, ["key"])
