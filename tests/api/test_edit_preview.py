"""What an edit would do, shown before it is done; and what earlier edits did."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import Desk

from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.engines.port import Quota

NINE = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}


async def preview(desk: Desk, job_id: str, body: Any, status: int = 200, *, query: str = "", **how: Any) -> Any:
    """Preview, and show that nothing changed."""
    before = await desk.get(f"/jobs/{job_id}", "root")
    audit = await desk.get("/audit", "root")
    answer = await desk.call("POST", f"/v1/jobs/{job_id}/preview{query}", body, **how)
    assert answer.status_code == status, answer.text
    assert await desk.get(f"/jobs/{job_id}", "root") == before
    assert await desk.get("/audit", "root") == audit
    return answer.json()


def times(preview: Any) -> list[str]:
    return [one["at"] for one in preview["occurrences"]]


async def test_occurrences_before_and_after_and_what_changes(desk: Desk) -> None:
    job = await desk.create(schedule=NINE, payload={"a": 1})

    shown = await preview(desk, job["job_id"], {"schedule": "0 7 * * *", "payload": {"a": 2}}, query="?count=2")

    assert times(shown["before"]) == ["2030-01-01T08:00:00.000Z", "2030-01-02T08:00:00.000Z"]
    assert times(shown["after"]) == ["2030-01-01T06:00:00.000Z", "2030-01-02T06:00:00.000Z"]
    assert shown["after"]["description"] == "at 07:00 every day (Europe/Berlin)"
    assert shown["changes"].keys() == {"schedule", "payload"}
    assert shown["changes"]["payload"] == {"old": {"a": 1}, "new": {"a": 2}}
    assert (shown["takes_effect_at"], shown["withdrawn"], shown["withdrawn_count"]) == (
        "2030-01-01T06:00:00.000Z",
        [],
        0,
    )
    done = await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", {"schedule": "0 7 * * *", "payload": {"a": 2}})
    assert done.json() == shown["job"]


async def test_planned_runs_that_would_not_start_are_listed(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m")
    await desk.store.plan_all(3 * MINUTE)
    [first, _, third] = await desk.store.runs()

    shown = await preview(desk, job["job_id"], {"schedule": {"every": "2m"}})
    kept = await preview(desk, job["job_id"], {"name": "new"})

    assert [run["run_id"] for run in shown["withdrawn"]] == [str(run.run_id) for run in (first, third)]
    assert shown["withdrawn_count"] == 2
    assert shown["withdrawn"][0]["scheduled_for"] == "2030-01-01T00:01:00.000Z"
    assert shown["takes_effect_at"] == "2030-01-01T00:02:00.000Z"
    assert (kept["withdrawn"], kept["withdrawn_count"], kept["takes_effect_at"]) == ([], 0, "2030-01-01T00:01:00.000Z")


async def test_a_paused_job_takes_no_effect_and_max_runs_are_counted(desk: Desk) -> None:
    job = await desk.create(schedule={"every": "1h", "max_runs": 3})
    await desk.store.plan_all(2 * HOUR + MINUTE)
    desk.store.advance(HOUR + SECOND)
    shown = await preview(desk, job["job_id"], {"name": "n"})
    assert len(shown["before"]["occurrences"]) == len(shown["after"]["occurrences"]) == 2
    await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause")

    assert (await preview(desk, job["job_id"], {"schedule": "every 2h"}))["takes_effect_at"] is None


async def test_what_an_edit_would_be_refused_for_is_refused(desk: Desk) -> None:
    job = await desk.create(schedule=NINE, payload={"a": 1})
    job_id = job["job_id"]
    for body, path in (
        ({"schedule": "61 * * * *"}, "schedule.cron"),
        ({"task": "nothing"}, "task"),
        ({"key": "k"}, "key"),
    ):
        assert (await preview(desk, job_id, body, 422))["errors"][0]["path"] == path
    assert (await preview(desk, job_id, {}, 422, query="?count=101"))["errors"][0]["path"] == "count"
    await preview(desk, job_id, {"name": "n"}, 412, headers={"If-Match": '"7"'})
    await preview(desk, job_id, {"name": "n"}, 404, key="bob")
    await preview(desk, job_id, {"name": "n"}, 403, key="viewer")
    assert (await preview(desk, job_id, {"name": "n"}, key="root"))["job"]["user_id"] == "ada"
    desk.app.api.intake.quota = Quota(payload=20)
    await preview(desk, job_id, {"payload": {"a": "x" * 30}}, 422)
    await desk.call("DELETE", f"/v1/jobs/{job_id}")
    await preview(desk, job_id, {"name": "n"}, 409)


async def test_versions_show_what_changed_when_and_by_whom(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h", payload={"a": 1})
    job_id = job["job_id"]
    desk.store.advance(MINUTE)
    await desk.call("PATCH", f"/v1/jobs/{job_id}", {"name": "one", "payload": {"a": 2}})
    desk.store.advance(MINUTE)
    await desk.call("PATCH", f"/v1/jobs/{job_id}", {"schedule": "every 2h"}, key="root")
    await desk.call("POST", f"/v1/jobs/{job_id}/pause")

    shown = await desk.get(f"/jobs/{job_id}/versions", "root")

    assert shown["next_page_token"] is None
    third, second, first = shown["versions"]
    assert [one["version"] for one in (third, second, first)] == [3, 2, 1]
    assert [one["until"] for one in (third, second, first)] == [
        None,
        "2030-01-01T00:02:00.000Z",
        "2030-01-01T00:01:00.000Z",
    ]
    assert (first["since"], third["since"]) == (job["created_at"], second["until"])
    assert [(one["user_id"], one["action"]) for one in (third, second, first)] == [
        ("root", "job.edit"),
        ("ada", "job.edit"),
        ("ada", "job.create"),
    ]
    assert first["changes"] == {}
    assert second["changes"] == {
        "name": {"old": None, "new": "one"},
        "payload": {"old": {"a": 1}, "new": {"a": 2}},
    }
    assert third["changes"].keys() == {"schedule"}
    assert (first["definition"]["payload"], first["definition"]["schedule"]["every"]) == ({"a": 1}, "1h")
    assert first["definition"].keys() == {*third["definition"]}
    mine = (await desk.get(f"/jobs/{job_id}/versions"))["versions"]
    assert [one["user_id"] for one in mine] == [None, "ada", "ada"]  # another user's entries are not the caller's


@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_versions_come_in_pages(desk: Desk, limit: int) -> None:
    job_id = (await desk.create(schedule="every 1h"))["job_id"]
    for n in range(4):
        await desk.call("PATCH", f"/v1/jobs/{job_id}", {"name": f"n{n}"})
    found, token = [], ""
    while True:
        page = await desk.get(f"/jobs/{job_id}/versions?limit={limit}{token}")
        assert 0 < len(page["versions"]) <= limit
        found += page["versions"]
        if page["next_page_token"] is None:
            break
        token = f"&page_token={page['next_page_token']}"

    assert [one["version"] for one in found] == [5, 4, 3, 2, 1]
    assert [list(one["changes"]) for one in found] == [["name"]] * 4 + [[]]
    once = (await desk.create())["job_id"]
    assert [one["version"] for one in (await desk.get(f"/jobs/{once}/versions"))["versions"]] == [1]
    for key, status in (("bob", 404), ("viewer", 200), ("root", 200)):
        assert (await desk.call("GET", f"/v1/jobs/{job_id}/versions", key=key)).status_code == status
