"""Why a job or a run has or has not run yet, over REST."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Desk

from oncue.domain import attempt
from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, rfc3339
from oncue.domain.placement import Offer, Resources, show_offer
from oncue.engines.port import Worker
from oncue_conformance.store import LEASE

OFFER = Offer(frozenset({"mark"}), resources=Resources(1_000, 1_024, 4))


async def offering(desk: Desk, offer: Offer | bytes = OFFER, *, draining: bool = False) -> WorkerId:
    """A worker that says what it can run; bytes: in its own words."""
    store, worker_id = desk.store, WorkerId(desk.store.new_id())
    info = offer if isinstance(offer, bytes) else show_offer(offer)
    worker = Worker(worker_id, "w", "host", LEASE, store.now, store.now, draining=draining, info=info)
    await store.fleet.register(worker, store.now)
    return worker_id


async def why(desk: Desk, job: Any, of: str = "runs") -> Any:
    found = await desk.get(f"/{of}/{job['job_id']}/explain")
    assert set(found) == {"state", "reason", "detail", "holder", "position", "until"}
    return found


async def reason(desk: Desk, job: Any, of: str = "runs") -> str:
    return str((await why(desk, job, of))["reason"])


async def test_a_run_is_explained_from_waiting_to_finished(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule=rfc3339(store.at(MINUTE)))
    ahead = await why(desk, job)
    assert (ahead["reason"], ahead["until"]) == ("not_due", rfc3339(store.at(MINUTE)))
    store.advance(MINUTE)
    late = await why(desk, job)
    assert (late["reason"], late["until"]) == ("no_worker", None)
    worker = await offering(desk)
    waits = await why(desk, job)
    assert (waits["state"], waits["reason"], waits["position"]) == ("queued", "no_capacity", 1)

    run = await store.claim_one(worker, (await store.claimable())[0])
    assert await reason(desk, job) == "running"
    store.advance(LEASE // 3 + 1)
    assert await reason(desk, job) == "worker_lost"
    await store.beat(worker)
    assert await reason(desk, job) == "running"
    await store.fail(worker, run)
    retries = await why(desk, job)
    assert (retries["state"], retries["reason"]) == ("retrying", "not_due")
    assert f"retries at {retries['until']}, in " in retries["detail"]
    store.advance(MINUTE)
    await store.beat(worker)
    await store.succeed(worker, await store.claim_one(worker, run.run_id))

    assert (await why(desk, job))["state"] == "succeeded"
    assert await reason(desk, job) == await reason(desk, job, "jobs") == "finished"


async def test_a_job_that_ran_once_is_explained_by_what_became_of_its_run(desk: Desk) -> None:
    store = desk.store
    dead, lucky = await desk.create(max_retries=0), await desk.create()
    worker = await offering(desk)
    await store.fail(worker, await store.claim_one(worker, RunId(UUID(dead["job_id"]))))
    await store.succeed(worker, await store.claim_one(worker, RunId(UUID(lucky["job_id"]))))

    for job, words in ((dead, "Failed permanently at "), (lucky, "Succeeded at ")):
        found = await why(desk, job, "jobs")
        assert found == await why(desk, job)
        assert found["detail"].startswith(words)

    store.advance(SECOND)
    again = await desk.call("POST", f"/v1/runs/{dead['job_id']}/retry")
    await store.succeed(worker, await store.claim_one(worker, RunId(UUID(again.json()["run_id"]))))
    assert (await why(desk, dead, "jobs"))["state"] == "succeeded"


async def test_who_stands_in_the_way_is_named_with_what_it_does(desk: Desk) -> None:
    store = desk.store
    first = await desk.create(group="g")
    store.advance(SECOND)
    second = await desk.create(group="g")
    store.advance(SECOND)
    await store.claim_due(await offering(desk))
    store.advance(3 * SECOND)

    found = await why(desk, second)

    assert (found["reason"], found["holder"], found["position"]) == ("group", first["job_id"], 1)
    assert (
        found["detail"] == f"The group 'g' runs one run at a time. "
        f"Blocked by run {first['job_id']}, which has been running for 3 s."
    )


async def test_a_concurrency_key_is_named_as_what_holds_a_run(desk: Desk) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(await desk.create(concurrency={"key": "c", "limit": 2}))
        desk.store.advance(1)

    found = await why(desk, jobs[2])

    assert (found["reason"], found["position"], found["holder"] in [job["job_id"] for job in jobs[:2]]) == (
        "concurrency",
        1,
        True,
    )


async def in_the_way(desk: Desk, **holder: Any) -> str:
    """What is told of the holder of a group, which is this job, to whoever stands behind it."""
    first = await desk.create(group="g", **holder)
    desk.store.advance(SECOND)
    second = await desk.create(group="g")
    await desk.store.permit(SECOND)
    found = await why(desk, second)
    assert (found["reason"], found["holder"], found["position"]) == ("group", first["job_id"], 1)
    return str(found["detail"]).partition(f"{first['job_id']}, which ")[2]


async def test_a_holder_that_waits_for_its_concurrency_key_is_told_so(desk: Desk) -> None:
    await desk.create(concurrency={"key": "k", "limit": 1})
    desk.store.advance(SECOND)

    told = await in_the_way(desk, concurrency={"key": "k", "limit": 1})

    assert told == "is itself blocked: the concurrency key 'k' has a limit of 1."


async def test_a_holder_that_waits_for_its_rate_is_told_so(desk: Desk) -> None:
    rate = {"limit": 1, "per": "1h", "key": "r"}
    await desk.create(rate=rate)
    await desk.store.permit(SECOND)
    desk.store.advance(SECOND)

    assert await in_the_way(desk, rate=rate) == "waits for its rate limit of 1 per 1h for the key 'r'."


async def test_a_holder_in_a_paused_queue_is_told_so(desk: Desk) -> None:
    await desk.store.fleet.pause_queue("slow", desk.store.now)

    assert await in_the_way(desk, queue="slow") == "cannot start because the queue 'slow' is paused."


async def test_a_retry_with_a_rate_is_promised_no_more_than_is_true(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(rate={"limit": 1, "per": "1h"}, retry={"jitter": 0})
    await store.permit(SECOND)
    worker = await offering(desk)
    await store.fail(worker, *await store.claim_due(worker))

    found = await why(desk, job)

    assert (found["state"], found["reason"]) == ("retrying", "not_due")
    assert found["detail"].endswith(", or later: it then waits for its rate limit of 1 per 1h for the key 'mark'.")


async def test_one_that_gave_way_is_told_so(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(preemptible=True)
    worker = await offering(desk)
    [run] = await store.claim_due(worker)
    await store.running.hand_back(worker, [attempt.preempted(run, worker, store.now, store.now)], store.now)

    found = await why(desk, job)

    assert (found["state"], found["reason"], found["position"]) == ("queued", "no_capacity", 1)
    assert found["detail"].startswith(f"Preempted by a high-priority run at {rfc3339(store.now)}. ")


async def test_a_run_that_asks_for_more_places_than_its_task_has_is_too_big(desk: Desk) -> None:
    await offering(desk, Offer(frozenset({"mark"}), resources=Resources(slots=1_000), slots={"mark": 2}))

    assert await reason(desk, await desk.create(resources={"slots": 3})) == "too_big"
    assert await reason(desk, await desk.create(resources={"slots": 2})) == "no_capacity"


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"task": "slow", "payload": {"seconds": 1}}, "no_worker"),
        ({"task": "mark", "queue": "elsewhere"}, "no_worker"),
        ({"task": "mark", "labels": ["gpu"]}, "no_labels"),
        ({"task": "mark", "resources": {"memory_mb": 4_096}}, "too_big"),
        ({"task": "mark"}, "no_capacity"),
    ],
)
async def test_what_workers_offer_decides(desk: Desk, job: dict[str, Any], expected: str) -> None:
    await offering(desk)
    await offering(desk, Offer(frozenset({"http"})))
    everything = Offer(
        frozenset({"slow", "mark"}), frozenset({"default", "elsewhere"}), frozenset({"gpu"}), Resources(9, 9_999, 9)
    )
    await offering(desk, everything, draining=True)
    await offering(desk, b"\xff not to be read")

    assert await reason(desk, await desk.create(**job)) == expected


async def test_a_worker_without_words_is_judged_by_its_classes(desk: Desk) -> None:
    job = await desk.create()
    worker = await desk.store.worker()
    assert await reason(desk, job) == "no_worker"

    await desk.store.fleet.beat(worker, desk.store.now, classes=await desk.store.class_ids())

    assert await reason(desk, job) == "no_capacity"


async def test_a_paused_queue_and_a_paused_job_are_told(desk: Desk) -> None:
    await offering(desk)
    job = await desk.create()
    await desk.store.fleet.pause_queue("default", desk.store.now)
    assert await reason(desk, job) == "queue_paused"

    await desk.store.pause(JobId((await desk.store.claimable())[0]))

    assert await reason(desk, job) == await reason(desk, job, "jobs") == "paused"


async def test_a_recurring_job_is_explained_by_its_run_that_is_due(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule="every 1m")
    first = await why(desk, job, "jobs")
    assert (first["reason"], "next occurrence is at" in first["detail"]) == ("not_due", True)
    await store.plan(ahead=3 * MINUTE)
    assert "Due at" in (await why(desk, job, "jobs"))["detail"]

    store.advance(MINUTE)
    assert await reason(desk, job, "jobs") == "no_worker"
    going = await store.claim_due(worker := await offering(desk))
    assert await reason(desk, job, "jobs") == "running"
    store.advance(MINUTE)
    await store.beat(worker)
    held = await why(desk, job, "jobs")
    assert (held["reason"], held["holder"]) == ("overlap", str(going[0].run_id))

    await desk.call("DELETE", f"/v1/jobs/{job['job_id']}")
    await store.succeed(worker, *going)
    ended = await why(desk, job, "jobs")
    assert (ended["state"], ended["reason"]) == ("cancelled", "finished")


async def test_a_job_of_a_paused_queue_without_a_run_says_so(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h", queue="q")
    await desk.store.fleet.pause_queue("q", desk.store.now)

    assert await reason(desk, job, "jobs") == "queue_paused"


async def test_what_is_another_users_is_not_explained(desk: Desk) -> None:
    job = await desk.create(schedule=rfc3339(desk.store.at(HOUR)))

    for of in ("runs", "jobs"):
        for thing, key in ((job["job_id"], "bob"), (uuid4(), "ada"), ("x", "ada")):
            assert (await desk.call("GET", f"/v1/{of}/{thing}/explain", key=key)).status_code == 404
        assert (await desk.get(f"/{of}/{job['job_id']}/explain", key="root"))["reason"] == "not_due"


async def test_workers_show_what_they_offer(desk: Desk) -> None:
    """One that says nothing, or nothing that can be read, is shown all the same."""
    offer = Offer(frozenset({"mark"}), frozenset({"b", "a"}), frozenset({"gpu"}), Resources(1_500, 64, 2), {"mark": 1})
    able = await offering(desk, offer)
    await offering(desk, b"{")

    shown = {worker["worker_id"]: worker["offer"] for worker in (await desk.get("/workers"))["workers"]}

    assert shown.pop(str(able)) == {
        "tasks": ["mark"],
        "queues": ["a", "b"],
        "labels": ["gpu"],
        "resources": {"cpu": 1.5, "memory_mb": 64, "slots": 2},
        "slots": {"mark": 1},
    }
    assert list(shown.values()) == [None]


@pytest.mark.parametrize(
    ("job", "path", "code", "detail"),
    [
        ({"task": "slow", "payload": {"seconds": 1}}, "task", "no_worker", "No live worker has the task 'slow'. Start"),
        ({"queue": "mail"}, "queue", "no_worker", "No live worker with the task 'mark' takes runs from the queue 'mai"),
        ({"labels": ["gpu"]}, "labels", "no_labels", "No live worker with the task 'mark' and the queue 'default' has"),
        ({"resources": {"cpu": 8}}, "resources", "too_big", "The run requests 8 cpu and 1 slot; the closest live work"),
        ({}, None, None, None),
    ],
)
async def test_a_new_job_that_no_live_worker_can_run_has_a_warning_in_these_words(
    desk: Desk, job: dict[str, Any], path: str | None, code: str | None, detail: str | None
) -> None:
    await offering(desk)
    job = {"task": "mark", **job}
    recurring = {**job, "key": "k", "schedule": "every 1h"}

    one = await desk.call("POST", "/v1/jobs", job)
    many = await desk.call("POST", "/v1/jobs/batch", {"jobs": [{"task": "mark"}, job, job]})
    declared = [
        (await desk.call("POST", "/v1/jobs/apply", {"set": "s", "jobs": [recurring], **how})).json()["warnings"]
        for how in ({"dry_run": True}, {}, {})  # the last changes nothing
    ]
    put = await desk.call("PUT", "/v1/jobs/by-key/other", {**recurring, "key": "other"})
    fits = await desk.create(schedule="every 1h")
    edited = await desk.call("PATCH", f"/v1/jobs/{fits['job_id']}", {**job, "name": "n"})
    renamed = await desk.call("PATCH", f"/v1/jobs/{fits['job_id']}", {"name": "m"})

    words = None if path is None else (await why(desk, one.json()))["detail"]
    warning = [] if path is None else [{"path": path, "code": code, "message": words}]
    assert (words or "").startswith(detail or "")
    assert [answer.json()["warnings"] for answer in (one, put, edited, renamed)] == [warning, warning, warning, []]
    assert many.json()["warnings"] == [{**found, "path": f"jobs.1.{path}"} for found in warning]
    of_set = [{**found, "path": f"jobs.0.{path}"} for found in warning]
    assert declared == [of_set, of_set, []]


async def test_the_workers_are_read_twice_a_second_for_all_who_create(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, workers = 0, desk.store.fleet.workers

    async def counted() -> list[Worker]:
        nonlocal read
        read += 1
        return list(await workers())

    monkeypatch.setattr(desk.store.fleet, "workers", counted)

    async def created(how_many: int) -> list[Any]:
        answers = await asyncio.gather(*(desk.call("POST", "/v1/jobs", {"task": "mark"}) for _ in range(how_many)))
        return [answer.json()["warnings"] for answer in answers]

    assert all(warnings[0]["message"].startswith("No live worker has") for warnings in await created(20))
    await desk.create()
    assert read == 1
    await offering(desk)
    await desk.store.clock.advance(Duration(SECOND // 2))
    assert await created(20) == [[]] * 20
    assert read == 2
