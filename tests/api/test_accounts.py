"""What a call says of what it did: to the audit log, and to whoever watches."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.api.conftest import Desk
from tests.api.streams import streaming
from tests.api.test_audit import audit_entries

from oncue.api import dead_letters
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import RunId
from oncue.domain.instants import HOUR, SECOND, rfc3339

HOURLY = {"task": "mark", "schedule": "every 1h"}


@pytest.fixture(autouse=True)
async def closed(desk: Desk) -> AsyncIterator[None]:
    yield
    await desk.app.api.watching.close()


@contextmanager
def away(patch: pytest.MonkeyPatch, verbs: Any, name: str, *, after: int = 0) -> Iterator[None]:
    """The store answers so many calls of this verb, and then no more."""
    verb, calls = getattr(verbs, name), iter(range(after))

    async def call(*given: Any, **named: Any) -> Any:
        if next(calls, None) is None:
            raise StoreUnavailable("away")
        return await verb(*given, **named)

    with patch.context() as patched:
        patched.setattr(verbs, name, call)
        yield


async def lines(desk: Desk) -> list[tuple[str, str | None, Any]]:
    """Of the audit log, without that of what was made."""
    found = [(one["action"], one["object_id"], one["detail"]) for one in await audit_entries(desk)]
    return [line for line in found if line[0] != "job.create"]


async def test_what_may_have_been_done_is_told_of_and_is_in_the_log_as_such(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"job_id": str(await desk.store.recurring(every=HOUR))}
    async with streaming(desk) as stream:
        with away(monkeypatch, desk.store.engine.lists, "last_and_next"):
            answer = await desk.call("DELETE", f"/v1/jobs/{job['job_id']}")
        assert (await stream.next()).data["status"] == "cancelled"

    assert (answer.status_code, (await desk.get(f"/jobs/{job['job_id']}"))["status"]) == (503, "cancelled")
    assert await lines(desk) == [("job.cancel", job["job_id"], {"outcome": "unknown"})]


async def test_a_key_that_may_have_been_revoked_is_named_in_the_log(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = (await desk.call("POST", "/v1/keys", {"user_id": "eve", "role": "viewer"}, key="root")).json()
    with away(monkeypatch, desk.store.engine.accounts, "revoke"):
        assert (await desk.call("DELETE", f"/v1/keys/{created['key_id']}", key="root")).status_code == 503

    revoked, _ = await lines(desk)
    assert revoked == (
        *("key.revoke", created["key_id"]),
        {"user_id": "eve", "role": "viewer", "outcome": "unknown"},
    )


async def test_a_requeue_that_is_refused_half_way_is_in_the_log_as_far_as_it_went(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "ONE_PASS", 2)
    monkeypatch.setattr(desk.app.api, "_most_runs", 3)
    store, worker = desk.store, await desk.store.worker()
    await store.one_shots(4, task="mark")
    await store.fail(worker, *await store.claim_due(worker), retry=False)

    answer = await desk.call("POST", "/v1/dead-letters/requeue", {"filter": {}})

    assert (answer.status_code, len((await desk.get("/dead-letters"))["dead_letters"])) == (422, 2)
    assert await lines(desk) == [("dead_letters.requeue", None, {"count": 2, "filter": {}})]


async def test_so_is_what_failed_for_a_reason_that_nobody_expected(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(desk.store.engine.lists, "last_and_next", broken)
    job = await desk.create(schedule="every 1h")
    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause")

    assert (answer.status_code, await lines(desk)) == (
        500,
        [("job.pause", job["job_id"], {"outcome": "unknown"})],
    )


async def test_a_job_that_may_have_been_made_has_its_own_line_or_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are stored together: there is nothing to guess."""
    with away(monkeypatch, desk.store.engine.jobs, "create"):
        answer = await desk.call("POST", "/v1/jobs", HOURLY)

    assert (answer.status_code, await audit_entries(desk)) == (503, [])


@pytest.mark.parametrize("verb", ["requeue", "discard"])
async def test_many_dead_letters_are_counted_as_far_as_it_went(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    store, worker = desk.store, await desk.store.worker()
    await store.one_shots(150, task="mark")
    await store.fail(worker, *await store.claim_due(worker), retry=False)
    with away(monkeypatch, store.engine.history, verb, after=1):
        answer = await desk.call("POST", f"/v1/dead-letters/{verb}", {"filter": {}})

    left = len((await desk.get("/dead-letters?limit=1000"))["dead_letters"])
    assert (answer.status_code, left) == (503, 50)
    assert await lines(desk) == [(f"dead_letters.{verb}", None, {"count": 100, "filter": {}, "outcome": "unknown"})]


async def test_what_is_so_already_leaves_no_line_and_tells_nobody(desk: Desk) -> None:
    store, worker = desk.store, await desk.store.worker()
    run_id = str(await store.one_shot(HOUR))
    job = (await desk.call("PUT", "/v1/jobs/by-key/k", HOURLY)).json()
    path = f"/v1/jobs/{job['job_id']}"
    dead = await desk.dead()
    running = str((await store.claim_one(worker, RunId(await store.one_shot()))).run_id)
    stretch = {"from": rfc3339(store.at(-2 * SECOND)), "to": rfc3339(store.at(-SECOND))}
    done: list[tuple[str, str, Any]] = [
        ("POST", f"{path}/pause", None),
        ("POST", f"{path}/resume", None),
        ("POST", "/v1/dead-letters/discard", {"run_ids": [str(dead)]}),
        ("DELETE", f"/v1/jobs/{run_id}", None),
        ("DELETE", f"/v1/jobs/{running}", None),
        ("DELETE", path, None),
    ]
    same: list[tuple[str, str, Any]] = [
        ("PUT", "/v1/jobs/by-key/k", HOURLY),
        ("PATCH", path, {}),
        ("PATCH", path, {"payload": {}}),
        ("POST", f"{path}/resume", None),
        ("POST", f"{path}/backfill", stretch),
        ("POST", "/v1/dead-letters/requeue", {"run_ids": [run_id]}),
    ]
    for method, where, body in same:
        assert (await desk.call(method, where, body)).status_code in (200, 202), where
    assert [action for action, _, _ in await lines(desk)] == ["job.put"]

    async with streaming(desk) as stream:
        for method, where, body in done:
            assert (await desk.call(method, where, body)).status_code == 200, where
            told = len(await lines(desk))
            if "resume" not in where:
                assert (await desk.call(method, where, body)).status_code == 200, where
            assert len(await lines(desk)) == told
            store.advance(SECOND)
        await desk.create(name="the last")
        while (event := await stream.next()).data.get("name") != "the last":
            assert event.kind != "resync"

    assert len(await lines(desk)) == 1 + len(done)


async def test_a_job_that_was_replaced_by_its_key_is_named_in_the_log_and_told_of(desk: Desk) -> None:
    async with streaming(desk) as stream:
        job = (await desk.call("PUT", "/v1/jobs/by-key/k", HOURLY)).json()
        assert (await stream.next()).data["job_id"] == job["job_id"]
        desk.store.advance(SECOND)
        await desk.call("PUT", "/v1/jobs/by-key/k", {**HOURLY, "name": "n"})
        event = await stream.next()

    assert (event.kind, event.data["job_id"], event.data["name"]) == ("job", job["job_id"], "n")
    assert await lines(desk) == [("job.put", job["job_id"], {"key": "k"})] * 2


async def test_what_an_administrator_does_to_many_jobs_is_told_to_their_owner(desk: Desk) -> None:
    jobs = {str(await desk.store.recurring(every=HOUR)) for _ in range(30)}
    async with streaming(desk) as stream:
        await asyncio.gather(*(desk.call("DELETE", f"/v1/jobs/{job_id}", key="root") for job_id in jobs))
        while jobs and (event := await stream.next()).kind == "job":
            jobs.discard(event.data["job_id"])

    assert not jobs or event.kind == "resync"
