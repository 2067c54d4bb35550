"""Dry runs: a request is checked as if it were stored, and nothing is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import Desk, read_back

from oncue.engines.port import Quota

DAILY = {"task": "mark", "schedule": "0 9 * * *"}


async def everything(desk: Desk) -> Any:
    """What the database has that a request could have stored."""
    audit = await desk.get("/audit", "root")
    return (await desk.jobs(), await desk.store.jobs.classes(), [line["action"] for line in audit["audit"]])


async def test_a_job_is_shown_as_it_would_be_and_not_stored(desk: Desk) -> None:
    before = await everything(desk)
    once = {"Idempotency-Key": "k"}

    tried = await desk.call("POST", "/v1/jobs?dry_run=true", {**DAILY, "queue": "new", "key": "k"}, headers=once)
    by_key = await desk.call("PUT", "/v1/jobs/by-key/k?dry_run=true", {**DAILY, "queue": "new"})
    many = await desk.call("POST", "/v1/jobs/batch?dry_run=true", {"jobs": [DAILY, {**DAILY, "queue": "q"}]})

    assert (tried.status_code, by_key.status_code, many.status_code) == (200, 200, 200)
    assert tried.json()["next_run_at"] == by_key.json()["next_run_at"] == "2030-01-01T09:00:00.000Z"
    assert tried.json()["queue"] == "new"
    assert "Location" not in tried.headers
    assert read_back(many) == {"job_ids": [], "warnings": []}
    assert await everything(desk) == before
    other = await desk.call("POST", "/v1/jobs?dry_run=false", {"task": "mark"}, headers=once)
    assert other.status_code == 201, "the key was not used up by a dry run"


async def test_what_would_be_refused_is_refused_alike(desk: Desk) -> None:
    held = (await desk.call("POST", "/v1/jobs", {**DAILY, "key": "taken", "payload": {"a": 1}})).json()
    desk.app.api.intake.quota = Quota(jobs=2, payload=40)
    wrong: list[Any] = [
        {"task": "mark", "schedule": "61 * * * *", "nme": 1},
        {"task": "nothing"},
        {"task": "slow", "payload": {}},
        {"task": "command"},
        {**DAILY, "key": "taken"},
        {"task": "mark", "payload": {"a": "x" * 40}},
        {"task": "mark", "schedule": {"cron": "0 9 * * *", "end_at": "2029-01-01T00:00:00Z"}},
    ]
    for job in wrong:
        real = await desk.call("POST", "/v1/jobs", job)
        tried = await desk.call("POST", "/v1/jobs?dry_run=true", job)
        assert tried.status_code >= 400, job
        assert (tried.status_code, tried.json()) == (real.status_code, real.json())
        together = {"jobs": [{"task": "mark"}, job]}
        real = await desk.call("POST", "/v1/jobs/batch", together)
        tried = await desk.call("POST", "/v1/jobs/batch?dry_run=true", together)
        assert (tried.status_code, tried.json()) == (real.status_code, real.json())
    too_large = {**DAILY, "payload": {"a": "x" * 40}}
    for path in ("/v1/jobs/by-key/taken", "/v1/jobs/by-key/other"):
        real = await desk.call("PUT", path, too_large)
        tried = await desk.call("PUT", f"{path}?dry_run=true", too_large)
        assert tried.status_code == 422
        assert (tried.status_code, tried.json()) == (real.status_code, real.json())
    assert len(await desk.jobs()) == 1
    assert (await desk.get(f"/jobs/{held['job_id']}"))["version"] == 1


async def test_a_replacement_is_shown_as_it_would_be(desk: Desk) -> None:
    job = read_back(await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark", "schedule": "every 1h"}))
    path = "/v1/jobs/by-key/k?dry_run=true"

    same = await desk.call("PUT", path, {"task": "mark", "schedule": "every 1h"})
    other = await desk.call("PUT", path, {"task": "mark", "schedule": "0 12 * * *", "queue": "new"})
    stale = await desk.call("PUT", path, {"task": "mark"}, headers={"If-Match": '"7"'})

    assert same.json() == job
    tried = other.json()
    assert (tried["version"], tried["next_run_at"]) == (2, "2030-01-01T12:00:00.000Z")
    assert (tried["job_id"], tried["queue"], stale.status_code) == (job["job_id"], "new", 412)
    assert await desk.get(f"/jobs/{job['job_id']}") == job
    done = await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark", "schedule": "0 12 * * *", "queue": "new"})
    assert done.json() == tried


@pytest.mark.parametrize("value", ["yes", "1", ""])
async def test_only_true_and_false_say_whether_it_is_dry(desk: Desk, value: str) -> None:
    answer = await desk.call("POST", f"/v1/jobs?dry_run={value}", {"task": "mark"})

    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "dry_run")
    assert await desk.nothing_stored()
