"""The audit log: one line for each request that changed something, and for no other."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from tests.api.conftest import Desk
from tests.test_docs import ROOT, table

from oncue.api import application
from oncue.api.http.address import take_address
from oncue.api.serving import serving
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, rfc3339
from oncue.domain.keys import key_hash
from oncue.engines.port import AuditEntry
from oncue.settings import Settings
from oncue.testing.logs import capture_logs

API = ROOT / "docs" / "api.md"


async def audit_entries(desk: Desk, key: str = "root") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await desk.get("/audit", key))["audit"]
    return found


async def test_who_did_what_to_which_thing_when_and_from_where(desk: Desk) -> None:
    key = await desk.store.accounts.key(key_hash(desk.keys["ada"]))
    assert key is not None
    job = await desk.create(schedule="every 1h")
    made_at = desk.store.now
    desk.store.advance(SECOND)
    await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause")

    paused, created = await audit_entries(desk)

    assert created == {
        "at": rfc3339(made_at),
        "user_id": "ada",
        "key_id": str(key.key_id),
        "action": "job.create",
        "object_id": job["job_id"],
        "detail": None,
        "address": "127.0.0.1",
    }
    assert (paused["action"], paused["object_id"], paused["detail"]) == ("job.pause", job["job_id"], None)
    assert [field for field, _ in table(API, "field of the audit log", "meaning")] == list(created)


async def test_what_has_no_id_is_told_by_its_name(desk: Desk) -> None:
    await desk.call("POST", "/v1/queues/a/b/pause", key="root")
    made = (await desk.call("POST", "/v1/keys", {"user_id": "eve", "role": "viewer"}, key="root")).json()

    created, paused = await audit_entries(desk)

    assert (paused["action"], paused["object_id"], paused["detail"]) == ("queue.pause", None, {"queue": "a/b"})
    assert (created["object_id"], created["detail"]) == (made["key_id"], {"user_id": "eve", "role": "viewer"})
    assert made["key"] not in str(await audit_entries(desk))


async def test_what_only_reads_or_is_refused_leaves_no_line(desk: Desk) -> None:
    for method, path, body in (
        ("GET", "/v1/tasks", None),
        ("POST", "/v1/jobs", {"task": "unknown"}),
        ("POST", "/v1/jobs", b"{"),
        ("POST", "/v1/keys", {"user_id": "eve", "role": "admin"}),
        ("DELETE", "/v1/jobs/no-id", None),
    ):
        await desk.call(method, path, body)

    assert await audit_entries(desk) == []


async def test_members_and_viewers_see_their_own_deeds_only(desk: Desk) -> None:
    for key in ("ada", "bob", "root"):
        await desk.create(key=key)
        desk.store.advance(SECOND)

    assert [audit_entry["user_id"] for audit_entry in await audit_entries(desk)] == ["root", "bob", "ada"]
    for key in ("ada", "viewer"):
        assert [audit_entry["user_id"] for audit_entry in await audit_entries(desk, key)] == ["ada"]


async def test_the_log_comes_in_pages(desk: Desk) -> None:
    jobs = []
    for _ in range(3):
        jobs.append((await desk.create())["job_id"])
        desk.store.advance(SECOND)

    first = await desk.get("/audit?limit=2")
    second = await desk.get(f"/audit?limit=2&page_token={first['next_page_token']}")

    assert [audit_entry["object_id"] for audit_entry in first["audit"] + second["audit"]] == jobs[::-1]
    assert second["next_page_token"] is None
    foreign = await desk.call("GET", f"/v1/audit?page_token={first['next_page_token']}", key="bob")
    assert foreign.status_code == 422


async def test_an_answer_survives_a_log_that_cannot_be_written_and_the_line_is_kept_elsewhere(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: Sequence[AuditEntry]) -> None:
        raise StoreUnavailable("gone")

    job = await desk.create(schedule="every 1h")
    monkeypatch.setattr(desk.store.engine.audit, "record", away)

    with capture_logs() as logged:
        await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause")

    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "paused"
    [line] = [line for line in logged if line["log_level"] == "error"]
    [audit_entry] = line["audit_entries"]
    assert (audit_entry["action"], audit_entry["object_id"]) == ("job.pause", job["job_id"])
    assert str(line["exc_info"]) == "gone"


async def test_an_answer_does_not_wait_for_a_log_that_hangs_but_the_line_is_written_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "WRITTEN_WITHIN", 0)
    write, let_go, written = desk.store.engine.audit.record, asyncio.Event(), asyncio.Event()

    async def hanging(audit_entries: Sequence[AuditEntry]) -> None:
        await let_go.wait()
        await write(audit_entries)
        written.set()

    monkeypatch.setattr(desk.store.engine.audit, "record", hanging)
    assert (await desk.call("POST", "/v1/queues/q/pause", key="root")).status_code == 200
    assert await audit_entries(desk) == []

    let_go.set()
    await written.wait()

    assert len(await audit_entries(desk)) == 1


async def test_deeds_of_the_same_moment_share_a_write_and_each_is_there_when_it_is_answered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writes, all_there, named = (
        desk.store.engine.audit.record,
        list[int](),
        asyncio.Event(),
        application.audit_entry,
    )
    places = iter(range(5))

    async def first_waits_for_all(audit_entries: Sequence[AuditEntry]) -> None:
        writes.append(len(audit_entries))
        await all_there.wait()
        await write(audit_entries)

    def arriving(*which: Any) -> Any:
        if next(places) == 4:
            all_there.set()
        return named(*which)

    async def pause() -> int:
        assert (await desk.call("POST", "/v1/queues/q/pause", key="root")).status_code == 200
        return len(await audit_entries(desk))

    monkeypatch.setattr(desk.store.engine.audit, "record", first_waits_for_all)
    monkeypatch.setattr(application, "audit_entry", arriving)

    seen = await asyncio.gather(*(pause() for _ in range(5)))

    assert (len(writes) <= 2, sum(writes), len(await audit_entries(desk))) == (True, 5, 5)
    assert min(seen) >= writes[0]


async def test_an_address_is_the_one_that_the_request_came_from(desk: Desk) -> None:
    """Whatever its headers say of others."""
    settings, store = Settings(port=0), desk.store
    headers = {"Authorization": f"Bearer {desk.keys['ada']}", "X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6"}
    async with (
        serving(store.engine, store.clock, settings, take_address(settings), asyncio.Event()) as url,
        httpx2.AsyncClient(headers=headers, verify=False) as client,
    ):
        await client.post(f"{url}/v1/jobs", json={"task": "mark"})

    assert [audit_entry["address"] for audit_entry in await audit_entries(desk)] == ["127.0.0.1"]


async def test_entries_are_found_by_object_action_user_and_time(desk: Desk) -> None:
    jobs = [await desk.create(schedule="every 1h") for _ in range(2)]
    job_id = jobs[0]["job_id"]
    desk.store.advance(SECOND)
    began = rfc3339(desk.store.now)
    await desk.call("POST", f"/v1/jobs/{job_id}/pause", key="root")
    desk.store.advance(SECOND)
    await desk.call("POST", f"/v1/jobs/{job_id}/resume", {})

    async def found(query: str, key: str = "root") -> list[str]:
        return [one["action"] for one in (await desk.get(f"/audit?{query}", key))["audit"]]

    assert await found(f"object_id={job_id}") == ["job.resume", "job.pause", "job.create"]
    assert await found(f"object_id={job_id}", "ada") == ["job.resume", "job.create"], "only what they did"
    assert await found(f"object_id={job_id}", "bob") == []
    assert await found("action=job.create") == ["job.create"] * 2
    assert await found("user_id=root") == ["job.pause"]
    assert await found("user_id=ada&action=job.resume") == ["job.resume"]
    assert await found("user_id=nobody") == []
    assert await found(f"start_time={began}") == ["job.resume", "job.pause"]
    assert await found(f"end_time={began}") == ["job.create"] * 2
    assert await found(f"start_time={began}&object_id={jobs[1]['job_id']}") == []


@pytest.mark.parametrize(
    ("query", "status", "wrong"),
    [
        ("object_id=x", 422, ["object_id"]),
        ("start_time=yesterday&end_time=x", 422, ["start_time", "end_time"]),
        ("start_time=2030-01-02T00:00:00Z&end_time=2030-01-01T00:00:00Z", 422, ["end_time"]),
        ("action=%00", 422, ["action"]),
        ("from=2030-01-02T00:00:00Z", 422, ["from"]),
        ("user_id=ada", 403, []),
    ],
)
async def test_a_wrong_filter_is_refused_by_its_name(desk: Desk, query: str, status: int, wrong: list[str]) -> None:
    answer = await desk.call("GET", f"/v1/audit?{query}")

    assert answer.status_code == status, answer.text
    assert [one["path"] for one in answer.json()["errors"]] == wrong
