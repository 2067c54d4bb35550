"""Runs over REST: shown in every state, cancelled with the truth as the answer, tried anew."""

import asyncio
from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Desk

from oncue.api.runs import CANCEL_TIMEOUT
from oncue.api.views import LARGEST_SHOWN
from oncue.domain import attempt
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, rfc3339
from oncue.domain.job import decode_spec
from oncue.domain.run import State
from oncue.domain.run_parts import PARTS, caught_up, delayed, waits
from oncue.engines.port import Hint, Topic, Worker


async def test_a_run_is_shown_from_waiting_to_succeeded(desk: Desk) -> None:
    store = desk.store
    job = await desk.create("mark", schedule=rfc3339(store.at(SECOND)), retry={"backoff": "2s"})
    path = f"/runs/{job['job_id']}"
    waiting = await desk.get(path)
    assert (waiting["status"], waiting["attempt_number"], waiting["lag_ms"]) == ("scheduled", 0, None)

    due = store.advance(SECOND)
    assert (await desk.get(path))["status"] == "queued"
    worker = await store.worker()
    store.advance(7 * MILLISECOND)
    first = await store.claim_one(worker, (await store.claimable())[0])
    running = await desk.get(path)
    assert (running["status"], running["attempt_number"], running["executor_id"]) == ("running", 1, str(worker))
    assert (running["lag_ms"], running["start_time"]) == (7, rfc3339(store.now))
    await store.fail(worker, first)
    retrying = await desk.get(path)
    assert (retrying["status"], retrying["attempt_number"], retrying["error_message"]) == ("retrying", 1, "it broke")

    store.advance(3 * SECOND)
    second = await store.claim_one(worker, first.run_id)
    await store.running.save(worker, second, progress=b'{"done":1,"total":2}')
    assert (await desk.get(path))["progress"] == {"done": 1, "total": 2}
    await store.succeed(worker, second, result=b'{"ok":true}')
    run = await desk.get(path)

    assert (run["status"], run["attempt_number"], run["lag_ms"]) == ("succeeded", 2, 7)
    assert (run["scheduled_for"], run["end_time"], run["task"]) == (rfc3339(due), rfc3339(store.now), "mark")
    assert (run["result"], run["log_url"]) == ({"ok": True}, f"/v1{path}/logs")
    assert [(one["number"], one["outcome"], one["error_message"]) for one in run["attempts"]] == [
        (1, "failed", "it broke"),
        (2, "succeeded", None),
    ]
    assert await desk.get(f"{path}/result") == {"ok": True}


async def test_one_that_gave_way_has_not_failed_and_its_next_attempt_has_the_next_number(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(preemptible=True, max_retries=1)
    path, worker = f"/runs/{job['job_id']}", await store.worker()

    async def give_way() -> None:
        [run] = await store.claim_due(worker)
        began = store.now
        store.advance(SECOND)
        await store.running.hand_back(worker, [attempt.preempted(run, worker, began, store.now)], store.now)

    await give_way()
    waiting = await desk.get(path)
    assert (waiting["status"], waiting["attempt_number"], waiting["lag_ms"]) == ("queued", 1, 0)
    [run] = await store.claim_due(worker)
    running = await desk.get(path)
    assert (running["status"], running["attempt_number"]) == ("running", 2)
    for shown in (waiting, running):
        assert (shown["error_type"], shown["error_message"]) == (None, None)
        assert [(one["number"], one["outcome"], one["error_type"]) for one in shown["attempts"]] == [
            (1, "preempted", None)
        ]

    await store.fail(worker, run)
    store.advance(MINUTE)
    await store.beat(worker)
    await give_way()
    retrying = await desk.get(path)
    assert (retrying["status"], retrying["attempt_number"], retrying["error_message"]) == ("retrying", 3, "it broke")
    await store.succeed(worker, *await store.claim_due(worker))
    ended = await desk.get(path)
    assert (ended["attempt_number"], ended["error_message"]) == (4, None)
    assert [(one["number"], one["outcome"]) for one in ended["attempts"]] == [
        (1, "preempted"),
        (2, "failed"),
        (3, "preempted"),
        (4, "succeeded"),
    ]


async def test_one_that_is_cancelled_while_it_gives_way_has_one_attempt(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(preemptible=True)
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    began = store.now
    await store.running.cancel(None, run.run_id, store.now)
    store.advance(SECOND)

    await store.running.hand_back(worker, [attempt.preempted(run, worker, began, store.now)], store.now)

    shown = await desk.get(f"/runs/{job['job_id']}")
    assert (shown["status"], shown["attempt_number"], len(shown["attempts"])) == ("cancelled", 1, 1)


async def test_a_held_run_is_queued_from_the_instant_it_asked_for(desk: Desk) -> None:
    first = await desk.create(group="g")
    desk.store.advance(SECOND)  # a lane is in order of instants; of one and the same, in order of ids
    second = await desk.create(group="g")
    desk.store.advance(SECOND)

    assert (await desk.get(f"/runs/{second['job_id']}"))["status"] == "queued"
    assert [str(run_id) for run_id in await desk.store.claimable()] == [first["job_id"]]


async def test_a_log_is_plain_text(desk: Desk) -> None:
    job = await desk.create()
    [run_id] = await desk.store.claimable()
    await desk.store.history.append_log(run_id, 1, "größer\n".encode(), desk.store.now)
    await desk.store.history.append_log(run_id, 2, b"<script>\n", desk.store.now)

    answer = await desk.call("GET", f"/v1/runs/{job['job_id']}/logs")

    assert (answer.text, answer.headers["Content-Type"]) == ("größer\n<script>\n", "text/plain; charset=utf-8")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_run_that_did_not_succeed_has_no_result(desk: Desk) -> None:
    job = await desk.create()

    answer = await desk.call("GET", f"/v1/runs/{job['job_id']}/result")

    assert (answer.status_code, answer.json()["run_status"]) == (409, "queued")


async def test_a_waiting_run_is_cancelled_at_once(desk: Desk) -> None:
    job = await desk.create(schedule=rfc3339(desk.store.at(HOUR)))

    answer = await desk.call("POST", f"/v1/runs/{job['job_id']}/cancel")

    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    desk.store.advance(2 * HOUR)
    assert await desk.store.claimable() == []


async def cancelling(desk: Desk, job_id: str) -> asyncio.Task[object]:
    """A cancel that has told the worker and now waits for the truth."""
    await desk.quiet()
    asked = asyncio.create_task(desk.call("POST", f"/v1/runs/{job_id}/cancel"))
    while not desk.store.clock._sleepers:
        assert not asked.done(), asked.result().text
        await asyncio.sleep(0.001)
    return asked


async def until_done(desk: Desk, asked: asyncio.Task[object]) -> int:
    """How long the answer took, in milliseconds of the clock."""
    passed = 0
    while not asked.done():
        if desk.store.clock._sleepers:
            await desk.store.clock.advance(Duration(25 * MILLISECOND))
            passed += 25
        await asyncio.sleep(0.001)
    return passed


async def test_cancelling_a_running_run_waits_until_it_has_ended(desk: Desk) -> None:
    job = await desk.create()
    worker = await desk.store.worker()
    [run] = await desk.store.claim_due(worker)
    started = desk.store.now

    asked = await cancelling(desk, job["job_id"])
    await desk.store.clock.advance(Duration(25 * MILLISECOND))
    assert [cancel_requests.run_id for cancel_requests in await desk.store.fleet.cancel_requests(worker)] == [
        run.run_id
    ]
    await desk.store.settle(worker, attempt.cancelled(run, worker, started, desk.store.now))
    passed = await until_done(desk, asked)
    shown = asked.result().json()

    assert (asked.result().status_code, shown["status"], passed <= 50) == (200, "cancelled", True)
    assert [(one["number"], one["outcome"]) for one in shown["attempts"]] == [(1, "cancelled")]
    assert shown["attempt_number"] == 1


async def test_a_run_that_does_not_stop_within_a_second_is_cancelling(desk: Desk) -> None:
    job = await desk.create()
    await desk.store.claim_due(await desk.store.worker())

    asked = await cancelling(desk, job["job_id"])
    passed = await until_done(desk, asked)

    assert (asked.result().status_code, asked.result().json()["status"]) == (200, "cancelling")
    assert passed == CANCEL_TIMEOUT // MILLISECOND


@pytest.mark.parametrize(
    ("end", "status"),
    [(State.SUCCEEDED, "succeeded"), (State.DEAD, "dead"), (State.CANCELLED, "cancelled"), (State.EXPIRED, "expired")],
)
async def test_cancelling_what_has_ended_tells_how_it_ended(desk: Desk, end: State, status: str) -> None:
    job = await desk.create(start_within="1m")
    await desk.store.end((await desk.store.claimable())[0], end)

    answer = await desk.call("POST", f"/v1/runs/{job['job_id']}/cancel")

    assert (answer.status_code, answer.json()["run_status"], answer.json()["status"]) == (409, status, 409)
    assert status in answer.json()["detail"]


async def test_a_dead_run_is_tried_anew_once(desk: Desk) -> None:
    run_id = await desk.dead(payload={"tag": "x"})
    desk.store.advance(MINUTE)

    answer = await desk.call("POST", f"/v1/runs/{run_id}/retry")
    again = await desk.call("POST", f"/v1/runs/{run_id}/retry")

    assert (answer.status_code, again.status_code) == (202, 409)
    [run] = await desk.store.claim_due(await desk.store.worker())
    assert (str(run.run_id), run.parent, run.payload) == (answer.json()["run_id"], run_id, b'{"tag":"x"}')
    assert (await desk.get(f"/runs/{run_id}"))["status"] == "dead"


async def test_only_a_dead_run_can_be_tried_anew(desk: Desk) -> None:
    job = await desk.create()

    answer = await desk.call("POST", f"/v1/runs/{job['job_id']}/retry")

    assert (answer.status_code, answer.json()["run_status"]) == (409, "queued")


async def test_dead_letters_are_listed_with_payload_and_errors_and_requeued(desk: Desk) -> None:
    mine, theirs = await desk.dead(payload={"tag": "dl"}), await desk.dead(key="bob")

    [letter] = (await desk.get("/dead-letters"))["dead_letters"]
    assert (letter["run_id"], letter["payload"], letter["status"]) == (str(mine), {"tag": "dl"}, "dead")
    assert "it broke" in letter["error_message"]
    assert len(letter["attempts"]) == 1
    assert len((await desk.get("/dead-letters", key="root"))["dead_letters"]) == 2
    body = {"run_ids": [str(mine), str(theirs), str(uuid4()), str(mine)]}
    answer = await desk.call("POST", "/v1/dead-letters/requeue", body)

    assert (answer.status_code, answer.json()["count"]) == (202, 1)
    assert [str(run_id) for run_id in await desk.store.claimable()] == answer.json()["run_ids"]
    assert (await desk.get("/dead-letters"))["dead_letters"] == []
    assert len((await desk.get("/dead-letters", key="bob"))["dead_letters"]) == 1


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "run_ids"),
        ({"run_ids": []}, "run_ids"),
        ({"run_ids": "x"}, "run_ids"),
        ({"run_ids": [str(uuid4())] * 1_001}, "run_ids"),
        ({"run_ids": [str(uuid4()), "x"]}, "run_ids.1"),
        ({"run_ids": [7]}, "run_ids.0"),
        ({"run_ids": [str(uuid4())], "all": True}, "all"),
    ],
)
async def test_a_bad_requeue_names_its_field(desk: Desk, body: object, path: str) -> None:
    answer = await desk.call("POST", "/v1/dead-letters/requeue", body)

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, [path])


async def test_hints_follow_what_was_stored(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is woken looks at the store: a hint that comes before the write finds nothing. Nobody is woken too early."""
    sent: list[tuple[Hint, int]] = []

    async def send(hints: list[Hint]) -> None:
        stored = len(await desk.jobs())
        sent.extend((hint, stored) for hint in hints)

    monkeypatch.setattr(desk.store.engine.signals, "send", send)
    store = desk.store
    soon = Duration(SECOND)
    await desk.create(schedule=rfc3339(store.at(soon)))
    await desk.create(schedule="every 9s")
    job = await desk.create()
    await desk.create(schedule=rfc3339(store.at(MINUTE)))
    await desk.create(schedule="every 1h")
    worker = await store.worker()
    await store.claim_due(worker)
    await desk.call("DELETE", f"/v1/jobs/{job['job_id']}")
    monkeypatch.setattr("oncue.api.runs.CANCEL_TIMEOUT", 0)
    await desk.call("POST", f"/v1/runs/{job['job_id']}/cancel")

    assert [(hint.topic, hint.due, hint.target, stored) for hint, stored in sent] == [
        (Topic.RUNS, store.at(soon), None, 1),
        (Topic.JOBS, store.at(9 * SECOND), None, 2),
        (Topic.RUNS, store.now, None, 3),
        (Topic.CANCELS, None, str(worker), 5),
        (Topic.CANCELS, None, str(worker), 5),
    ]


async def test_a_run_says_what_people_call_its_job_and_its_worker(desk: Desk) -> None:
    store, body = (
        desk.store,
        {"task": "mark", "name": "often", "schedule": "every 1m", "queue": "q", "priority": "high"},
    )
    job_id = (await desk.call("PUT", "/v1/jobs/by-key/k", body)).json()["job_id"]
    await store.plan_all(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker(name="w-7")
    [run] = await store.claim_due(worker)
    started = store.now
    store.advance(250 * MILLISECOND)
    await store.settle(worker, attempt.succeeded(run, started, store.now, None))
    await store.fleet.leave(worker)

    [listed] = (await desk.get(f"/runs?job_id={job_id}"))["runs"]
    alone = await desk.get(f"/runs/{run.run_id}")

    told = {
        "job_name": "often", "job_key": "k", "queue": "q", "priority": "high", "trigger": "schedule", "parent": None,
        "duration_ms": 250, "executor_id": str(worker), "executor_name": "w-7",
    }  # fmt: skip
    assert {name: listed[name] for name in told} == told
    assert {name: alone[name] for name in listed} == listed
    again = (await desk.call("POST", f"/v1/runs/{run.run_id}/retry")).json()["run_id"]
    new = await desk.get(f"/runs/{again}")
    assert (new["trigger"], new["parent"], new["job_name"], new["duration_ms"]) == (
        "requeue",
        str(run.run_id),
        "often",
        None,
    )


async def test_a_run_has_its_payload_up_to_a_size(desk: Desk) -> None:
    """Above that its size, and the value where values are."""
    for size in (10, LARGEST_SHOWN - 20, LARGEST_SHOWN):
        payload = {"a": "x" * size}
        run_id = (await desk.create(payload=payload))["job_id"]
        shown = await desk.get(f"/runs/{run_id}")
        fits = size < LARGEST_SHOWN
        assert (shown["payload"], shown["large"]) == ((payload, {}) if fits else (None, {"payload": size + 8}))
        assert (await desk.get(f"/runs/{run_id}/payload")) == payload


async def test_tracebacks_are_shown_with_a_single_run_only(desk: Desk) -> None:
    store = desk.store
    await desk.create()
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    broke = attempt.Failure(
        error_type="Boom", error="it broke", error_class="a.Boom", traceback="Traceback\n\x1b[1m", retry=False
    )
    end = attempt.failed(run, decode_spec(run.spec), worker, store.now, store.now, broke, 0.0)
    await store.settle(worker, end)

    [letter] = (await desk.get("/dead-letters"))["dead_letters"]
    [listed] = (await desk.get("/runs"))["runs"]
    alone = await desk.get(f"/runs/{run.run_id}")

    told = [[one["attempts"][0][name] for name in ("error_class", "traceback")] for one in (letter, listed, alone)]
    shown = ["a.Boom", "Traceback\n\\u001b[1m"]
    assert told == [shown, ["a.Boom", None], shown]


async def test_a_log_is_read_in_parts_until_it_is_complete(desk: Desk) -> None:
    store, job = desk.store, await desk.create()
    run_id = job["job_id"]
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    for number, text in ((PARTS, b"one\n"), (PARTS + 1, "zwöi\n".encode()), (2 * PARTS, b"\xff")):
        await store.history.append_log(run.run_id, number, text, store.now)

    first = await desk.get(f"/runs/{run_id}/logs?format=json&limit=2")
    rest = await desk.get(f"/runs/{run_id}/logs?format=json&after={first['next_after']}")
    await store.succeed(worker, run)
    ended = await desk.get(f"/runs/{run_id}/logs?format=json&after={rest['next_after']}")

    at = rfc3339(store.now)
    assert first == {
        "parts": [
            {"number": PARTS, "start": 1, "at": at, "text": "one\n"},
            {"number": PARTS + 1, "start": 1, "at": at, "text": "zwöi\n"},
        ],
        "next_after": PARTS + 1,
    }
    assert ([part["start"] for part in rest["parts"]], rest["next_after"]) == ([2], 2 * PARTS)
    assert ended == {"parts": [], "next_after": None}
    assert (await desk.get(f"/runs/{run_id}/logs?format=json"))["next_after"] is None
    for query in ("format=json&tail=1", "format=json&follow=true", "limit=5", "format=xml"):
        assert (await desk.call("GET", f"/v1/runs/{run_id}/logs?{query}")).status_code == 422
    assert (await desk.call("GET", f"/v1/runs/{run_id}/logs?format=json", key="bob")).status_code == 404


async def test_a_live_run_that_has_logged_nothing_yet_has_no_complete_log(desk: Desk) -> None:
    run_id = (await desk.create())["job_id"]
    path = f"/runs/{run_id}/logs?format=json"

    found = await desk.get(path)

    await desk.store.history.append_log(RunId(UUID(run_id)), PARTS, b"one\n", desk.store.now)
    rest = await desk.get(f"{path}&after={found['next_after']}")
    assert [part["text"] for part in rest["parts"]] == ["one\n"]


async def late_log(desk: Desk) -> tuple[RunId, WorkerId]:
    """A run that has ended, and whose worker waits to store the rest of its log."""
    store = desk.store
    await desk.create()
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    await store.history.append_log(run.run_id, PARTS, b"one\n", store.now)
    await store.history.append_log(run.run_id, delayed(1), waits(worker), store.now)
    await store.succeed(worker, run)
    return run.run_id, worker


async def read_text(desk: Desk, run_id: RunId) -> tuple[str, str | None]:
    answer = await desk.call("GET", f"/v1/runs/{run_id}/logs")
    return answer.text, answer.headers.get("Log-Delayed")


async def test_a_log_of_which_a_part_is_not_stored_yet_is_not_complete(desk: Desk) -> None:
    (run_id, _), store = await late_log(desk), desk.store
    path = f"/runs/{run_id}/logs?format=json"

    first = await desk.get(path)
    nothing = await desk.get(f"{path}&after={first['next_after']}")
    assert ([part["text"] for part in first["parts"]], first["next_after"]) == (["one\n"], PARTS)
    assert nothing == {"parts": [], "next_after": PARTS}
    assert await read_text(desk, run_id) == ("one\n", "true")

    await store.history.append_log(run_id, PARTS + 1, b"two\n", store.now)
    assert (await desk.get(f"{path}&after={PARTS}"))["next_after"] == PARTS + 1
    await store.history.append_log(run_id, caught_up(1), b"", store.now)

    rest = await desk.get(f"{path}&after={PARTS}")
    assert ([part["text"] for part in rest["parts"]], rest["next_after"]) == (["two\n"], None)
    assert await read_text(desk, run_id) == ("one\ntwo\n", None)


async def test_nobody_waits_for_the_log_of_a_worker_that_is_gone_and_its_readers_are_told(desk: Desk) -> None:
    run_id, worker = await late_log(desk)
    await desk.store.fleet.leave(worker)

    found = await desk.get(f"/runs/{run_id}/logs?format=json")

    lost = "\n… the rest of this log is lost: its worker ended while object storage was unavailable\n"
    assert ([part["text"] for part in found["parts"]], found["next_after"]) == (["one\n", lost], None)
    assert await read_text(desk, run_id) == ("one\n" + lost, None)


async def test_what_a_worker_stores_just_before_it_goes_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches asking for parts, then for workers, and taking both for one moment."""
    (run_id, worker), store = await late_log(desk), desk.store
    ask = store.fleet.workers

    async def go_first() -> Sequence[Worker]:
        await store.history.append_log(run_id, PARTS + 1, b"two\n", store.now)
        await store.history.append_log(run_id, caught_up(1), b"", store.now)
        await store.fleet.leave(worker)
        return await ask()

    monkeypatch.setattr(store.fleet, "workers", go_first)

    assert await read_text(desk, run_id) == ("one\ntwo\n", None)


async def test_what_a_later_start_wrote_follows_what_an_earlier_one_still_has_to_store(desk: Desk) -> None:
    """Catches readers who go on by number, and would miss what comes before it."""
    (run_id, _), store = await late_log(desk), desk.store
    await store.history.append_log(run_id, 2 * PARTS, b"again\n", store.now)
    path = f"/runs/{run_id}/logs?format=json"

    assert [part["text"] for part in (await desk.get(path))["parts"]] == ["one\n"]
    await store.history.append_log(run_id, PARTS + 1, b"two\n", store.now)
    await store.history.append_log(run_id, caught_up(1), b"", store.now)

    rest = await desk.get(f"{path}&after={PARTS}")
    assert ([part["text"] for part in rest["parts"]], rest["next_after"]) == (["two\n", "again\n"], None)


async def test_a_log_is_followed_until_its_rest_is_stored(desk: Desk) -> None:
    (run_id, _), store = await late_log(desk), desk.store
    following = asyncio.create_task(desk.call("GET", f"/v1/runs/{run_id}/logs?follow=true"))
    for _ in range(20):
        await store.clock.advance(SECOND)
        await asyncio.sleep(0.005)
    assert not following.done()

    await store.history.append_log(run_id, PARTS + 1, b"two\n", store.now)
    await store.history.append_log(run_id, caught_up(1), b"", store.now)
    async with asyncio.timeout(60):
        while not following.done():
            await store.clock.advance(SECOND)
            await asyncio.sleep(0.005)
    assert following.result().text == "one\ntwo\n"
