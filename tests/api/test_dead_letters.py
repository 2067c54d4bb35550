"""Dead letters: choosing some of them by what they are, trying them anew, letting them be."""

from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Desk
from tests.api.test_audit import audit_entries

from oncue.api import dead_letters
from oncue.domain.ids import RunId
from oncue.domain.instants import MINUTE, rfc3339
from oncue.domain.run import State


async def letters(desk: Desk, query: str = "", key: str = "ada") -> list[str]:
    return [letter["run_id"] for letter in (await desk.get(f"/dead-letters{query}", key))["dead_letters"]]


async def act(desk: Desk, what: str, body: Any, key: str = "ada") -> Any:
    answer = await desk.call("POST", f"/v1/dead-letters/{what}", body, key=key)
    assert answer.status_code == (202 if what == "requeue" else 200), answer.text
    return answer.json()


async def state(desk: Desk, run_id: RunId) -> State:
    run = await desk.store.history.run(None, run_id)
    assert run is not None
    return run.state


async def test_what_is_discarded_is_a_dead_letter_no_more_and_stays_in_history(desk: Desk) -> None:
    first, second = await desk.dead(), await desk.dead()

    assert await act(desk, "discard", {"run_ids": [str(first), str(first), str(uuid4())]}) == {"count": 1}

    assert await letters(desk) == [str(second)]
    assert await state(desk, first) is State.DEAD
    assert await act(desk, "discard", {"run_ids": [str(first)]}) == {"count": 0}


async def test_nobody_discards_or_requeues_anothers(desk: Desk) -> None:
    theirs = await desk.dead()

    for what in ("discard", "requeue"):
        for which in ({"run_ids": [str(theirs)]}, {"filter": {}}, {"filter": {"task": "mark"}}):
            assert (await act(desk, what, which, "bob"))["count"] == 0
    assert await letters(desk) == [str(theirs)]


async def test_an_administrator_chooses_whose(desk: Desk) -> None:
    mine, theirs = await desk.dead(), await desk.dead(key="bob")

    assert await letters(desk, "?user_id=ada", "root") == [str(mine)]
    assert (await desk.call("GET", "/v1/dead-letters?user_id=bob")).status_code == 403
    assert (await desk.call("POST", "/v1/dead-letters/discard", {"filter": {"user_id": "bob"}})).status_code == 403
    assert await act(desk, "discard", {"filter": {"user_id": "bob"}}, "root") == {"count": 1}
    assert await letters(desk, key="root") == [str(mine)]
    assert await state(desk, theirs) is State.DEAD


FILTERS = ["task", "queue", "job_id", "start_time", "end_time"]


async def one_of_two(desk: Desk, by: str) -> tuple[RunId, RunId, Any]:
    """Two dead letters, and a value of the filter that only the first fits."""
    early = by == "end_time"
    if not early:
        other = await desk.dead(name="other")
        desk.store.advance(MINUTE)
    worker, at = await desk.store.worker(), rfc3339(desk.store.now)
    job = await desk.create("slow", queue="q", payload={"seconds": 1})
    [run] = await desk.store.claim_due(worker)
    await desk.store.fail(worker, run, retry=False)
    if early:
        desk.store.advance(MINUTE)
        at, other = rfc3339(desk.store.now), await desk.dead(name="other")
    values = {"task": "slow", "queue": "q", "job_id": job["job_id"], "start_time": at, "end_time": at}
    return run.run_id, other, values[by]


@pytest.mark.parametrize("by", FILTERS)
async def test_a_filter_chooses_which_are_listed(desk: Desk, by: str) -> None:
    run_id, _, value = await one_of_two(desk, by)

    assert await letters(desk, f"?{by}={value}") == [str(run_id)]
    assert len(await letters(desk)) == 2


@pytest.mark.parametrize("by", FILTERS)
@pytest.mark.parametrize("what", ["requeue", "discard"])
async def test_a_filter_chooses_what_is_done_something_with(desk: Desk, what: str, by: str) -> None:
    run_id, other, value = await one_of_two(desk, by)

    answer = await act(desk, what, {"filter": {by: value}})

    assert (answer["count"], await letters(desk)) == (1, [str(other)])
    if what == "requeue":
        [new] = await desk.store.claimable()
        again = await desk.store.history.run(None, new)
        assert again is not None
        assert (answer["run_ids"], again.parent, again.payload) == ([str(new)], run_id, b'{"seconds":1}')


@pytest.mark.parametrize("what", ["requeue", "discard"])
async def test_all_that_fit_are_taken_however_many_passes_it_takes(
    desk: Desk, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "ONE_PASS", 2)
    for _ in range(5):
        await desk.dead()
    await desk.dead(queue="q")
    theirs = await desk.dead(key="bob")

    answer = await act(desk, what, {"filter": {"queue": "default"}})

    assert (answer["count"], len(await letters(desk))) == (5, 1)
    assert len(set(answer.get("run_ids", range(5)))) == 5
    assert await letters(desk, key="bob") == [str(theirs)]
    assert (await act(desk, what, {"filter": {}}, "root"))["count"] == 2


async def test_a_page_of_a_filtered_list_is_filled_from_further_on(desk: Desk) -> None:
    old = [str(await desk.dead(queue="q")) for _ in range(2)]
    for _ in range(3):
        desk.store.advance(MINUTE)
        await desk.dead()

    assert sorted(await letters(desk, "?queue=q&limit=2")) == sorted(old)


async def test_a_dead_run_of_a_recurring_job_is_requeued_by_a_filter(desk: Desk) -> None:
    store, job = desk.store, await desk.create(schedule="every 1h")
    await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    await store.fail(worker, run, retry=False)

    answer = await act(desk, "requeue", {"filter": {"job_id": job["job_id"]}})

    assert answer["count"] == 1
    assert (await desk.get(f"/runs/{answer['run_ids'][0]}"))["job_id"] == job["job_id"]


async def test_the_audit_log_tells_which_and_how_many(desk: Desk) -> None:
    run_id = await desk.dead()
    await act(desk, "discard", {"run_ids": [str(run_id)]})
    await act(desk, "discard", {"run_ids": [str(run_id)]})  # none is left: nothing to tell
    await desk.dead()
    desk.store.advance(MINUTE)
    await act(desk, "requeue", {"filter": {"task": "mark"}})

    requeued, discarded = [
        audit_entry for audit_entry in await audit_entries(desk) if audit_entry["action"] != "job.create"
    ]

    assert (discarded["action"], discarded["detail"]) == (
        "dead_letters.discard",
        {"count": 1, "run_ids": [str(run_id)]},
    )
    assert requeued["detail"] == {"count": 1, "filter": {"task": "mark"}}


@pytest.mark.parametrize("what", ["requeue", "discard"])
@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, "run_ids"),
        ({"run_ids": [str(uuid4())], "filter": {}}, "run_ids"),
        ({"run_ids": []}, "run_ids"),
        ({"run_ids": ["x"]}, "run_ids.0"),
        ({"filter": []}, "filter"),
        ({"filter": None}, "filter"),
        ({"filter": {"tsak": "mark"}}, "filter.tsak"),
        ({"filter": {"task": 1}}, "filter.task"),
        ({"filter": {"job_id": "x"}}, "filter.job_id"),
        ({"filter": {"start_time": 5}}, "filter.start_time"),
        ({"filter": {"start_time": "2030-01-02T00:00:00Z", "end_time": "2030-01-01T00:00:00Z"}}, "filter.end_time"),
    ],
)
async def test_what_is_wrong_is_told_by_field_and_nothing_is_done(
    desk: Desk, what: str, body: dict[str, Any], wrong: str
) -> None:
    run_id = await desk.dead()

    answer = await desk.call("POST", f"/v1/dead-letters/{what}", body)

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, [wrong])
    assert await letters(desk) == [str(run_id)]


@pytest.mark.parametrize("query", ["job_id=x", "status=dead", "start_time=now", "task="])
async def test_a_filter_of_the_list_that_is_wrong_is_told(desk: Desk, query: str) -> None:
    answer = await desk.call("GET", f"/v1/dead-letters?{query}")

    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, query.partition("=")[0])


async def test_a_dead_run_is_shown_with_its_payload_also_when_it_was_dealt_with(desk: Desk) -> None:
    run_id = await desk.dead(payload={"a": 1})
    later = await desk.create(schedule="2035-01-01T00:00:00Z", payload={"a": 2})
    [letter] = (await desk.get("/dead-letters"))["dead_letters"]

    assert await desk.get(f"/runs/{run_id}") == letter
    assert (await desk.get(f"/runs/{later['job_id']}"))["payload"] == {"a": 2}
    assert {"payload"} & set((await desk.get("/runs"))["runs"][0]) == set()
    await desk.call("POST", "/v1/dead-letters/discard", {"run_ids": [str(run_id)]})
    assert (await desk.get(f"/runs/{run_id}"))["payload"] == {"a": 1}
