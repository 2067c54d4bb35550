"""Making jobs once: idempotency keys, batches, and many callers at the same time."""

import asyncio
import json
from collections import Counter

import pytest
from tests.api.conftest import Desk

from oncue.api.create import LARGEST_BATCH
from oncue.api.http import items
from oncue.domain.errors import StoreUnavailable
from oncue.engines.port import JobQuery
from oncue.intake import definitions

ONCE = {"Idempotency-Key": "order-17"}


async def test_the_same_key_and_body_again_is_the_same_job(desk: Desk) -> None:
    body = {"task": "mark", "payload": {"a": 1, "b": 2}}
    first = await desk.call("POST", "/v1/jobs", body, headers=ONCE)
    again = await desk.call("POST", "/v1/jobs", {"payload": {"b": 2, "a": 1}, "task": "mark"}, headers=ONCE)

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["job_id"] == first.json()["job_id"]
    assert len(await desk.jobs()) == 1


async def test_the_key_with_another_body_is_refused_and_stores_nothing(desk: Desk) -> None:
    await desk.call("POST", "/v1/jobs", {"task": "mark"}, headers=ONCE)

    other = await desk.call("POST", "/v1/jobs", {"task": "mark", "name": "other"}, headers=ONCE)

    assert other.status_code == 422
    assert "different body" in other.json()["detail"]
    assert len(await desk.jobs()) == 1


async def test_keys_of_different_users_have_nothing_to_do_with_each_other(desk: Desk) -> None:
    mine = await desk.call("POST", "/v1/jobs", {"task": "mark"}, headers=ONCE)
    theirs = await desk.call("POST", "/v1/jobs", {"task": "mark"}, headers=ONCE, key="bob")

    assert (mine.status_code, theirs.status_code) == (201, 201)


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
async def test_a_key_that_is_none_is_refused(desk: Desk, key: str) -> None:
    answer = await desk.call("POST", "/v1/jobs", {"task": "mark"}, headers={"Idempotency-Key": key})

    assert answer.status_code == 422
    assert [problem["path"] for problem in answer.json()["errors"]] == ["Idempotency-Key"]
    assert await desk.nothing_stored()


async def test_of_many_with_one_key_at_once_one_makes_the_job(desk: Desk) -> None:
    calls = [desk.call("POST", "/v1/jobs", {"task": "mark"}, headers=ONCE) for _ in range(50)]

    answers = await asyncio.gather(*calls)

    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 49}
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert len(await desk.jobs()) == 1


async def test_many_at_once_are_stored_together_and_each_gets_its_own(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, batches = desk.store.engine.jobs.create, list[int]()

    async def create(new, now, **how):
        batches.append(len(new))
        return await real(new, now, **how)

    monkeypatch.setattr(desk.store.engine.jobs, "create", create)
    answers = await asyncio.gather(
        *(desk.call("POST", "/v1/jobs", {"task": "mark", "name": f"n{i}"}) for i in range(40))
    )

    assert [answer.json()["name"] for answer in answers] == [f"n{i}" for i in range(40)]
    assert sum(batches) == 40
    assert len(batches) < 20


async def test_a_store_that_is_away_is_told_to_everybody_and_the_next_ones_work(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_, **__):
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store.engine.jobs, "create", away)
        answers = await asyncio.gather(*(desk.call("POST", "/v1/jobs", {"task": "mark"}) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {503}

    assert (await desk.call("POST", "/v1/jobs", {"task": "mark"})).status_code == 201


# ---------------------------------------------------------------------------------------------------------------- batch


async def test_a_batch_is_stored_whole_and_answers_in_order(desk: Desk) -> None:
    jobs = [{"task": "mark", "name": f"n{i}"} for i in range(30)] + [{"task": "mark", "schedule": "every 1h"}]

    answer = await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs})

    assert answer.status_code == 201
    names = [(await desk.get(f"/jobs/{job_id}"))["name"] for job_id in answer.json()["job_ids"]]
    assert names == [*(f"n{i}" for i in range(30)), None]


async def test_one_that_is_wrong_is_named_by_its_index_and_nothing_is_stored(desk: Desk) -> None:
    jobs = [{"task": "mark"}, {"task": "nope"}, "mark", {"task": "slow", "payload": {"seconds": "x"}}]

    answer = await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs})

    assert answer.status_code == 422
    assert {problem["path"] for problem in answer.json()["errors"]} == {
        "jobs.1.task",
        "jobs.2",
        "jobs.3.payload.seconds",
    }
    assert await desk.nothing_stored()


@pytest.mark.parametrize(
    "body", [{}, {"jobs": []}, {"jobs": {}}, {"jobs": [{"task": "mark"}] * (LARGEST_BATCH + 1)}, {"jobs": [], "x": 1}]
)
async def test_what_is_no_batch_is_refused(desk: Desk, body: dict[str, object]) -> None:
    assert (await desk.call("POST", "/v1/jobs/batch", body)).status_code == 422
    assert await desk.nothing_stored()


async def test_a_batch_that_is_sent_again_is_not_stored_again(desk: Desk) -> None:
    body = {"jobs": [{"task": "mark"}] * 3}
    first = await desk.call("POST", "/v1/jobs/batch", body, headers=ONCE)
    again = await desk.call("POST", "/v1/jobs/batch", body, headers=ONCE)
    other = await desk.call("POST", "/v1/jobs/batch", {"jobs": [{"task": "mark"}] * 2}, headers=ONCE)

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 422)
    assert again.json() == first.json()
    assert len((await desk.store.lists.jobs(JobQuery())).items) == 3


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"payload": {"seconds": "1"}}, "jobs.2.payload.seconds"),
        ({"payload": {"seconds": 1, "x\0": 1}}, "jobs.2.payload.x\\x00"),
        ({"payload": {"seconds": 1, "nmae": "x"}}, "jobs.2.payload.nmae"),
        ({"payload": [1]}, "jobs.2.payload"),
        ({"max_retries": True}, "jobs.2.max_retries"),
        ({"nonsense": 1}, "jobs.2.nonsense"),
        ({"name": "half \ud800"}, "jobs.2.name"),
    ],
)
async def test_neighbours_that_are_nearly_alike_are_told_apart(desk: Desk, wrong: dict[str, object], path: str) -> None:
    """What was checked with the one before is not checked again: 1 is no true, and a payload is each one's own."""
    alike: dict[str, object] = {"task": "slow", "max_retries": 1, "payload": {"seconds": 1}}
    body = json.dumps({"jobs": [alike, alike, alike | wrong, alike]}).encode()

    refused = await desk.call("POST", "/v1/jobs/batch", body)

    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == [path]
    assert await desk.nothing_stored()


async def test_of_a_batch_each_gets_its_own_payload_and_what_else_it_asked_for(desk: Desk) -> None:
    jobs = [{"task": "slow", "queue": queue, "payload": {"seconds": n}} for queue in "ab" for n in (1, 2, 1)]

    made = (await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs})).json()["job_ids"]

    found = [await desk.get(f"/jobs/{job_id}") for job_id in made]
    assert [(job["queue"], job["payload"]) for job in found] == [(job["queue"], job["payload"]) for job in jobs]


async def test_others_have_their_turns_while_a_large_batch_is_checked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "TURN", -1)
    batch = asyncio.create_task(desk.call("POST", "/v1/jobs/batch", {"jobs": [{"task": "mark"}] * 2_000}))
    answered = 0
    while not batch.done():
        assert (await desk.call("GET", "/healthz")).status_code == 200
        await asyncio.sleep(0)
        answered += 1

    assert (await batch).status_code == 201
    assert answered > 20


async def test_a_body_of_more_values_than_memory_has_room_for_is_refused_before_it_is_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "MOST_VALUES", 30_000)

    async def sent(count: int) -> int:
        body = b'{"jobs":[' + b",".join([b"{}"] * count) + b"]}"
        return (await desk.call("POST", "/v1/jobs/batch", body)).status_code

    assert await sent(31_000) == 413
    assert await sent(14_000) == 422
