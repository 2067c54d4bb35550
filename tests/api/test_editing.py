"""Jobs changed over REST: some fields, all of what was read, or the whole job by its key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.conftest import Desk, etag_of, read_back, time_passing

from oncue.domain.instants import HOUR, MINUTE, SECOND, rfc3339
from oncue.domain.job import decode_spec
from oncue.domain.run import State

FULL: dict[str, Any] = {
    "name": "n",
    "queue": "q/1",
    "priority": "high",
    "tags": ["a", "b"],
    "max_retries": 7,
    "retry": {"backoff": "1500ms", "factor": 1.5, "max_backoff": "1h", "jitter": 0.5},
    "timeout": "90s",
    "overlap": "allow",
    "catch_up": "all",
    "catch_up_window": "2d",
    "start_within": "5m",
    "on_lost": "dead",
    "on_left_behind": "release",
    "key": "k",
    "group": "g",
    "concurrency": {"key": "c", "limit": 3},
    "rate": {"limit": 5, "per": "1m", "key": "r"},
    "resources": {"cpu": 0.25, "memory_mb": 64, "slots": 2},
    "labels": ["x"],
    "preemptible": True,
    "payload": {"deep": [1, 2.5, None, {"ü": "\u2028"}]},
}
SCHEDULES = [
    "now",
    "2030-01-01T05:00:00.001Z",
    "every 90s",
    {"cron": "*/7 9-17 * * mon-fri", "timezone": "Europe/Berlin", "dst_gap": "skip", "dst_fold": "both"},
    {"calendar": {"year": "2030-2032", "hour": 9, "days_of_week": ["mon", "wed"]}, "timezone": "Asia/Tokyo"},
    {
        "every": "1h",
        "start_at": "2030-02-01T00:00:00Z",
        "end_at": "2031-02-01T00:00:00Z",
        "jitter": "5s",
        "max_runs": 9,
    },
]


async def made(desk: Desk, task: str = "mark", **job: Any) -> Any:
    """With a stable key, if there is one."""
    answer = await desk.call("POST", "/v1/jobs", {"task": task, **job})
    assert answer.status_code == 201, answer.text
    return read_back(answer)


async def edited(desk: Desk, job_id: str, body: Any, method: str = "PATCH", **how: Any) -> Any:
    answer = await desk.call(method, f"/v1/jobs/{job_id}", body, **how)
    assert answer.status_code == 200, answer.text
    assert answer.headers["ETag"] == etag_of(answer.json())
    return answer.json()


async def refused(desk: Desk, job_id: str, body: Any, status: int = 422, **how: Any) -> list[str]:
    """The fields it names."""
    before = await desk.get(f"/jobs/{job_id}")
    answer = await desk.call("PATCH", f"/v1/jobs/{job_id}", body, **how)
    assert (answer.status_code, await desk.get(f"/jobs/{job_id}")) == (status, before)
    return [error["path"] for error in answer.json()["errors"]]


ZONED = {"timezone": "Europe/Berlin", "dst_gap": "skip", "dst_fold": "both"}
WINDOW = {"start_at": "2030-02-01T00:00:00.000Z", "end_at": "2031-02-01T00:00:00.000Z", "jitter": "5s", "max_runs": 9}
AT_NINE = {"cron": "0 9 * * *", **ZONED, **WINDOW}
AS_USUAL = {"timezone": "UTC", "dst_gap": "shift", "dst_fold": "first"}


@pytest.mark.parametrize(
    ("named", "after"),
    [
        ("0 10 * * *", {**AT_NINE, "cron": "0 10 * * *"}),
        ("every 2h", {"every": "2h", **ZONED, **WINDOW}),
        ("2030-01-01T05:00:00.000Z", {"at": "2030-01-01T05:00:00.000Z", "jitter": "5s", **ZONED}),
        ("2030-01-01 06:00", {"at": "2030-01-01T05:00:00.000Z", "jitter": "5s", **ZONED}),
        ("now", {"jitter": "5s", **ZONED}),
        # An object replaces all of it.
        ({"cron": "0 10 * * *"}, {"cron": "0 10 * * *", **AS_USUAL}),
        ({"cron": "0 9 * * *", "timezone": "Asia/Tokyo"}, {"cron": "0 9 * * *", **AS_USUAL, "timezone": "Asia/Tokyo"}),
        ({"calendar": {"hour": 9}}, {"calendar": {"hour": 9}, "cron": "0 9 * * *", **AS_USUAL}),
        ({}, {}),
    ],
    ids=str,
)
async def test_a_text_changes_when_and_an_object_replaces_the_schedule(desk: Desk, named: Any, after: Any) -> None:
    job = await made(desk, schedule=AT_NINE)

    assert (await edited(desk, job["job_id"], {"schedule": named}))["schedule"] == after


async def test_a_calendar_goes_when_a_text_says_when(desk: Desk) -> None:
    job = await made(desk, schedule={"calendar": {"hour": 9}, **ZONED})

    there = (await edited(desk, job["job_id"], {"schedule": "30 9 * * *"}))["schedule"]
    assert there == {"cron": "30 9 * * *", **ZONED}


WRONG = [
    *({"cron": "0 9 * * *", "every": "1h"}, {"cron": "61 * * * *"}, {"cron": "0 9 * * *", "x": 1}, "soon", 7),
    *({"timezone": "Asia/Tokyo"}, {"jitter": "1s"}),  # which would run the job now, and only once
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_schedule_that_is_wrong_stays_as_it_was(desk: Desk, wrong: Any) -> None:
    job = await made(desk, schedule=AT_NINE)

    [path] = await refused(desk, job["job_id"], {"schedule": wrong})
    assert path.startswith("schedule")


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_only_what_is_named_changes(desk: Desk, method: str, schedule: Any) -> None:
    job = await made(desk, **FULL, schedule=schedule)
    desk.store.advance(SECOND)

    after = await edited(desk, job["job_id"], {"name": "new", "payload": None, "group": None}, method)

    changed = {"name": "new", "payload": None, "group": None, "version": 2}
    own = {"updated_at", "next_run_at"} if schedule == "now" else {"updated_at"}  # it is wanted anew
    assert {name for name in job if job[name] != after[name]} == {*changed, *own}
    assert changed.items() <= after.items()
    assert after["updated_at"] == rfc3339(desk.store.now)
    assert await desk.get(f"/jobs/{job['job_id']}") == after


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_job_that_was_read_can_be_sent_back_whole(desk: Desk, schedule: Any) -> None:
    job = await made(desk, **FULL, schedule=schedule)
    desk.store.advance(SECOND)

    assert await edited(desk, job["job_id"], job, "PUT") == job  # nothing changed, not even its version
    after = await edited(desk, job["job_id"], {**job, "timeout": "91s"}, "PUT")

    assert (after["timeout"], after["schedule"], after["version"]) == ("91s", job["schedule"], 2)


async def test_what_a_busy_job_tells_of_its_runs_may_be_sent_back_late(desk: Desk) -> None:
    job = await made(desk, schedule="every 1m")
    desk.store.advance(MINUTE)
    await desk.store.plan_all()
    await desk.store.end((await desk.store.claimable())[0], State.SUCCEEDED)
    assert (await desk.get(f"/jobs/{job['job_id']}"))["last_run"] != job["last_run"]

    assert (await edited(desk, job["job_id"], {**job, "name": "new"}))["name"] == "new"


async def test_an_edit_is_for_what_was_planned_already_and_not_for_what_runs(desk: Desk) -> None:
    job = await made(desk, "slow", schedule="every 1m", payload={"seconds": 1}, overlap="allow")
    await desk.store.plan_all(ahead=2 * MINUTE)
    desk.store.advance(MINUTE)
    worker = await desk.store.worker()
    [going] = await desk.store.claim_due(worker)

    await edited(desk, job["job_id"], {"payload": {"seconds": 2}, "timeout": "5s"})
    desk.store.advance(MINUTE)
    await desk.store.beat(worker)
    [run] = await desk.store.claim_due(worker)

    assert (going.payload, run.payload) == (b'{"seconds":1}', b'{"seconds":2}')
    assert decode_spec(run.spec).timeout == 5 * SECOND


async def test_an_interval_keeps_its_beat_unless_it_is_changed(desk: Desk) -> None:
    job = await made(desk, schedule="every 1h")
    desk.store.advance(MINUTE)
    kept = await edited(desk, job["job_id"], {"schedule": {"every": "60m", "jitter": "1ms"}})
    assert kept["next_run_at"] == job["next_run_at"]

    changed = await edited(desk, job["job_id"], {"schedule": "every 30m"})

    assert changed["next_run_at"] == rfc3339(desk.store.at(30 * MINUTE))


async def test_a_stale_match_is_told_before_anything_else(desk: Desk) -> None:
    job = await made(desk, schedule="every 1h")
    path = f"/v1/jobs/{job['job_id']}"
    first = await desk.call("PATCH", path, {"name": "1"}, headers={"If-Match": '"1"'})
    assert (first.status_code, first.headers["ETag"]) == (200, etag_of(job | {"version": 2}))

    for body in ({"name": "2"}, {"nonsense": 1}, b"not json"):
        stale = await desk.call("PATCH", path, body, headers={"If-Match": '"1"'})
        assert stale.status_code == 412
    for tag in ("2", 'W/"2"', '""', ""):
        assert (await desk.call("PATCH", path, {"name": "2"}, headers={"If-Match": tag})).status_code == 412
    assert (await desk.get(f"/jobs/{job['job_id']}"))["name"] == "1"
    for tag, name in (("*", "3"), ('"7", "3"', "4")):
        assert (await desk.call("PUT", path, {"name": name}, headers={"If-Match": tag})).status_code == 200
    await desk.call("DELETE", path)
    assert (await desk.call("PATCH", path, {"name": "5"}, headers={"If-Match": '"1"'})).status_code == 412


async def test_of_many_who_match_the_same_version_one_succeeds(desk: Desk) -> None:
    job = await made(desk, schedule="every 1h")
    path, match = f"/v1/jobs/{job['job_id']}", {"If-Match": '"1"'}

    async with time_passing(desk):
        answers = await asyncio.gather(*(desk.call("PATCH", path, {"name": str(i)}, headers=match) for i in range(8)))

    assert sorted(one.status_code for one in answers) == [200] + [412] * 7
    [won] = [one.json() for one in answers if one.status_code == 200]
    assert await desk.get(f"/jobs/{job['job_id']}") == won


async def test_edits_of_different_fields_at_once_all_count(desk: Desk) -> None:
    job = await made(desk, schedule="every 1h")
    path = f"/v1/jobs/{job['job_id']}"
    fields = {"name": "n", "tags": ["t"], "timeout": "9s", "queue": "q", "priority": "high", "max_retries": 7}
    fields |= {"group": "g", "labels": ["l"], "on_lost": "dead", "catch_up": "all"}
    bodies: list[dict[str, Any]] = [{name: value} for name, value in fields.items()]

    async with time_passing(desk):
        answers = await asyncio.gather(*(desk.call("PATCH", path, body) for body in bodies))

    assert {one.status_code for one in answers} == {200}
    after = await desk.get(f"/jobs/{job['job_id']}")
    assert {name: after[name] for name in fields} == fields
    assert after["version"] == 1 + len(fields)


async def test_what_has_ended_or_started_once_is_a_conflict(desk: Desk) -> None:
    store, worker = desk.store, await desk.store.worker()
    finished = await made(desk)
    await store.end((await store.claimable())[0], State.SUCCEEDED)
    cancelled = await made(desk, schedule="every 1h")
    await desk.call("DELETE", f"/v1/jobs/{cancelled['job_id']}")
    started = await made(desk)
    await store.claim_due(worker)

    for job in (finished, cancelled, started):
        for body in ({"name": "x"}, {}, job):
            assert await refused(desk, job["job_id"], body, 409) == []


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"nonsense": 1}, ["nonsense"]),
        ({"payload": {"minutes": 1}}, ["payload.seconds", "payload.minutes"]),
        ({"payload": None}, ["payload.seconds"]),
        ({"task": "nobody has it"}, ["task"]),
        ({"task": None}, ["task"]),
        ({"task": "http"}, ["payload.url"]),
        ({"schedule": "0 0 31 2 *"}, ["schedule.cron"]),
        ({"schedule": {"calendar": {"hour": 9}, "cron": "1 9 * * *"}}, ["schedule.calendar"]),
        ({"status": "paused", "name": "x" * 201}, ["status", "name"]),
        ({"version": 2}, ["version"]),
        ({"version": "1"}, ["version"]),
        ({"job_id": None}, ["job_id"]),
        ({"user_id": "bob"}, ["user_id"]),
        ({"created_at": "2029-01-01T00:00:00.000Z"}, ["created_at"]),
        ({"key": "other"}, ["key"]),
        ({"key": None}, ["key"]),
        ({"queue": None}, ["queue"]),
        ({"name": "\u202e"}, ["name"]),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_changes(desk: Desk, body: Any, paths: list[str]) -> None:
    job = await made(desk, "slow", schedule="every 1h", payload={"seconds": 1}, key="k")

    assert sorted(await refused(desk, job["job_id"], body)) == sorted(paths)


async def test_a_task_for_some_roles_is_not_edited_into_by_others(desk: Desk) -> None:
    job = await made(desk, schedule="every 1h")

    await refused(desk, job["job_id"], {"task": "command"}, 403)
    after = await edited(desk, job["job_id"], {"task": "command"}, key="root")

    assert (after["task"], after["user_id"]) == ("command", "ada")
    await refused(desk, job["job_id"], {"payload": {"argv": ["id"]}}, 403)


async def put(desk: Desk, key: str, status: int, /, *, caller: str = "ada", **body: Any) -> Any:
    answer = await desk.call("PUT", f"/v1/jobs/by-key/{key}", {"task": "mark", **body}, key=caller)
    assert answer.status_code == status, answer.text
    if status in (200, 201):
        assert answer.headers["ETag"] == etag_of(answer.json())
    return read_back(answer)


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_the_same_again_by_key_leaves_the_job_alone(desk: Desk, schedule: Any) -> None:
    first = await put(desk, "k", 201, **FULL, schedule=schedule)
    desk.store.advance(SECOND)

    assert await put(desk, "k", 200, **FULL, schedule=schedule) == first
    assert await put(desk, "k", 200, **first) == first
    assert (await desk.get(f"/jobs/{first['job_id']}")) == first
    assert len(await desk.jobs()) == 1


async def test_by_key_a_job_is_replaced_as_a_whole(desk: Desk) -> None:
    first = await put(desk, "a%20b", 201, schedule="every 1h", name="n", tags=["t"], payload={"x": 1})
    assert first["key"] == "a b"

    second = await put(desk, "a%20b", 200, schedule="every 2h", max_retries=1)

    assert (second["job_id"], second["version"], second["key"]) == (first["job_id"], 2, "a b")
    assert (second["name"], second["tags"], second["payload"], second["max_retries"]) == (None, [], None, 1)


async def test_each_user_has_keys_of_their_own(desk: Desk) -> None:
    mine, theirs, roots = [await put(desk, "k", 201, schedule="every 1h", caller=who) for who in ("ada", "bob", "root")]

    assert len({mine["job_id"], theirs["job_id"], roots["job_id"]}) == 3
    await put(desk, "k", 200, schedule="every 2h", caller="root")
    assert await desk.get(f"/jobs/{mine['job_id']}") == mine


async def test_of_many_puts_at_once_one_makes_the_job(desk: Desk) -> None:
    body = {"task": "mark", "schedule": "every 1h"}

    async with time_passing(desk):
        answers = await asyncio.gather(*(desk.call("PUT", "/v1/jobs/by-key/k", body) for _ in range(8)))

    assert sorted(one.status_code for one in answers) == [200] * 7 + [201]
    assert len({one.json()["job_id"] for one in answers}) == len(await desk.jobs()) == 1


async def test_by_key_what_was_cancelled_is_made_anew_and_what_finished_only_if_it_is_another(desk: Desk) -> None:
    store = desk.store
    first = await put(desk, "k", 201, schedule="now")
    await store.end((await store.claimable())[0], State.SUCCEEDED)
    assert (await put(desk, "k", 200, schedule="now"))["status"] == "finished"
    assert await store.claimable() == []

    second = await put(desk, "k", 201, schedule="every 1h")
    await desk.call("DELETE", f"/v1/jobs/{second['job_id']}")
    store.advance(MINUTE)
    third = await put(desk, "k", 201, schedule="every 1h")

    assert len({first["job_id"], second["job_id"], third["job_id"]}) == 3
    assert (third["status"], third["next_run_at"]) == ("active", rfc3339(store.at(HOUR)))


async def test_by_key_a_one_shot_that_runs_is_left_alone_or_a_conflict(desk: Desk) -> None:
    first = await put(desk, "k", 201)
    await desk.store.claim_due(await desk.store.worker())

    assert (await put(desk, "k", 200))["job_id"] == first["job_id"]
    await put(desk, "k", 409, name="other")


async def test_by_key_a_version_can_be_asked_for(desk: Desk) -> None:
    body = {"task": "mark", "schedule": "every 1h"}

    async def matching(tag: str, **more: Any) -> int:
        answer = await desk.call("PUT", "/v1/jobs/by-key/k", {**body, **more}, headers={"If-Match": tag})
        return answer.status_code

    assert (await matching("*"), await desk.nothing_stored()) == (412, True)
    await put(desk, "k", 201, schedule="every 1h")
    assert [await matching('"1"', name="x"), await matching('"1"', name="y"), await matching('"2"')] == [200, 412, 200]


@pytest.mark.parametrize(
    ("key", "body", "path"),
    [
        ("k", {"key": "other"}, "key"),
        ("k", {"key": None}, "key"),
        ("k" * 201, {}, "key"),
        ("a%00b", {}, "key"),
        ("%20", {}, "key"),
        ("k", {"version": 1}, "version"),
        ("k", {"nonsense": 1}, "nonsense"),
        ("k", {"schedule": "never"}, "schedule"),
    ],
)
async def test_by_key_what_is_wrong_stores_nothing(desk: Desk, key: str, body: Any, path: str) -> None:
    answer = await desk.call("PUT", f"/v1/jobs/by-key/{key}", {"task": "mark", **body})

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, [path])
    assert await desk.nothing_stored()


async def test_a_new_job_with_a_key_that_is_taken_is_a_conflict_that_names_the_job(desk: Desk) -> None:
    first = await made(desk, schedule="every 1h")
    body = {"task": "mark", "key": "k", "schedule": "every 1h"}
    holder = (await desk.call("POST", "/v1/jobs", body)).json()["job_id"]

    again = await desk.call("POST", "/v1/jobs", body)
    batch = await desk.call("POST", "/v1/jobs/batch", {"jobs": [{"task": "mark"}, body]})

    assert (again.status_code, batch.status_code) == (409, 409)
    assert holder in again.json()["detail"]
    assert len(await desk.jobs()) == 2
    assert (await desk.call("POST", "/v1/jobs", body, key="bob")).status_code == 201
    await desk.call("DELETE", f"/v1/jobs/{holder}")
    assert (await desk.call("POST", "/v1/jobs", body)).status_code == 201
    assert first["key"] is None


async def test_a_repeat_of_a_job_with_a_key_is_still_a_repeat(desk: Desk) -> None:
    body, headers = {"task": "mark", "key": "k", "schedule": "every 1h"}, {"Idempotency-Key": "once"}

    answers = [await desk.call("POST", "/v1/jobs", body, headers=headers) for _ in range(2)]

    assert [one.status_code for one in answers] == [201, 200]
    assert read_back(answers[0]) == answers[1].json()
