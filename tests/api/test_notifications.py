"""Calls on notifications, and what a job may say about whom to tell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import Desk

from oncue.domain.ids import NOTICES
from oncue.domain.instants import HOUR, MINUTE, Instant
from oncue.domain.notices import read_told
from oncue.domain.notify import Entry, Event
from oncue.domain.run import State

HOOK = {"on": ["failed"], "webhook": {"url": "https://example.org/hook"}}


async def notices(desk: Desk) -> list[Any]:
    return await desk.store.runs(job_id=NOTICES)


async def test_a_default_is_put_as_a_whole_and_read_back(desk: Desk) -> None:
    assert await desk.get("/notifications") == {"entries": [], "muted_until": None, "targets": []}
    sent = {"entries": [HOOK, {"on": ["late"], "webhook": "https://a.example/", "late_after": "5m"}]}
    put = await desk.call("PUT", "/v1/notifications", sent | {"muted_until": "2031-01-01T00:00:00Z"})

    told = await desk.get("/notifications")
    assert put.json() == told
    assert told["entries"][0] == HOOK
    assert told["entries"][1]["late_after"] == "5m"
    assert told["muted_until"] == "2031-01-01T00:00:00.000Z"
    assert (await desk.get("/notifications", "root"))["entries"] == []
    await desk.call("PUT", "/v1/notifications", {})
    assert (await desk.get("/notifications"))["entries"] == []


@pytest.mark.parametrize(
    ("entry", "path", "code"),
    [
        ({"on": ["failed"], "webhook": "http://example.org/"}, "notify.0.webhook", "bad_url"),
        ({"on": ["failed"], "webhook": "https://10.0.0.1/"}, "notify.0.webhook", "refused_address"),
        ({"on": ["failed"], "email": "a@example.org"}, "notify.0.email", "no_mail"),
        ({"on": ["whenever"], "email": "a@example.org"}, "notify.0.on.0", "unknown_value"),
        ({"on": ["failed"]}, "notify.0", "one_channel"),
        ({"on": ["failed"], "webhook": 1}, "notify.0.webhook", "wrong_type"),
        ({"on": ["failed"], "email": 5}, "notify.0.email", "wrong_type"),
        ({"on": ["failed"], "slack": {"secret": "../x"}}, "notify.0.slack.secret", "bad_secret_name"),
        ({"on": ["failed"], "teams": {"name": "x"}}, "notify.0.teams", "bad_secret"),
        (
            {"on": ["failed"], "slack": {"secret": "x"}, "text": "{job_name} and {jobname}"},
            "notify.0.text",
            "unknown_placeholder",
        ),
    ],
)
async def test_an_entry_that_cannot_work_is_refused_everywhere(
    desk: Desk, entry: dict[str, Any], path: str, code: str
) -> None:
    answers = [
        (path, await desk.call("POST", "/v1/jobs", {"task": "mark", "notify": [entry]})),
        (path.replace("notify", "entries", 1), await desk.call("PUT", "/v1/notifications", {"entries": [entry]})),
        (path.replace("notify.0", "entry", 1), await desk.call("POST", "/v1/notifications/test", {"entry": entry})),
    ]
    for where, answer in answers:
        assert answer.status_code == 422, answer.text
        assert [(one["path"], one["code"]) for one in answer.json()["errors"]] == [(where, code)]


@pytest.mark.parametrize("body", [{"task": "notify"}, {"task": "mark", "queue": "oncue"}])
async def test_a_notice_cannot_be_made_by_a_user(desk: Desk, body: dict[str, Any]) -> None:
    for method, path in (("POST", "/v1/jobs"), ("PUT", "/v1/jobs/by-key/k")):
        answer = await desk.call(method, path, body, key="root")
        assert answer.status_code == 422
        assert "reserved" in {one["code"] for one in answer.json()["errors"]}
    job = await desk.create("mark", schedule="0 0 1 1 *")
    assert (await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", body)).status_code == 422


async def test_whom_to_tell_can_be_changed_alone(desk: Desk) -> None:
    body = {"task": "mark", "schedule": "0 0 1 1 *"}
    made = (await desk.call("PUT", "/v1/jobs/by-key/k", body)).json()
    assert made["notify"] is None
    changed = (await desk.call("PUT", "/v1/jobs/by-key/k", body | {"notify": [HOOK]})).json()
    assert (changed["notify"], changed["job_id"]) == ([HOOK], made["job_id"])
    edited = await desk.call("PATCH", f"/v1/jobs/{made['job_id']}", {"notify": []})
    assert edited.json()["notify"] == []


async def test_a_test_is_a_notice_of_the_caller(desk: Desk) -> None:
    answer = await desk.call("POST", "/v1/notifications/test", {"entry": {"webhook": "https://example.org/"}})
    assert answer.status_code == 202
    run_id = answer.json()["run_id"]

    [notice] = await notices(desk)
    assert str(notice.run_id) == run_id
    told = read_told((await desk.store.run(notice.run_id)).payload or b"")
    assert (told.event, notice.uid) == (Event.TEST, desk.store.uid)
    assert (await desk.get(f"/runs/{run_id}"))["task"] == "notify"


async def test_ten_tests_a_minute_are_enough(desk: Desk) -> None:
    body = {"entry": {"webhook": "https://example.org/"}}
    answers = [await desk.call("POST", "/v1/notifications/test", body) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [202] * 10 + [429]
    assert answers[-1].headers["Retry-After"] == "60"
    assert (await desk.call("POST", "/v1/notifications/test", body, key="root")).status_code == 202
    await desk.store.clock.advance(MINUTE)
    assert (await desk.call("POST", "/v1/notifications/test", body)).status_code == 202


async def test_notices_are_listed_only_on_request(desk: Desk) -> None:
    job = await desk.create("mark", schedule="now")
    await desk.call("POST", "/v1/notifications/test", {"entry": {"webhook": "https://example.org/"}})
    [notice] = await notices(desk)

    def found(page: dict[str, Any]) -> set[str]:
        return {run["run_id"] for run in page["runs"]}

    assert found(await desk.get("/runs")) == {job["job_id"]}
    assert found(await desk.get("/runs?system=true")) == {job["job_id"], str(notice.run_id)}
    assert [one["job_id"] for one in (await desk.get("/jobs"))["jobs"]] == [job["job_id"]]
    worker = await desk.store.worker()
    await desk.store.permit()
    [claimed] = [run for run in await desk.store.claim_due(worker) if run.job_id == NOTICES]
    await desk.store.fail(worker, claimed, retry=False)
    assert (await desk.get("/dead-letters"))["dead_letters"] == []
    [letter] = (await desk.get("/dead-letters?system=true"))["dead_letters"]
    assert letter["run_id"] == str(notice.run_id)
    retried = await desk.call("POST", f"/v1/runs/{notice.run_id}/retry")
    assert retried.status_code == 202
    assert {run.state for run in await notices(desk)} == {State.DEAD, State.WAITING}


async def test_notices_count_for_no_quota(desk: Desk) -> None:
    for _ in range(3):
        await desk.call("POST", "/v1/notifications/test", {"entry": {"webhook": "https://example.org/"}})
    usage = await desk.store.counts(desk.store.uid)
    assert sum(usage.values()) == 3
    assert (await desk.get("/jobs"))["jobs"] == []


async def test_a_one_shot_is_watched_by_its_own_entry_or_the_default(desk: Desk) -> None:
    late = {"on": ["late"], "webhook": "https://example.org/hook", "late_after": "2m"}
    at = "2031-01-01T00:00:00Z"
    await desk.call("POST", "/v1/jobs", {"task": "mark", "schedule": at, "notify": [late]})
    await desk.call("PUT", "/v1/notifications", {"entries": [late | {"late_after": "3m"}]})
    await desk.store.clock.advance(HOUR)
    await desk.call("POST", "/v1/jobs/batch", {"jobs": [{"task": "mark", "schedule": at}]})
    await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark", "schedule": at, "notify": []})

    start = min(notice.wanted for notice in await notices(desk)) - 2 * MINUTE
    assert sorted(Instant(notice.wanted - start) for notice in await notices(desk)) == [2 * MINUTE, 3 * MINUTE]


async def test_the_secret_of_a_webhook_is_the_users_own_and_can_be_replaced(desk: Desk) -> None:
    path = "/notifications/secret?url=https%3A%2F%2Fexample.org%2Fhook"
    first = await desk.get(path)
    assert first["secret"].startswith("whsec_")
    assert (await desk.get(path)) == first == {"url": "https://example.org/hook", "old_secret": None} | first
    assert (await desk.get(path, "root"))["secret"] != first["secret"]
    rotated = await desk.call("POST", "/v1/notifications/secret/rotate", {"url": "https://example.org/hook"})
    assert rotated.json()["old_secret"] == first["secret"] != rotated.json()["secret"]
    assert (await desk.get(path)) == rotated.json()
    desk.store.advance(25 * HOUR)
    assert (await desk.get(path))["old_secret"] is None
    assert (await desk.call("GET", "/v1/notifications/secret")).status_code == 422
    assert (await desk.call("GET", f"/v1{path}", key="viewer")).status_code == 403  # it could forge messages
    assert (await desk.get(path.replace("https", "HTTPS")))["url"] == "HTTPS://example.org/hook"


async def test_muted_targets_are_shown(desk: Desk) -> None:
    entry = Entry((), slack="https://hooks.slack.com/services/x")
    await desk.store.notices.target_failed(desk.store.uid, entry.target, "https://hooks.slack.com/…", 1, desk.store.now)
    [target] = (await desk.get("/notifications"))["targets"]
    assert (target["target"], target["dead"]) == ("https://hooks.slack.com/…", 1)
    assert target["muted_at"] is not None
