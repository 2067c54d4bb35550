"""Groups of errors: listed, of the caller's own only, and used to choose dead letters."""

from typing import Any

import pytest
from tests.api.conftest import Desk

from oncue.domain import attempt
from oncue.domain.attempt import Failure
from oncue.domain.job import decode_spec


async def failing(desk: Desk, *errors: str, key: str = "ada") -> list[str]:
    worker = await desk.store.worker()
    for error in errors:
        await desk.create(key=key)
        [run] = await desk.store.claim_due(worker)
        failure = Failure(error_type="ValueError", error=error, retry=False)
        now = desk.store.now
        await desk.store.settle(worker, attempt.failed(run, decode_spec(run.spec), worker, now, now, failure, luck=0.0))
    await desk.store.engine.errors.roll_up()
    return [one["run_id"] for one in (await desk.get("/dead-letters", key))["dead_letters"]]


async def groups(desk: Desk, key: str = "ada", query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await desk.get(f"/errors{query}", key))["errors"]
    return found


async def test_failures_are_listed_as_the_few_errors_that_they_are(desk: Desk) -> None:
    await failing(desk, "no user 1", "no user 2", "no disk")
    await failing(desk, "no user 3", key="bob")

    by_count = {one["count"]: one for one in await groups(desk)}

    assert sorted(by_count) == [1, 2]
    user = by_count[2]
    assert (user["task"], user["error_type"], user["user_id"]) == ("mark", "ValueError", "ada")
    assert (user["sample"][:7], user["open_letters"], user["trend"][-1], len(user["trend"])) == ("no user", 2, 2, 24)
    assert [one["count"] for one in await groups(desk, "viewer")] == [one["count"] for one in await groups(desk)]
    assert [one["user_id"] for one in await groups(desk, "bob")] == ["bob"]
    assert sorted(str(one["user_id"]) for one in await groups(desk, "root")) == ["ada", "ada", "bob"]
    page = await desk.get("/errors?limit=1")
    rest = await desk.get(f"/errors?limit=1&page_token={page['next_page_token']}")
    assert {one["count"] for one in (*page["errors"], *rest["errors"])} == {1, 2}


@pytest.mark.parametrize("what", ["requeue", "discard"])
async def test_a_group_is_chosen_by_its_fingerprint(desk: Desk, what: str) -> None:
    await failing(desk, "no user 1", "no user 2", "no disk")
    await failing(desk, "no user 3", key="bob")
    [user] = [one for one in await groups(desk) if one["count"] == 2]
    kind = user["fingerprint"]

    listed = (await desk.get(f"/dead-letters?fingerprint={kind}"))["dead_letters"]
    assert {one["fingerprint"] for one in listed} == {kind}
    assert (await desk.get(f"/runs/{listed[0]['run_id']}"))["fingerprint"] == kind
    assert len((await desk.get(f"/dead-letters?fingerprint={kind}", "root"))["dead_letters"]) == 3
    answer = await desk.call("POST", f"/v1/dead-letters/{what}", {"filter": {"fingerprint": kind}})

    assert answer.json()["count"] == 2
    [left] = (await desk.get("/dead-letters"))["dead_letters"]
    assert left["error_message"].startswith("no disk")
    assert len((await desk.get("/dead-letters", "bob"))["dead_letters"]) == 1
    assert {one["open_letters"] for one in await groups(desk)} == {0, 1}


async def test_what_is_no_fingerprint_is_refused(desk: Desk) -> None:
    for text in ("x", "0" * 16, "A" * 16, "1" * 400):
        answer = await desk.call("GET", f"/v1/dead-letters?fingerprint={text}")
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "fingerprint")
    answer = await desk.call("POST", "/v1/dead-letters/requeue", {"filter": {"fingerprint": 17}})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "filter.fingerprint")
