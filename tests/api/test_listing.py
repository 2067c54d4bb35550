"""Lists of jobs and runs over REST: every filter, pages, and whose they are."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Desk

from oncue.api import listing
from oncue.domain.instants import HOUR, MINUTE, SECOND, rfc3339
from oncue.domain.planning import GRACE
from oncue.domain.run import State


async def pages(desk: Desk, path: str, key: str = "ada") -> list[list[Any]]:
    """What each page has, up to the last."""
    found: list[list[Any]] = []
    token, join = None, "&" if "?" in path else "?"
    while token is not None or not found:
        one = await desk.get(path if token is None else f"{path}{join}page_token={token}", key=key)
        [name] = set(one) - {"next_page_token", "looked_back_to"}
        found.append(one[name])
        token = one["next_page_token"]
        assert len(found) < 100
    return found


async def jobs(desk: Desk, query: str = "", key: str = "ada") -> list[str]:
    return [job["job_id"] for page in await pages(desk, f"/jobs?{query}", key) for job in page]


async def runs(desk: Desk, query: str = "", key: str = "ada") -> list[str]:
    return [run["run_id"] for page in await pages(desk, f"/runs?{query}", key) for run in page]


async def made(desk: Desk, *, key: str = "ada", **job: Any) -> str:
    desk.store.advance(SECOND)
    return str((await desk.create(key=key, **job))["job_id"])


async def test_a_listed_job_is_the_job_as_it_is_read_alone(desk: Desk) -> None:
    """In every state that shows in what is computed: next_run_at, last_run, status."""
    store = desk.store
    tried = await made(desk, schedule="every 1m")
    await store.plan_all(ahead=2 * MINUTE)  # its next run is planned already: the cursor is past it
    store.advance(MINUTE)
    await store.end((await store.claimable())[0], State.SUCCEEDED)
    running = await made(desk)
    worker = await store.worker()
    await store.claim_due(worker)
    retrying = await made(desk)
    [run] = await store.claim_due(worker)
    await store.fail(worker, run)
    stopping = await made(desk)
    await store.claim_due(worker)
    await desk.call("DELETE", f"/v1/jobs/{stopping}")
    made_so = [await made(desk, schedule=schedule) for schedule in ("0 0 1 1 *", rfc3339(store.at(HOUR)))]
    paused = await made(desk, schedule="every 1h")
    await desk.call("POST", f"/v1/jobs/{paused}/pause")
    by_hand = await made(desk, schedule="0 0 1 1 *")
    await desk.call("POST", f"/v1/jobs/{by_hand}/runNow")

    listed = {job["job_id"]: job for page in await pages(desk, "/jobs") for job in page}

    assert set(listed) == {tried, running, retrying, stopping, *made_so, paused, by_hand}
    for job_id, job in listed.items():
        assert job == await desk.get(f"/jobs/{job_id}")
    assert listed[tried]["last_run"]["status"] == "succeeded"
    assert listed[stopping]["status"] == "cancelled"


async def test_jobs_are_found_by_each_filter(desk: Desk) -> None:
    store = desk.store
    named = await made(desk, name="näme & more", schedule="every 1h")
    tagged = await made(desk, tags=["a", "b"], schedule="every 1h")
    queued = await made(desk, queue="slow/er", schedule="every 1h")
    task = await made(desk, task="slow", payload={"seconds": 1}, schedule="every 1h")
    paused = await made(desk, schedule="every 1h")
    await desk.call("POST", f"/v1/jobs/{paused}/pause")
    theirs = await made(desk, key="bob", name="näme & more", tags=["a"], schedule="every 1h")

    assert await jobs(desk, "name=n%C3%A4me+%26+more") == [named]
    assert await jobs(desk, "tag=b") == await jobs(desk, "tag=a") == [tagged]
    assert await jobs(desk, "queue=slow/er") == [queued]
    assert await jobs(desk, "task=slow") == await jobs(desk, "task=slow&queue=default&status=active") == [task]
    assert await jobs(desk, "status=paused") == [paused]
    assert await jobs(desk, "task=slow&queue=slow/er") == await jobs(desk, "name=other") == []
    assert await jobs(desk) == [paused, task, queued, tagged, named]
    assert await jobs(desk, key="root") == [theirs, paused, task, queued, tagged, named]
    assert store.uid != store.stranger


async def test_only_administrators_list_by_user(desk: Desk) -> None:
    mine, theirs = await made(desk, schedule="every 1h"), await made(desk, key="bob", schedule="every 1h")

    assert await jobs(desk, "user_id=ada", key="root") == [mine]
    assert await jobs(desk, "user_id=bob", key="root") == [theirs]
    assert await jobs(desk, "user_id=nobody", key="root") == []
    for query in ("user_id=bob", "user_id=ada", "user_id="):
        for key in ("ada", "viewer"):
            assert (await desk.call("GET", f"/v1/jobs?{query}", key=key)).status_code == 403


async def test_only_administrators_list_and_count_runs_by_user(desk: Desk) -> None:
    [mine, theirs] = await made(desk), await made(desk, key="bob")

    assert await runs(desk, key="root") == [mine, theirs]
    assert await runs(desk, "user_id=ada", key="root") == [mine]
    assert await runs(desk, "user_id=bob&status=queued", key="root") == [theirs]
    assert await runs(desk, "user_id=nobody", key="root") == []
    assert (await desk.get("/counts", "root"))["runs"]["queued"]["n"] == 2
    assert (await desk.get("/counts?user_id=bob", "root"))["runs"]["queued"]["n"] == 1
    for path in ("/runs?user_id=bob", "/runs?user_id=ada", "/runs?user_id=", "/counts?user_id=ada"):
        for key in ("ada", "viewer"):
            assert (await desk.call("GET", f"/v1{path}", key=key)).status_code == 403


async def test_a_window_is_on_the_next_run_and_in_its_order(desk: Desk) -> None:
    start = desk.store.now
    late, soon = await made(desk, schedule="0 3 * * *"), await made(desk, schedule=rfc3339(desk.store.at(HOUR)))
    edge = (await desk.get(f"/jobs/{soon}"))["next_run_at"]
    day = f"end_time={rfc3339(desk.store.at(24 * HOUR))}"

    assert await jobs(desk, day) == [soon, late]
    assert await jobs(desk, f"start_time={edge}&{day}") == [soon, late]
    assert await jobs(desk, f"end_time={edge}&start_time={rfc3339(start)}") == []
    assert await jobs(desk, "start_time=2030-01-01T03:00:00%2B01:00&end_time=2030-01-01T03:30:00Z") == [late]
    assert await jobs(desk, "start_time=2030-01-01T04:00:00+01:00&end_time=2030-01-01T03:30:00Z") == [late]


async def test_jobs_are_found_by_how_their_last_run_went_whatever_page_it_is_on(desk: Desk) -> None:
    store, ends = desk.store, [State.SUCCEEDED, State.DEAD, State.DEAD, State.SUCCEEDED, State.DEAD]
    ended = []
    for end in ends:
        ended.append((await made(desk), end))
        await store.end((await store.claimable())[0], end)
    await made(desk, schedule="every 1h")
    running = await made(desk)
    await store.claim_due(await store.worker())

    dead = [job_id for job_id, end in reversed(ended) if end is State.DEAD]
    for limit in (1, 2, 100):
        assert await jobs(desk, f"last_status=dead&limit={limit}") == dead
    assert await jobs(desk, "last_status=running") == [running]
    assert await jobs(desk, "last_status=cancelled") == []


async def test_a_page_is_filled_though_its_filter_leaves_out_most(desk: Desk) -> None:
    for i in range(6):
        await desk.dead() if i in (0, 5) else await desk.create(schedule=rfc3339(desk.store.at(HOUR)))

    [page] = await pages(desk, "/jobs?last_status=dead&limit=5")

    assert len(page) == 2


async def test_runs_are_found_by_each_filter(desk: Desk) -> None:
    store = desk.store
    dead = await made(desk, queue="q")
    await store.end((await store.claimable())[0], State.DEAD)
    worker = await store.worker()
    running = await made(desk)
    await store.claim_due(worker)
    stopping = await made(desk)
    await store.claim_due(worker)
    await desk.call("DELETE", f"/v1/jobs/{stopping}")
    retrying = await made(desk, task="slow", payload={"seconds": 1})
    [run] = await store.claim_due(worker)
    await store.fail(worker, run)
    queued = await made(desk)
    at = rfc3339(store.at(HOUR))
    scheduled = await made(desk, schedule=at)
    theirs = await made(desk, key="bob")

    by_status = {"dead": dead, "running": running, "cancelling": stopping, "retrying": retrying, "queued": queued}
    for status, run_id in {**by_status, "scheduled": scheduled}.items():
        for limit in (1, 100):
            assert await runs(desk, f"status={status}&limit={limit}") == [run_id]
    assert await runs(desk, "status=succeeded") == []
    assert await runs(desk, "queue=q") == await runs(desk, f"job_id={dead.upper()}") == [dead]
    assert await runs(desk, "task=slow") == [retrying]
    assert await runs(desk, f"start_time={at}") == [scheduled]
    assert scheduled not in await runs(desk, f"end_time={at}")
    assert await runs(desk, f"job_id={theirs}") == await runs(desk, f"job_id={uuid4()}") == []
    assert set(await runs(desk)) == {*by_status.values(), scheduled}
    assert set(await runs(desk, key="root")) == {*by_status.values(), scheduled, theirs}
    [listed] = (await desk.get(f"/runs?job_id={dead}"))["runs"]
    alone = await desk.get(f"/runs/{dead}")
    assert {name: alone[name] for name in listed} == listed
    assert set(alone) - set(listed) == {"payload", "fingerprint"}


async def test_runs_are_found_by_how_they_came_and_went(desk: Desk) -> None:
    store = desk.store
    dead = str(await desk.dead())
    ended_at = (await desk.get(f"/runs/{dead}"))["end_time"]
    store.advance(MINUTE)
    worker = await store.worker()
    running = await made(desk)
    await store.claim_due(worker)
    job = await made(desk, schedule="0 0 1 1 *")
    by_hand = (await desk.call("POST", f"/v1/jobs/{job}/runNow")).json()["run_id"]

    assert await runs(desk, "error_type=Boom") == await runs(desk, f"ended_before={rfc3339(store.now)}") == [dead]
    assert await runs(desk, f"ended_after={ended_at}") == [dead]
    assert await runs(desk, f"ended_before={ended_at}") == []
    assert await runs(desk, f"worker_id={worker}") == [running]
    assert await runs(desk, "trigger=run_now,backfill") == [by_hand]
    assert set(await runs(desk, "status=dead,running")) == {dead, running}
    assert await runs(desk, "error_type=Boom", key="bob") == []
    for query in ("trigger=x", "worker_id=w-7", f"ended_after={ended_at}&ended_before={ended_at}", "status=dead,"):
        answer = await desk.call("GET", f"/v1/runs?{query}")
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, query.split("&")[-1].split("=")[0])


async def test_a_page_that_a_filter_left_short_says_how_far_it_looked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the middle of a walk through pages; a page that is full, or the last one, says nothing."""
    monkeypatch.setattr(listing, "MOST_RUNS_LOOKED_AT", 2)
    monkeypatch.setattr(listing, "LOOKED_AT_ONCE", 2)
    times = [rfc3339(desk.store.at(HOUR + number * SECOND)) for number in range(5)]
    made_so = [await made(desk, schedule=at) for at in times]
    found, token = [], ""
    while token is not None:
        page = await desk.get(f"/runs?status=retrying&limit=1{token and '&page_token='}{token}")
        assert page["runs"] == []
        found.append(page["looked_back_to"])
        token = page["next_page_token"]
    full = await desk.get("/runs?status=scheduled&limit=2")

    assert found == [times[2], None]
    assert [run["run_id"] for run in full["runs"]] == made_so[:2]
    assert (full["looked_back_to"], full["next_page_token"] is None) == (None, False)


@pytest.mark.parametrize(("path", "filters"), [("jobs", "tag=a"), ("runs", "queue=default")])
async def test_a_token_is_good_for_its_reader_and_its_filter_only(desk: Desk, path: str, filters: str) -> None:
    for key in ("ada", "bob"):
        for _ in range(3):
            await desk.create(key=key, tags=["a"], schedule=rfc3339(desk.store.at(HOUR)))
    token = (await desk.get(f"/{path}?{filters}&limit=1"))["next_page_token"]

    for query, key in ((filters, "bob"), (filters, "root"), ("", "ada"), (f"{filters}&task=mark", "ada")):
        answer = await desk.call("GET", f"/v1/{path}?{query}&page_token={token}", key=key)
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "page_token")
    again = await desk.get(f"/{path}?page_token={token}&limit=2&{filters}")
    assert (len(again[path]), again["next_page_token"]) == (2, None)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("jobs?status=running", "status"),
        ("jobs?status=", "status"),
        ("jobs?last_status=queued", "last_status"),
        ("jobs?status=active&status=paused", "status"),
        ("jobs?name=", "name"),
        ("jobs?name=a%00b", "name"),
        ("jobs?tag=%E2%80%AE", "tag"),
        ("jobs?task=" + "x" * 201, "task"),
        ("jobs?start_time=yesterday", "start_time"),
        ("jobs?start_time=2030-01-01", "start_time"),
        ("jobs?end_time=2030-01-01T00:00:00", "end_time"),
        ("jobs?start_time=2030-01-01T00:00:00Z&end_time=2030-01-01T00:00:00Z", "end_time"),
        ("jobs?order=name", "order"),
        ("jobs?page_token=AAAA", "page_token"),
        ("runs?status=finished", "status"),
        ("runs?job_id=1", "job_id"),
        ("runs?job_id=", "job_id"),
        ("runs?name=x", "name"),
        ("runs?queue=a%0Ab", "queue"),
        ("runs?end_time=9999-12-31T23:59:60Z", "end_time"),
        ("runs?limit=0", "limit"),
    ],
)
async def test_a_filter_that_is_wrong_is_named(desk: Desk, query: str, path: str) -> None:
    answer = await desk.call("GET", f"/v1/{query}")

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, [path])


async def test_what_is_listed_fits_as_it_is_shown(desk: Desk) -> None:
    """A one-shot that is being stopped is not active, and what is paused or planned runs at no other time."""
    store, worker = desk.store, await desk.store.worker()
    stopping = await made(desk)
    await store.claim_due(worker)
    await desk.call("DELETE", f"/v1/jobs/{stopping}")
    paused = await made(desk, schedule=rfc3339(store.at(HOUR)))
    await desk.call("POST", f"/v1/jobs/{paused}/pause")
    planned = await made(desk, schedule="every 1m", overlap="queue")
    store.advance(MINUTE)
    await store.plan_all()
    next_at = (await desk.get(f"/jobs/{planned}"))["next_run_at"]
    assert next_at == rfc3339(store.now)

    assert await jobs(desk, "status=active") == [planned]
    window = f"start_time={rfc3339(store.at(SECOND))}&end_time={rfc3339(store.at(2 * HOUR))}"
    assert await jobs(desk, window) == []


async def test_a_one_shot_that_is_being_stopped_is_listed_as_what_it_is_shown_as(desk: Desk) -> None:
    job = await desk.create()
    await desk.store.claim_due(await desk.store.worker())
    await desk.call("DELETE", f"/v1/jobs/{job['job_id']}")

    for status, there in (("cancelled", [job["job_id"]]), ("active", []), ("finished", [])):
        listed = (await desk.get(f"/jobs?status={status}"))["jobs"]
        assert [one["job_id"] for one in listed] == there, status


async def _dead_twice(desk: Desk, one_shot: str) -> None:
    """It is no recurring job, although its second dead letter has another id than the job."""
    store, worker = desk.store, await desk.store.worker()
    for again in (True, False):
        [run_id] = [one for one in await store.claimable() if str((await store.run(one)).job_id) == one_shot]
        await store.fail(worker, await store.claim_one(worker, run_id), retry=False)
        if again:
            await desk.call("POST", f"/v1/runs/{run_id}/retry")
    assert "failing_job" not in {
        one["kind"] for one in (await desk.get("/problems"))["problems"] if one_shot in (one["command"] or "")
    }


async def test_unwell_jobs_are_found_by_what_is_wrong_with_them(desk: Desk) -> None:
    """Failing is who died last and did not recover; late is who should have started; both for each user alone."""
    store, worker = desk.store, await desk.store.worker()
    failing, recovered, handled = [await made(desk, schedule="every 1h", max_retries=0, name=n) for n in "abc"]
    never = await made(desk, schedule="0 0 1 1 *")
    for ends in ({failing: False, recovered: False, handled: False}, {recovered: True}):
        store.advance(HOUR)
        await store.plan_all()
        for run_id in await store.claimable():
            job_id = str((await store.run(run_id)).job_id)
            if job_id in ends:
                run = await store.claim_one(worker, run_id)
                await (store.succeed(worker, run) if ends[job_id] else store.fail(worker, run, retry=False))
    letters = (await desk.get(f"/dead-letters?job_id={handled}"))["dead_letters"]
    await desk.call("POST", "/v1/dead-letters/discard", {"run_ids": [letters[0]["run_id"]]})
    await _dead_twice(desk, await made(desk, max_retries=0))
    once = await made(desk)
    await made(desk, schedule=rfc3339(store.at(HOUR)))
    store.advance(GRACE + SECOND)

    assert await jobs(desk, "health=failing") == await jobs(desk, "health=failing&limit=1") == [failing]
    assert await jobs(desk, "health=failing&name=b") == await jobs(desk, "health=failing&status=paused") == []
    assert set(await jobs(desk, "health=late")) == {failing, handled, once}
    assert never in await jobs(desk, "health=never_ran")
    assert {failing, recovered} & set(await jobs(desk, "health=never_ran")) == set()
    assert await jobs(desk, "health=failing", key="bob") == await jobs(desk, "health=late", key="bob") == []
    assert await jobs(desk, "health=failing", key="root") == [failing]
    assert (await desk.call("GET", "/v1/jobs?health=ill")).status_code == 422
