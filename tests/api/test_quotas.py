"""How many jobs, and how many bytes in them, a member may have: what the API says to one more."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from tests.api.conftest import Desk

from oncue.api.application import Application
from oncue.settings import Settings

HOURLY = {"every": "1h"}


@asynccontextmanager
async def limited(desk: Desk, **settings: int) -> AsyncIterator[Desk]:
    app = Application(desk.store.engine, desk.store.clock, Settings(**settings))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://oncue") as client:
        yield Desk(desk.store, app, client, desk.keys)


@pytest.fixture
async def three(desk: Desk) -> AsyncIterator[Desk]:
    """Three jobs each."""
    async with limited(desk, max_jobs_per_user=3) as found:
        yield found


@pytest.fixture
async def small(desk: Desk) -> AsyncIterator[Desk]:
    """A hundred bytes each."""
    async with limited(desk, max_payload_bytes_per_user=100) as found:
        yield found


def of_bytes(n: int) -> dict[str, str]:
    """A payload that is stored in so many bytes."""
    return {"x": "y" * (n - len('{"x":""}'))}


def told(answer: httpx2.Response) -> tuple[int, str, list[tuple[str, str]]]:
    said = answer.json()
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code, said["detail"], [(one["path"], one["code"]) for one in said["errors"]]


async def status(desk: Desk, body: dict[str, Any], **how: Any) -> int:
    return (await desk.call("POST", "/v1/jobs", {"task": "mark", **body}, **how)).status_code


def test_nobody_has_one_unless_a_setting_says_so() -> None:
    assert (Settings().max_jobs_per_user, Settings().max_payload_bytes_per_user) == (0, 0)


async def test_one_job_too_many_is_refused_with_what_there_is_and_what_to_do(three: Desk) -> None:
    jobs = [await three.create(schedule=HOURLY) for _ in range(3)]

    refused = await three.call("POST", "/v1/jobs", {"task": "mark"})

    assert told(refused) == (
        422,
        "You have 3 active or paused jobs; at most 3 are allowed. Wait until some have ended, cancel some, or ask an"
        " administrator for a larger quota.",
        [("", "quota_exceeded")],
    )
    assert len(await three.jobs()) == 3
    assert (await three.call("DELETE", f"/v1/jobs/{jobs[0]['job_id']}")).status_code == 200
    assert await status(three, {}) == 201
    assert await status(three, {}) == 422


async def test_each_member_has_room_of_their_own_and_an_administrator_any(three: Desk) -> None:
    assert [await status(three, {}) for _ in range(4)] == [201, 201, 201, 422]
    assert [await status(three, {}, key="bob") for _ in range(4)] == [201, 201, 201, 422]
    assert [await status(three, {}, key="root") for _ in range(10)] == [201] * 10


async def test_bytes_too_many_are_refused_by_the_field(small: Desk) -> None:
    await small.create(payload=of_bytes(60))

    refused = await small.call("POST", "/v1/jobs", {"task": "mark", "payload": of_bytes(41)})

    code, detail, errors = told(refused)
    assert (code, errors) == (422, [("payload", "quota_exceeded")])
    assert "have 60 bytes of payload; at most 100 are allowed, and this request adds 41; wait" in detail
    assert await status(small, {"payload": of_bytes(40)}) == 201
    assert await status(small, {}) == 201


async def test_a_batch_is_told_how_many_of_it_would_fit(three: Desk, small: Desk) -> None:
    await three.create()
    batch = {"jobs": [{"task": "mark"}] * 5}

    code, detail, errors = told(await three.call("POST", "/v1/jobs/batch", batch))

    assert (code, errors) == (422, [("", "quota_exceeded")])
    assert detail.startswith("You have 1 active or paused jobs; at most 3 are allowed; 2 of these 5 would fit. ")
    assert len(await three.jobs()) == 1
    assert (await three.call("POST", "/v1/jobs/batch", {"jobs": batch["jobs"][:2]})).status_code == 201

    sizes = {"jobs": [{"task": "mark", "payload": of_bytes(n)} for n in (50, 51, 20)]}
    code, detail, errors = told(await small.call("POST", "/v1/jobs/batch", sizes, key="bob"))
    assert (code, errors) == (422, [("jobs.1.payload", "quota_exceeded")])
    assert (
        "have 0 bytes of payload; at most 100 are allowed, and this request adds 51; 2 of these 3 would fit; " in detail
    )


async def test_putting_by_key_makes_no_job_too_many_but_changes_what_there_is(three: Desk) -> None:
    body = {"task": "mark", "schedule": HOURLY}
    answers = [await three.call("PUT", f"/v1/jobs/by-key/{key}", body) for key in "abcd"]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 422]
    assert told(answers[3])[2] == [("", "quota_exceeded")]

    assert (await three.call("PUT", "/v1/jobs/by-key/a", body | {"name": "new"})).status_code == 200
    await three.call("DELETE", f"/v1/jobs/{answers[0].json()['job_id']}")
    assert (await three.call("PUT", "/v1/jobs/by-key/d", body)).status_code == 201
    assert (await three.call("PUT", "/v1/jobs/by-key/a", body)).status_code == 422


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@pytest.mark.parametrize("schedule", [HOURLY, {"at": "2031-01-01T00:00:00Z"}])
async def test_a_change_that_makes_a_payload_larger_counts(small: Desk, method: str, schedule: Any) -> None:
    job = await small.create(schedule=schedule, payload=of_bytes(50))
    await small.create(schedule=schedule, payload=of_bytes(50))

    async def change(**fields: Any) -> httpx2.Response:
        return await small.call(method, f"/v1/jobs/{job['job_id']}", fields)

    refused = await change(payload=of_bytes(51), name="larger")
    assert (told(refused)[0], told(refused)[2]) == (422, [("payload", "quota_exceeded")])
    assert (await small.get(f"/jobs/{job['job_id']}"))["name"] is None
    assert (await change(name="as large")).status_code == 200
    assert (await change(payload=of_bytes(49))).status_code == 200
    assert (await change(payload=of_bytes(50))).status_code == 200
    as_root = await small.call(method, f"/v1/jobs/{job['job_id']}", {"payload": of_bytes(90)}, key="root")
    assert as_root.status_code == 200
    assert (await change(payload=of_bytes(91))).status_code == 422
    assert (await change(payload=of_bytes(70))).status_code == 200


async def test_by_key_a_larger_payload_counts_as_well(small: Desk) -> None:
    body = {"task": "mark", "schedule": HOURLY}
    assert (await small.call("PUT", "/v1/jobs/by-key/a", body | {"payload": of_bytes(90)})).status_code == 201

    refused = await small.call("PUT", "/v1/jobs/by-key/a", body | {"payload": of_bytes(101)})

    assert told(refused)[2] == [("payload", "quota_exceeded")]
    assert (await small.call("PUT", "/v1/jobs/by-key/a", body)).status_code == 200


async def test_who_is_refused_may_try_again_with_the_same_idempotency_key(three: Desk) -> None:
    jobs = [await three.create(schedule=HOURLY) for _ in range(3)]
    once = {"Idempotency-Key": "order-17"}
    assert await status(three, {"name": "a"}, headers=once) == 422
    await three.call("DELETE", f"/v1/jobs/{jobs[0]['job_id']}")

    assert await status(three, {"name": "b"}, headers=once) == 201
    assert await status(three, {"name": "b"}, headers=once) == 200


async def test_of_fifty_at_once_in_two_processes_as_many_are_stored_as_may_be(desk: Desk) -> None:
    other = await desk.store.second()
    async with limited(desk, max_jobs_per_user=7) as here:
        app = Application(other.engine, desk.store.clock, Settings(max_jobs_per_user=7))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://oncue") as client:
            there = Desk(other, app, client, desk.keys)
            answers = await asyncio.gather(*(status([here, there][n % 2], {}) for n in range(50)))

    assert Counter(answers) == {201: 7, 422: 43}
    assert len(await desk.jobs()) == 7
