"""Jobs over REST: made, shown, cancelled, run by hand."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Desk, read_back

from oncue.domain.ids import RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND, rfc3339
from oncue.domain.job import decode_spec
from oncue.domain.run import State
from oncue.engines.port import Hint, Topic


async def test_a_one_shot_is_made_and_read_back_as_it_was_answered(desk: Desk) -> None:
    at = rfc3339(desk.store.at(HOUR))

    answer = await desk.call("POST", "/v1/jobs", {"task": "mark", "schedule": at, "payload": {"tag": "x"}})
    job = read_back(answer)

    assert (answer.status_code, job["status"], job["user_id"]) == (201, "active", "ada")
    assert (job["schedule"], job["next_run_at"], job["payload"]) == ({"at": at}, at, {"tag": "x"})
    assert answer.headers["Location"] == f"/v1/jobs/{job['job_id']}"
    read = await desk.call("GET", answer.headers["Location"])
    assert (read.json(), read.headers["ETag"]) == (job, answer.headers["ETag"])


async def test_a_recurring_job_is_read_back_as_it_was_answered(desk: Desk) -> None:
    schedule = {"calendar": {"hour": "10", "minute": 30, "days_of_week": "mon-fri"}, "timezone": "Europe/Berlin"}

    job = await desk.create(schedule=schedule, tags=["a"], name="report")

    assert job["schedule"] == {**schedule, "cron": "30 10 * * mon-fri", "dst_gap": "shift", "dst_fold": "first"}
    assert job["next_run_at"] == "2030-01-01T09:30:00.000Z"
    assert await desk.get(f"/jobs/{job['job_id']}") == job


async def test_what_a_job_leaves_out_comes_from_its_task_and_then_from_us(desk: Desk) -> None:
    job = await desk.create("slow", payload={"seconds": 1}, retry={"backoff": "1s"}, max_retries=0)

    assert (job["timeout"], job["max_retries"], job["queue"], job["priority"]) == ("30s", 0, "default", "normal")
    assert job["retry"] == {"backoff": "1s", "factor": 3, "max_backoff": "5m", "jitter": 0.2}
    [run] = await desk.store.claim_due(await desk.store.worker())
    assert decode_spec(run.spec).timeout == 30 * SECOND
    assert run.payload == b'{"seconds":1}'


async def test_a_past_instant_runs_at_once(desk: Desk) -> None:
    job = await desk.create(schedule="2001-01-01T00:00:00Z")

    assert [str(run_id) for run_id in await desk.store.claimable()] == [job["job_id"]]


async def test_cancelling_a_waiting_job_is_certain_and_says_the_same_again(desk: Desk) -> None:
    job = await desk.create(schedule=rfc3339(desk.store.at(MINUTE)))

    answers = [await desk.call("DELETE", f"/v1/jobs/{job['job_id']}") for _ in range(2)]

    assert [(one.status_code, one.json()["status"]) for one in answers] == [(200, "cancelled")] * 2
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["next_run_at"] is None
    desk.store.advance(HOUR)
    assert await desk.store.claimable() == []


@pytest.mark.parametrize("schedule", ["now", "every 1m"])
async def test_cancelling_a_job_tells_its_running_run_to_stop(desk: Desk, schedule: str) -> None:
    job = await desk.create(schedule=schedule)
    desk.store.advance(MINUTE)
    await desk.store.plan_all()
    worker = await desk.store.worker()
    [run] = await desk.store.claim_due(worker)

    answers = [await desk.call("DELETE", f"/v1/jobs/{job['job_id']}") for _ in range(2)]

    assert [(one.status_code, one.json()["status"]) for one in answers] == [(200, "cancelled")] * 2
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "cancelled"
    assert (await desk.get(f"/jobs/{job['job_id']}/status"))["latest_run"]["status"] == "cancelling"
    assert [cancel_requests.run_id for cancel_requests in await desk.store.fleet.cancel_requests(worker)] == [
        run.run_id
    ]


async def test_a_job_that_had_ended_is_not_cancelled_any_more(desk: Desk) -> None:
    job = await desk.create()
    await desk.store.end((await desk.store.claimable())[0], State.SUCCEEDED)

    answer = await desk.call("DELETE", f"/v1/jobs/{job['job_id']}")

    assert (answer.status_code, answer.json()["status"]) == (200, "finished")


async def test_the_latest_run_is_the_last_that_began_else_the_first_to_come(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m")
    path = f"/jobs/{job['job_id']}/status"
    assert await desk.get(path) == {"job_id": job["job_id"], "latest_run": None}
    await desk.store.plan(ahead=3 * MINUTE)
    first = (await desk.get(path))["latest_run"]
    assert (first["status"], first["scheduled_for"]) == ("scheduled", rfc3339(desk.store.at(MINUTE)))

    desk.store.advance(MINUTE)
    assert (await desk.get(path))["latest_run"]["status"] == "queued"
    await desk.store.end((await desk.store.claimable())[0], State.SUCCEEDED)
    ended = (await desk.get(path))["latest_run"]
    assert (ended["run_id"], ended["status"]) == (first["run_id"], "succeeded")
    shown = await desk.get(f"/jobs/{job['job_id']}")
    assert (shown["last_run"]["run_id"], shown["last_run"]["status"]) == (first["run_id"], "succeeded")
    assert shown["next_run_at"] == rfc3339(desk.store.at(MINUTE))
    desk.store.advance(MINUTE)
    assert (await desk.get(path))["latest_run"]["status"] == "queued"
    assert (await desk.get(f"/jobs/{job['job_id']}"))["last_run"]["run_id"] == first["run_id"]  # it was tried


async def test_of_two_that_run_at_once_the_later_is_the_latest(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m", overlap="allow")
    worker = await desk.store.worker()
    started = []
    for _ in range(2):
        desk.store.advance(MINUTE)
        await desk.store.beat(worker)
        await desk.store.plan_all()
        started += await desk.store.claim_due(worker)

    latest = (await desk.get(f"/jobs/{job['job_id']}/status"))["latest_run"]

    assert (latest["run_id"], latest["status"], len(started)) == (str(started[1].run_id), "running", 2)


async def test_run_now_leaves_the_schedule_alone(desk: Desk) -> None:
    job = await desk.create(schedule="0 0 1 1 *")

    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")

    assert answer.status_code == 202
    assert [str(run_id) for run_id in await desk.store.claimable()] == [answer.json()["run_id"]]
    assert (await desk.get(f"/jobs/{job['job_id']}"))["next_run_at"] == job["next_run_at"]


async def test_run_now_of_a_busy_job_that_skips_is_a_conflict(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m", overlap="skip")
    await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")
    await desk.store.claim_due(await desk.store.worker())

    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")

    assert (answer.status_code, answer.headers["Content-Type"]) == (409, "application/problem+json")


async def test_runs_come_page_by_page_and_a_token_is_good_for_its_own_listing_only(desk: Desk) -> None:
    job, other = await desk.create(schedule="every 1m"), await desk.create(schedule="every 1m")
    for _ in range(5):
        desk.store.advance(MINUTE)
        await desk.store.plan_all()
        for run_id in await desk.store.claimable():
            await desk.store.end(run_id, State.SUCCEEDED)
    path, pages = f"/jobs/{job['job_id']}/runs", []
    while not pages or pages[-1]["next_page_token"]:
        after = f"&page_token={pages[-1]['next_page_token']}" if pages else ""
        pages.append(await desk.get(f"{path}?limit=2{after}"))
    seen, kept = [run for page in pages for run in page["runs"]], pages[0]["next_page_token"]

    assert [run["scheduled_for"] for run in seen] == [rfc3339(desk.store.at(-i * MINUTE)) for i in range(5)]
    elsewhere = await desk.call("GET", f"/v1/jobs/{other['job_id']}/runs?page_token={kept}")
    by_root = await desk.call("GET", f"/v1{path}?page_token={kept}", key="root")
    assert [elsewhere.status_code, by_root.status_code] == [422, 422]
    assert elsewhere.json()["errors"][0]["path"] == "page_token"


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("limit=%D9%A1", "limit"),
        ("limit=", "limit"),
        ("page_token=", "page_token"),
        ("page_token=AAAA", "page_token"),
        ("page_token=%00%FF", "page_token"),
        ("page_token=é", "page_token"),
        ("status=dead", "status"),
    ],
)
async def test_a_bad_query_names_its_parameter(desk: Desk, query: str, path: str) -> None:
    job = await desk.create(schedule="every 1m")

    answer = await desk.call("GET", f"/v1/jobs/{job['job_id']}/runs?{query}")

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, [path])


@pytest.mark.parametrize("bad", ["x", "1", "{{{0}}}", "urn:uuid:{0}", "../jobs/{0}", "%00", "{0}0"])
async def test_what_is_no_id_looks_like_an_unknown_one(desk: Desk, bad: str) -> None:
    job = await desk.create()

    unknown = await desk.call("GET", f"/v1/jobs/{uuid4()}")
    answer = await desk.call("GET", "/v1/jobs/" + bad.format(job["job_id"]).replace("../", "%2E%2E%2F"))

    assert (answer.status_code, unknown.status_code) == (404, 404)


async def test_run_now_wakes_workers_no_later_than_its_run_is_due(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """They look from the hint's instant on."""
    store, sent = desk.store, []
    job = await desk.create(schedule="0 0 1 1 *")
    apply = store.engine.jobs.apply

    async def slowly(*change: Any) -> bool:
        done = await apply(*change)
        store.advance(SECOND)
        return done

    async def send(hints: list[Hint]) -> None:
        sent.extend(hints)

    monkeypatch.setattr(store.engine.jobs, "apply", slowly)
    monkeypatch.setattr(store.engine.signals, "send", send)
    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")

    run = await store.run(RunId(UUID(answer.json()["run_id"])))
    assert [(hint.topic, hint.due is not None and hint.due <= run.due) for hint in sent] == [(Topic.RUNS, True)]


async def test_the_latest_run_is_the_last_that_is_due_however_many_are(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule="every 1m", overlap="allow")
    store.advance(300 * MINUTE)
    stretch = {"from": rfc3339(store.at(-200 * MINUTE)), "to": rfc3339(store.now)}
    runs = (await desk.call("POST", f"/v1/jobs/{job['job_id']}/backfill", stretch)).json()["run_ids"]
    store.advance(SECOND)

    assert len(runs) == 200
    assert (await desk.get(f"/jobs/{job['job_id']}/status"))["latest_run"]["run_id"] == runs[-1]
