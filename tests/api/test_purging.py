"""DELETE with purge=true: for administrators, and then there is nothing left but the audit log."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from tests.api.conftest import Desk
from tests.api.test_runs import until_done

from oncue.domain import attempt
from oncue.domain.ids import JobId
from oncue.domain.instants import MINUTE, rfc3339
from oncue.domain.run import State
from oncue.services.finishing import POLL_INTERVAL, Finishing

EACH_MINUTE = {"every": "1m"}


async def purge(desk: Desk, job_id: str, key: str = "root") -> httpx2.Response:
    return await desk.call("DELETE", f"/v1/jobs/{job_id}?purge=true", key=key)


async def actions(desk: Desk) -> list[tuple[str, str]]:
    return [(line["action"], line["object_id"]) for line in (await desk.get("/audit", key="root"))["audit"]]


async def lived(desk: Desk) -> tuple[str, list[str]]:
    """A recurring job of ada's with a dead letter, one that was requeued, logs, a backfill and skipped occurrences."""
    made = await desk.call(
        "PUT", "/v1/jobs/by-key/k", {"task": "mark", "schedule": EACH_MINUTE, "overlap": "skip", "tags": ["a"]}
    )
    job_id, began = made.json()["job_id"], made.json()["created_at"]
    store, runs = desk.store, []
    for end in (State.DEAD, State.DEAD, State.SUCCEEDED):
        made = await desk.call("POST", f"/v1/jobs/{job_id}/runNow")
        [run_id] = await store.claimable()
        assert made.json()["run_id"] == str(run_id)
        await store.end(run_id, end)
        await store.history.append_log(run_id, 0, b"a line", store.now)
        runs.append(str(run_id))
    again = await desk.call("POST", f"/v1/runs/{runs[0]}/retry")
    [run_id] = await store.claimable()
    await store.end(run_id, State.SUCCEEDED)
    await desk.call("POST", f"/v1/jobs/{job_id}/pause")
    store.advance(10 * MINUTE)
    await desk.call("POST", f"/v1/jobs/{job_id}/resume")
    assert (await desk.call("PATCH", f"/v1/jobs/{job_id}", {"name": "edited"})).status_code == 200
    assert (await desk.get(f"/jobs/{job_id}/occurrences"))["occurrences"] != []
    stretch = {"from": began, "to": rfc3339(store.now)}
    made = await desk.call("POST", f"/v1/jobs/{job_id}/backfill", stretch)
    assert len(made.json()["run_ids"]) >= 9
    return job_id, [*runs, again.json()["run_id"], *made.json()["run_ids"]]


async def test_of_a_recurring_job_nothing_is_found_any_more(desk: Desk) -> None:
    job_id, runs = await lived(desk)

    answer = await purge(desk, job_id)

    assert (answer.status_code, answer.json()["status"], answer.json()["name"]) == (200, "cancelled", "edited")
    assert (answer.json()["job_id"], answer.json()["user_id"]) == (job_id, "ada")
    paths = [f"/v1/jobs/{job_id}{what}" for what in ("", "/runs", "/occurrences", "/status", "/explain")]
    paths += [f"/v1/runs/{run_id}{what}" for run_id in runs for what in ("", "/logs")]
    assert {(await desk.call("GET", path)).status_code for path in paths} == {404}
    for path, name in (
        ("/jobs", "jobs"),
        ("/jobs?tag=a", "jobs"),
        ("/runs", "runs"),
        ("/dead-letters", "dead_letters"),
    ):
        assert (await desk.get(path, key="root"))[name] == []
    assert (await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark"})).status_code == 201
    assert ("job.purge", job_id) in await actions(desk)
    assert ("job.cancel", job_id) not in await actions(desk)
    again = await purge(desk, job_id)
    assert again.status_code == 404
    assert (await actions(desk)).count(("job.purge", job_id)) == 1


@pytest.mark.parametrize(
    ("end", "status"), [(State.SUCCEEDED, "finished"), (State.DEAD, "finished"), (None, "cancelled")]
)
async def test_a_one_shot_is_told_as_it_ended_and_gone(desk: Desk, end: State | None, status: str) -> None:
    job = await desk.create(payload={"a": 1})
    if end is not None:
        await desk.store.end((await desk.store.claimable())[0], end)

    answer = await purge(desk, job["job_id"])

    assert (answer.status_code, answer.json()["status"], answer.json()["payload"]) == (200, status, {"a": 1})
    assert await desk.nothing_stored()
    assert (await desk.get("/dead-letters"))["dead_letters"] == []


async def test_it_is_for_administrators_whatever_there_is(desk: Desk) -> None:
    job = await desk.create(schedule=EACH_MINUTE)

    for key in ("ada", "bob", "viewer"):
        assert (await purge(desk, job["job_id"], key)).status_code == 403
        assert (await purge(desk, str(uuid4()), key)).status_code == 403
    assert "admin key" in (await purge(desk, job["job_id"], "ada")).json()["detail"]
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "active"
    assert (await purge(desk, str(uuid4()))).status_code == 404
    assert (await purge(desk, "nothing")).status_code == 404


@pytest.mark.parametrize(
    "query", ["purge=yes", "purge=True", "purge=", "purge=1", "purge=true&purge=true", "prune=true"]
)
async def test_what_is_not_understood_does_nothing(desk: Desk, query: str) -> None:
    job = await desk.create(schedule=EACH_MINUTE)

    answer = await desk.call("DELETE", f"/v1/jobs/{job['job_id']}?{query}", key="root")

    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, query.partition("=")[0])
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "active"


async def test_purge_false_only_ends_the_job(desk: Desk) -> None:
    job = await desk.create(schedule=EACH_MINUTE)

    answer = await desk.call("DELETE", f"/v1/jobs/{job['job_id']}?purge=false")

    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "cancelled"
    assert (await actions(desk))[0] == ("job.cancel", job["job_id"])


async def purging(desk: Desk, job_id: str) -> asyncio.Task[Any]:
    """A purge that has told the worker and waits for it."""
    await desk.quiet()
    asked = asyncio.create_task(purge(desk, job_id))
    while not desk.store.clock._sleepers:
        assert not asked.done(), asked.result().text
        await asyncio.sleep(0.001)
    return asked


async def test_what_runs_is_stopped_first(desk: Desk) -> None:
    job, worker = await desk.create(), await desk.store.worker()
    [run] = await desk.store.claim_due(worker)

    asked = await purging(desk, job["job_id"])
    assert [cancel_requests.run_id for cancel_requests in await desk.store.fleet.cancel_requests(worker)] == [
        run.run_id
    ]
    await desk.store.settle(worker, attempt.cancelled(run, worker, desk.store.now, desk.store.now))
    await until_done(desk, asked)

    assert (asked.result().status_code, asked.result().json()["status"]) == (200, "cancelled")
    assert await desk.nothing_stored()


async def test_what_does_not_stop_is_cancelled_and_kept_until_it_has(desk: Desk) -> None:
    job = await desk.create(schedule=EACH_MINUTE)
    await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")
    worker = await desk.store.worker()
    [run] = await desk.store.claim_due(worker)

    asked = await purging(desk, job["job_id"])
    passed = await until_done(desk, asked)

    assert (asked.result().status_code, passed) == (409, 1_000)
    assert "one of its runs is still stopping" in asked.result().json()["detail"]
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "cancelled"
    assert (await actions(desk))[0] == ("job.cancel", job["job_id"])
    await desk.store.settle(worker, attempt.cancelled(run, worker, desk.store.now, desk.store.now))
    assert (await purge(desk, job["job_id"])).status_code == 200
    assert await desk.nothing_stored()


async def test_a_purge_that_was_cut_off_is_gone_on_with(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, runs = await lived(desk)
    monkeypatch.setattr("oncue.api.jobs.AT_A_TIME", 2)
    verb, calls = desk.store.engine.jobs.purge, 0

    async def cut_off(job: JobId, limit: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ConnectionError
        return await verb(job, limit)

    monkeypatch.setattr(desk.store.engine.jobs, "purge", cut_off)
    assert (await purge(desk, job_id)).status_code == 500
    left = await desk.store.runs(job_id=JobId(UUID(job_id)))
    assert 0 < len(left) < len(runs)
    assert ("job.purge", job_id) in await actions(desk)

    monkeypatch.setattr("oncue.api.jobs.AT_A_TIME", 1_000)
    assert (await purge(desk, job_id)).status_code == 200
    assert await desk.nothing_stored()


async def test_of_a_large_job_the_rest_goes_after_the_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, _ = await lived(desk)
    monkeypatch.setattr("oncue.api.jobs.AT_A_TIME", 1)
    finishing = Finishing(desk.store.engine, desk.store.clock)

    assert (await purge(desk, job_id)).status_code == 202
    while await finishing.run_once() != POLL_INTERVAL:
        pass

    assert await desk.nothing_stored()


async def test_whoever_repeats_the_request_that_made_it_is_told_that_it_is_gone(desk: Desk) -> None:
    once = {"Idempotency-Key": "order-17"}
    made = await desk.call("POST", "/v1/jobs", {"task": "mark"}, headers=once)
    assert (await purge(desk, made.json()["job_id"])).status_code == 200

    again = await desk.call("POST", "/v1/jobs", {"task": "mark"}, headers=once)

    assert again.status_code == 404
    assert await desk.nothing_stored()


async def test_what_was_counted_stays_counted(desk: Desk) -> None:
    job_id, _ = await lived(desk)
    await desk.call("DELETE", f"/v1/jobs/{job_id}")
    await desk.store.maintenance.roll_up()
    before = await desk.get("/stats")

    await purge(desk, job_id)

    after = await desk.get("/stats")
    assert after["runs"] == before["runs"] | {"discarded": 1}  # the open dead letter; the other was requeued
    assert before["runs"]["open"] == 0
