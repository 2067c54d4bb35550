"""Declared jobs: a set is made as it is declared, or all that is wrong with it is answered and nothing written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.conftest import Desk, read_back, time_passing

from oncue.domain.errors import StoreUnavailable
from oncue.engines.port import MOST_SETS, Quota, SetStamp
from oncue.intake import apply_writing

A = {"key": "a", "task": "mark", "schedule": "0 9 * * *"}
B = {"key": "b", "task": "mark", "schedule": "every 1h", "payload": {"n": 1}}
C = {"key": "c", "task": "slow", "payload": {"seconds": 1}}
TAG = "applied:shop"


async def apply(desk: Desk, *jobs: Any, status: int = 200, key: str = "ada", **asked: Any) -> Any:
    """Apply, and show that a dry run before it answers the same and changes nothing."""
    body = {"set": "shop", "jobs": jobs, **asked}
    before = await stored(desk)
    tried = await desk.call("POST", "/v1/jobs/apply", {**body, "dry_run": True}, key=key)
    assert await stored(desk) == before
    answer = await desk.call("POST", "/v1/jobs/apply", body, key=key)
    assert answer.status_code == status, answer.text
    assert tried.status_code == status, tried.text
    if status != 200:
        assert tried.json() == answer.json()
        assert await stored(desk) == before
        return answer.json()
    assert actions(tried.json()) == actions(answer.json())
    assert [step["changes"] for step in tried.json()["steps"]] == [step["changes"] for step in answer.json()["steps"]]
    return read_back(answer)


async def stored(desk: Desk) -> Any:
    """All that a request may store."""
    found = await desk.get("/jobs?limit=1000", "root")
    audit = await desk.get("/audit?limit=1000", "root")
    stamps = [await desk.store.engine.declaring.stamp(desk.store.uid, name) for name in ("shop", "other")]
    return found, audit, await desk.store.jobs.classes(), stamps


def actions(answer: Any) -> list[tuple[str, str]]:
    return [(step["action"], step["key"]) for step in answer["steps"]]


async def by_key(desk: Desk, key: str) -> Any:
    return await desk.get(f"/jobs/by-key/{key}")


async def refused(desk: Desk, *jobs: Any, **asked: Any) -> list[tuple[str, str]]:
    return [(one["path"], one["code"]) for one in (await apply(desk, *jobs, status=422, **asked))["errors"]]


async def test_a_set_is_created_changed_and_left_alone(desk: Desk) -> None:
    first = await apply(desk, A, B, C)
    assert actions(first) == [("create", "a"), ("create", "b"), ("create", "c")]
    a, b = await by_key(desk, "a"), await by_key(desk, "b")
    assert [step["job_id"] for step in first["steps"]][:2] == [a["job_id"], b["job_id"]]
    assert (a["tags"], b["payload"], b["next_run_at"]) == ([TAG], {"n": 1}, "2030-01-01T01:00:00.000Z")

    again = await apply(desk, A, B, C)
    assert actions(again) == [("unchanged", "a"), ("unchanged", "b"), ("unchanged", "c")]
    assert (await by_key(desk, "b"))["version"] == 1

    other = {**B, "schedule": "every 2h", "payload": {"n": 2}, "tags": ["x"]}
    third = await apply(desk, {**A, "queue": "q"}, other)
    assert actions(third) == [("change", "a"), ("change", "b")]
    assert third["steps"][0]["changes"] == {"queue": {"old": "default", "new": "q"}}
    said = third["steps"][1]["changes"]
    assert said["payload"] == {"old": {"n": 1}, "new": {"n": 2}}
    assert (said["schedule"]["old"]["every"], said["schedule"]["new"]["every"]) == ("1h", "2h")
    assert said["tags"] == {"old": [TAG], "new": ["x", TAG]}
    assert (await by_key(desk, "b"))["version"] == 2
    assert actions(await apply(desk, {**A, "queue": "q"}, {**other, "tags": ["x"]})) == [
        ("unchanged", "a"),
        ("unchanged", "b"),
    ]


async def test_only_what_the_set_had_is_pruned_and_a_pause_survives(desk: Desk) -> None:
    await apply(desk, A, B, C)
    await apply(desk, {**A, "key": "other"}, set="other")
    by_hand = await desk.create(schedule="0 9 * * *", tags=["mine"])
    paused = await by_key(desk, "b")
    await desk.call("POST", f"/v1/jobs/{paused['job_id']}/pause")

    done = await apply(desk, {**B, "name": "new"}, prune=True)

    assert actions(done)[0] == ("change", "b")
    assert sorted(actions(done)[1:]) == [("prune", "a"), ("prune", "c")]
    assert [(await by_key(desk, key))["status"] for key in ("a", "b", "c", "other")] == [
        "cancelled",
        "paused",
        "cancelled",
        "active",
    ]
    assert (await desk.get(f"/jobs/{by_hand['job_id']}"))["status"] == "active"
    assert actions(await apply(desk, {**B, "name": "new"}, prune=True)) == [("unchanged", "b")]
    assert actions(await apply(desk, A, {**B, "name": "new"})) == [("create", "a"), ("unchanged", "b")]
    assert sorted(actions(await apply(desk, prune=True))) == [("prune", "a"), ("prune", "b")]


async def test_a_job_of_another_set_is_adopted_only_if_asked(desk: Desk) -> None:
    await apply(desk, A, set="other")
    await desk.call("POST", "/v1/jobs", {**B, "tags": ["mine"]})

    body = await apply(desk, A, B, C, status=422)

    assert [(one["path"], one["code"]) for one in body["errors"]] == [
        ("jobs.0.key", "adopt_needed"),
        ("jobs.1.key", "adopt_needed"),
    ]
    assert "belongs to the set 'other'" in body["errors"][0]["message"]
    assert "was not created by apply" in body["errors"][1]["message"]
    done = await apply(desk, A, B, C, adopt=True)
    assert actions(done) == [("adopt", "a"), ("adopt", "b"), ("create", "c")]
    assert [step["owners"] for step in done["steps"]] == [["other"], [], []]
    assert (await by_key(desk, "a"))["tags"] == [TAG]


async def test_all_that_is_wrong_is_answered_at_once_and_nothing_written(desk: Desk) -> None:
    await desk.create("slow", payload={"seconds": 1}, tags=["one-shot"])
    assert await refused(
        desk,
        A,
        {**A, "schedule": "61 * * * *"},
        {"task": "mark"},
        {"key": "d", "task": "nothing", "nme": 1},
        {"key": "e", "task": "slow", "payload": {}},
        {"key": "f", "task": "command"},
        {"key": "g", "task": "mark", "tags": ["applied:shop"]},
        {"key": "h", "task": "mark", "schedule": "in 10m"},
        {"key": "i", "task": "mark", "schedule": {"every": "1h", "start_at": "1h ago"}},
        {"key": "j", "task": "mark", "schedule": {"cron": "0 9 * * *", "end_at": "2029-01-01T00:00:00Z"}},
        {"key": "k" * 201, "task": "mark"},
        7,
        {"key": "l", "task": "mark", "tags": "x"},
        {"key": "m", "task": "command", "overlap": "never", "schedule": {"cron": "0 25 * * *", "timezone": "Mars"}},
    ) == [
        ("jobs.1.key", "not_unique"),
        ("jobs.1.schedule.cron", "bad_cron"),
        ("jobs.2.key", "required"),
        ("jobs.3.nme", "unknown_field"),
        ("jobs.3.task", "unknown_task"),
        ("jobs.4.payload.seconds", "required"),
        ("jobs.5.task", "forbidden"),
        ("jobs.6.tags", "reserved"),
        ("jobs.7.schedule", "relative_time"),
        ("jobs.8.schedule.start_at", "relative_time"),
        ("jobs.10.key", "too_long"),
        ("jobs.11", "wrong_type"),
        ("jobs.12.tags", "wrong_type"),
        ("jobs.13.task", "forbidden"),
        ("jobs.13.overlap", "unknown_value"),
        ("jobs.13.schedule.timezone", "bad_timezone"),
        ("jobs.13.schedule.cron", "bad_cron"),
        ("jobs.9.schedule", "never_fires"),
    ]
    assert [row.job.spec.tags for row in await desk.jobs()] == [("one-shot",)]  # type: ignore[attr-defined]


async def test_of_ten_thousand_problems_a_hundred_are_listed_and_the_others_counted(desk: Desk) -> None:
    jobs = [{"key": f"k{n}", "task": "mark", "overlap": "x" * 1_000} for n in range(10_000)]

    body = await apply(desk, *jobs, status=422)

    *first, last = body["errors"]
    assert [one["path"] for one in first] == [f"jobs.{n}.overlap" for n in range(100)]
    assert last == {
        "path": "", "code": "more_problems", "message": "and 9,900 more problems", "more": 9_900, "at_least": False
    }  # fmt: skip
    batch = await desk.call("POST", "/v1/jobs/batch", {"jobs": [{**job, "tags": [1, 2]} for job in jobs]})
    assert batch.json()["errors"][-1]["message"] == "and 29,900 more problems"


async def test_counting_problems_ends_after_a_while(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are compared with all time zones take long."""
    monkeypatch.setattr("oncue.intake.definitions.COUNTED_FOR", -1)
    jobs = [{"key": f"k{n}", "task": "mark", "overlap": "x"} for n in range(200)]

    body = await apply(desk, *jobs, status=422)

    assert body["errors"][-1]["message"] == "and at least 1 more problem"


async def test_what_is_wrong_beside_the_jobs_and_with_a_wrong_jobs_key_is_told_too(desk: Desk) -> None:
    await apply(desk, A, set="other")

    assert await refused(desk, {**A, "overlap": "x"}, B) == [
        ("jobs.0.overlap", "unknown_value"),
        ("jobs.0.key", "adopt_needed"),
    ]
    assert await refused(desk, {**A, "overlap": "x"}, adopt=True) == [("jobs.0.overlap", "unknown_value")]
    assert await refused(desk, {**A, "overlap": "x"}, stamp="new") == [
        ("stamp", "wrong_type"),
        ("jobs.0.overlap", "unknown_value"),
    ]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"jobs": []}', "set"),
        (b'{"set": "shop"}', "jobs"),
        (b'{"set": "shop", "jobs": {}}', "jobs"),
        (b'{"set": "", "jobs": []}', "set"),
        (b'{"set": "%s", "jobs": []}' % (b"x" * 93), "set"),
        (b'{"set": "shop", "jobs": [], "stamp": -1}', "stamp"),
        (b'{"set": "shop", "jobs": [], "stamp": "1"}', "stamp"),
        (b'{"set": "shop", "jobs": [], "prune": "yes"}', "prune"),
        (b'{"set": "shop", "jobs": [], "dry-run": true}', "dry-run"),
        (b'{"set": "[1]", "jobs": [1]}', ""),
        (b"[]", ""),
        (b'{"set": "shop", "stamp": 5, "jobs": [{"key": "a", "task": "mark", "name": "\\ud800"}]}', "jobs.0.name"),
        (b'{"set": "shop", "stamp": 5, "jobs": [{"key": "\\ud800", "task": "mark"}]}', "jobs.0.key"),
    ],
)
async def test_a_wrong_declaration_is_refused(desk: Desk, body: bytes, path: str) -> None:
    answer = await desk.call("POST", "/v1/jobs/apply", body)

    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path)


async def test_odd_bodies_and_no_jobs_are_no_trouble(desk: Desk) -> None:
    assert (await desk.call("POST", "/v1/jobs/apply", b'{"set": "a", "set": "b", "jobs": []}')).status_code == 400
    assert (await desk.call("POST", "/v1/jobs/apply", b'{"jobs": [')).status_code == 400
    assert (await apply(desk, set="s [0] \u0416"))["steps"] == []
    assert (await desk.call("POST", "/v1/jobs/apply", b'{"set": "[]", "jobs": []}')).status_code == 200


async def test_quotas_count_what_a_set_adds_and_are_told_with_the_rest(desk: Desk) -> None:
    await apply(desk, {**B, "payload": {"a": "x" * 30}})
    desk.app.api.intake.quota = Quota(jobs=3, payload=100)
    grown = {**B, "payload": {"a": "x" * 60}}

    assert await refused(desk, B, A, C, {**A, "key": "d"}) == [("", "quota_exceeded")]
    too_large = {**A, "payload": {"a": "x" * 30}}
    assert await refused(desk, grown, too_large) == [("jobs.1.payload", "quota_exceeded")]
    assert await refused(desk, {**B, "payload": {"a": "x" * 99}}) == [("payload", "quota_exceeded")]
    assert await refused(desk, grown, too_large, {"key": "d"}) == [
        ("jobs.2.task", "required"),
        ("jobs.1.payload", "quota_exceeded"),
    ]
    shrinks = {**B, "payload": {}}
    assert actions(await apply(desk, {**A, "payload": {"a": "x" * 60}}, shrinks)) == [("create", "a"), ("change", "b")]


async def test_older_code_never_wins_over_newer(desk: Desk) -> None:
    assert (await apply(desk, A, stamp=5))["stamp"] == 5
    assert (await apply(desk, A, stamp=5))["warnings"] == []

    assert (await apply(desk, A, B, stamp=5))["warnings"][0]["code"] == "same_stamp"
    assert (await apply(desk, B, A, stamp=5))["warnings"] == []
    await apply(desk, A, stamp=6)
    body = await apply(desk, {**A, "name": "old"}, stamp=5, status=409)

    assert body["detail"].startswith("The set 'shop' was applied with stamp 6, which is higher than 5")
    assert (await by_key(desk, "a"))["name"] is None
    await apply(desk, {**A, "name": "by hand"})  # without a stamp: no question of order
    await apply(desk, A, stamp=5, set="other", adopt=True)
    await apply(desk, {**A, "key": "theirs"}, stamp=1, key="bob")


async def test_a_newer_declaration_that_comes_in_between_wins(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    declaring = desk.store.engine.declaring

    async def quicker(*_: Any) -> None:
        await declaring.put_stamp(desk.store.uid, "shop", SetStamp(9, b""), desk.store.now)

    monkeypatch.setattr("oncue.intake.apply_planning._refuse_what_engines_would", quicker)
    answer = await desk.call("POST", "/v1/jobs/apply", {"set": "shop", "jobs": [A], "stamp": 5})

    assert (answer.status_code, await desk.jobs()) == (409, ())


async def test_too_many_stamped_sets_are_a_conflict(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(MOST_SETS):
        await desk.store.engine.declaring.put_stamp(desk.store.uid, f"s{n}", SetStamp(1, b""), desk.store.now)

    answer = await desk.call("POST", "/v1/jobs/apply", {"set": "shop", "jobs": [A], "stamp": 1})

    assert (answer.status_code, await desk.jobs()) == (409, ())
    assert (await apply(desk, A))["steps"][0]["action"] == "create"


async def test_what_was_interrupted_is_finished_by_a_repeat(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [{**A, "key": f"k{n}"} for n in range(7)]
    real, calls = desk.store.engine.jobs.create, []

    async def away_after_two(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise StoreUnavailable("away")
        return await real(*args, **kwargs)

    monkeypatch.setattr(apply_writing, "AT_ONCE", 2)
    monkeypatch.setattr(desk.store.engine.jobs, "create", away_after_two)
    answer = await desk.call("POST", "/v1/jobs/apply", {"set": "shop", "jobs": many})
    assert (answer.status_code, len(await desk.jobs())) == (503, 4)

    done = await apply(desk, *many)

    assert [action for action, _ in actions(done)] == ["unchanged"] * 4 + ["create"] * 3


async def test_one_shots_run_once_however_often_they_are_applied(desk: Desk) -> None:
    once = {"key": "once", "task": "mark"}
    await apply(desk, once)
    assert actions(await apply(desk, once)) == [("unchanged", "once")]
    worker = await desk.store.worker()
    [run] = await desk.store.claim_due(worker)
    started = await apply(desk, {**once, "name": "late"}, status=422)
    assert [(one["path"], one["code"]) for one in started["errors"]] == [("jobs.0", "conflict")]
    await desk.store.succeed(worker, run)

    assert actions(await apply(desk, once)) == [("unchanged", "once")]
    assert actions(await apply(desk, {**once, "payload": {"again": 1}})) == [("create", "once")]
    assert len(await desk.store.claim_due(worker)) == 1


async def test_who_did_it_is_in_the_audit_log(desk: Desk) -> None:
    await apply(desk, A, B)
    await apply(desk, {**A, "name": "n"}, prune=True)

    lines = (await desk.get("/audit"))["audit"]
    assert [line["action"] for line in lines][:3] == ["job.apply", "job.cancel", "job.put"]
    assert lines[0]["detail"] == {"set": "shop", "change": 1, "prune": 1}
    assert {line["object_id"] for line in lines[1:3]} == {(await by_key(desk, key))["job_id"] for key in "ab"}


async def test_each_user_has_sets_of_their_own_and_viewers_only_read(desk: Desk) -> None:
    await apply(desk, A, B)

    theirs = await apply(desk, A, key="bob", prune=True)

    assert actions(theirs) == [("create", "a")]
    assert [row.job.status for row in await desk.jobs()] == ["active"] * 3  # type: ignore[attr-defined]
    for asked in ({}, {"dry_run": True}):
        no = await desk.call("POST", "/v1/jobs/apply", {"set": "shop", "jobs": [], **asked}, key="viewer")
        assert no.status_code == 403
    assert actions(await apply(desk, {**A, "key": "of-root"}, key="root", prune=True)) == [("create", "of-root")]


async def test_large_payloads_are_declared_and_compared(desk: Desk) -> None:
    large = {**B, "payload": {"text": "x" * 2_000_000}}
    await apply(desk, large)
    assert actions(await apply(desk, large)) == [("unchanged", "b")]
    assert (await by_key(desk, "b"))["payload"] == large["payload"]

    changed = await apply(desk, {**B, "payload": {"text": "y" * 2_000_000}})

    assert changed["steps"][0]["changes"]["payload"] == {"old": "(2000011 bytes)", "new": "(2000011 bytes)"}


async def test_many_who_apply_the_same_at_once_agree(desk: Desk) -> None:
    body = {"set": "shop", "jobs": [A, B], "stamp": 1}
    async with time_passing(desk):
        answers = await asyncio.gather(*(desk.call("POST", "/v1/jobs/apply", body) for _ in range(5)))

    assert {answer.status_code for answer in answers} == {200}
    assert len(await desk.jobs()) == 2


async def declare(desk: Desk, stamp: int, *jobs: Any) -> Any:
    return await desk.call("POST", "/v1/jobs/apply", {"set": "shop", "jobs": jobs, "stamp": stamp, "prune": True})


@pytest.mark.parametrize("verb", ["apply", "create", "cancel"])
async def test_of_two_declarations_at_once_the_newer_decides_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The newer one is applied while the older is about to change, to create or to cancel its first job."""
    await declare(desk, 1, A, B, {**A, "key": "gone"})
    jobs, newer = desk.store.engine.jobs, [{**A, "name": "new"}, {**A, "key": "gone"}, {**A, "key": "only-new"}]
    real, first = getattr(jobs, verb), [True]

    async def overtaken(*given: Any, **named: Any) -> Any:
        while first:
            first.pop()
            assert (await declare(desk, 11, *newer)).status_code == 200
        return await real(*given, **named)

    monkeypatch.setattr(jobs, verb, overtaken)

    refused = await declare(desk, 10, {**A, "name": "old"}, {**A, "key": "only-old"})

    assert (refused.status_code, "Another declaration of the set 'shop'" in refused.json()["detail"]) == (409, True)
    live = (await desk.get("/jobs?status=active"))["jobs"]
    assert {(job["key"], job["name"]) for job in live} == {("a", "new"), ("gone", None), ("only-new", None)}
    told = (await desk.get("/audit?action=job.create", "root"))["audit"]
    made = (await desk.get("/jobs?limit=1000"))["jobs"]
    assert sorted(one["object_id"] for one in told) == sorted(job["job_id"] for job in made)


async def test_what_an_older_declaration_wrote_last_is_seen_by_the_newer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one is applied as a whole between the newer one's checks and its stamp."""
    await declare(desk, 1, A)
    declaring, first = desk.store.engine.declaring, [True]
    put_stamp = declaring.put_stamp

    async def late(*given: Any) -> bool:
        while first:
            first.pop()
            assert (await declare(desk, 10, {**A, "name": "old"}, {**A, "key": "only-old"})).status_code == 200
        return await put_stamp(*given)

    monkeypatch.setattr(declaring, "put_stamp", late)

    done = await declare(desk, 11, {**A, "name": "new"})

    assert actions(done.json()) == [("change", "a"), ("prune", "only-old")]
