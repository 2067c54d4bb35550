"""The job that a user has under a stable key, read by that key."""

from typing import Any
from uuid import UUID

import httpx2
import pytest
from tests.api.conftest import TASKS, Desk, read_back

from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, Duration, rfc3339
from oncue.domain.run import State


async def put(desk: Desk, key: str, caller: str = "ada", **fields: Any) -> Any:
    body = {"task": "mark", "schedule": "every 1h", **fields}
    answer = await desk.call("PUT", f"/v1/jobs/by-key/{key}", body, key=caller)
    assert answer.status_code in (200, 201), answer.text
    return read_back(answer)


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


@pytest.mark.parametrize("body", [{}, {"name": "other"}])
async def test_a_one_shot_that_is_being_stopped_is_made_anew(desk: Desk, body: dict[str, str]) -> None:
    store, worker = desk.store, await desk.store.worker()
    first = (await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark"})).json()
    [run] = await store.claim_due(worker)
    ended = await desk.call("DELETE", f"/v1/jobs/{first['job_id']}")
    assert ended.json()["status"] == (await read(desk, "k")).json()["status"] == "cancelled"

    again = await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark", **body})

    assert (again.status_code, again.json()["status"]) == (201, "active")
    assert again.json()["job_id"] != first["job_id"]
    await store.succeed(worker, run)
    assert (await read(desk, "k")).json()["job_id"] == again.json()["job_id"]


async def test_an_etag_is_of_one_job_whoever_has_the_key_after_it(desk: Desk) -> None:
    first = await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark", "schedule": "every 1h"})
    await desk.call("DELETE", f"/v1/jobs/{first.json()['job_id']}")
    second = await put(desk, "k", name="somebody else's")
    body, match = {"task": "mark", "schedule": "every 1h"}, {"If-Match": first.headers["ETag"]}

    stale = await desk.call("PUT", "/v1/jobs/by-key/k", body, headers=match)

    assert (stale.status_code, (await read(desk, "k")).json()) == (412, second)
    for tag in ((await read(desk, "k")).headers["ETag"], '"2"'):  # a bare version is taken, too
        answer = await desk.call("PUT", "/v1/jobs/by-key/k", {**body, "name": tag}, headers={"If-Match": tag})
        assert answer.status_code == 200


async def test_whoever_wants_to_make_it_replaces_none(desk: Desk) -> None:
    body, absent = {"task": "mark", "schedule": "every 1h"}, {"If-None-Match": "*"}
    first = await desk.call("PUT", "/v1/jobs/by-key/k", body, headers=absent)
    refused = await desk.call("PUT", "/v1/jobs/by-key/k", {**body, "name": "n"}, headers=absent)
    assert (first.status_code, refused.status_code, (await read(desk, "k")).json()) == (201, 412, read_back(first))

    await desk.call("DELETE", f"/v1/jobs/{first.json()['job_id']}")

    assert (await desk.call("PUT", "/v1/jobs/by-key/k", body, headers=absent)).status_code == 201


async def test_a_one_shot_that_ran_does_not_run_again_when_its_history_was_dropped(desk: Desk) -> None:
    store = desk.store
    body = {"task": "mark", "payload": {"a": 1, "b": [True]}, "schedule": rfc3339(store.now)}
    first = (await desk.call("PUT", "/v1/jobs/by-key/k", body)).json()
    await store.end(RunId(UUID(first["job_id"])), State.SUCCEEDED)
    store.advance(60 * DAY)
    assert await store.maintenance.maintain(store.now, Duration(30 * DAY))
    await store.fleet.announce(TASKS, store.now)
    assert (await read(desk, "k")).status_code == 404

    again = await desk.call("PUT", "/v1/jobs/by-key/k", {**body, "payload": {"b": [True], "a": 1}})

    assert (again.status_code, again.json()["status"]) == (200, "finished")
    assert (again.json()["job_id"], again.json()["created_at"]) == (first["job_id"], first["created_at"])
    assert await store.claimable() == []
    assert [audit_entry["action"] for audit_entry in (await desk.get("/audit"))["audit"]] == ["job.put"]  # of the first
    other = await desk.call("PUT", "/v1/jobs/by-key/k", {**body, "payload": {"a": 1, "b": [1]}})
    assert (other.status_code, len(await store.claimable())) == (201, 1)


async def test_a_payload_is_the_same_in_whatever_order_and_none_is_one_without_arguments(desk: Desk) -> None:
    first = await put(desk, "k", payload={"a": 1, "b": {"c": [1], "d": None}})
    assert await put(desk, "k", payload={"b": {"d": None, "c": [1]}, "a": 1}) == first
    assert (await put(desk, "k", payload={"a": True, "b": {"c": [1], "d": None}}))["version"] == 2
    none = await put(desk, "none")
    assert await put(desk, "none", payload={}) == none
