"""Bulks over HTTP: asked for, previewed, shown, stopped; by whom, and with which filters."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace
from tests.api.conftest import Desk, time_passing
from tests.api.test_audit import audit_entries

from oncue.api.bulk_following import BulkFollowing
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import MINUTE, Duration
from oncue.engines.bulk_values import BulkState, Progress
from oncue.engines.port import Task
from oncue.services.bulk_work import BulkWork
from oncue.settings import Settings


async def bulk(desk: Desk, key: str = "ada", status: int = 202, headers: Any = None, **body: Any) -> Any:
    answer = await desk.call("POST", "/v1/bulk", body, key=key, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


async def finished(desk: Desk, started: dict[str, Any], key: str = "ada") -> Any:
    engine, clock, api = desk.store.engine, desk.store.clock, desk.app.api
    work = BulkWork(
        engine, clock, BulkFollowing(engine, api.storage, clock, Settings(inline_cap=api.settings.inline_cap))
    )
    for _ in range(20):
        found = await desk.get(f"/bulk/{started['bulk_id']}", key)
        if found["state"] != "running":
            return found
        await work.run_once()
    raise AssertionError("it does not end")


async def test_jobs_are_paused_in_bulk(desk: Desk) -> None:
    made = [(await desk.create(schedule="every 1h", tags=["x"]))["job_id"] for _ in range(3)]
    other = (await desk.create(schedule="every 1h"))["job_id"]

    preview = await bulk(desk, status=200, action="pause", filter={"tag": "x"}, dry_run=True)
    started = await bulk(desk, action="pause", filter={"tag": "x"})
    ended = await finished(desk, started)

    assert (preview["count"], preview["at_least"], len(preview["samples"])) == (3, False, 3)
    assert preview["samples"][0]["task"] == "mark"
    assert (started["state"], started["total"], started["done"], started["progress"]) == ("running", 3, 0, 0.0)
    assert (ended["state"], ended["done"], ended["progress"], ended["started_by"]) == ("finished", 3, 1.0, "ada")
    assert (ended["of"], ended["filter"], ended["reasons"]) == ("jobs", {"tag": "x"}, [])
    assert {(await desk.get(f"/jobs/{one}"))["status"] for one in made} == {"paused"}
    assert (await desk.get(f"/jobs/{other}"))["status"] == "active"
    [line] = [one for one in await audit_entries(desk) if one["action"] == "bulk.start"]
    assert (line["detail"]["action"], line["detail"]["filter"]) == ("pause", {"tag": "x"})
    assert line["object_id"] == started["bulk_id"]


async def test_nobody_sees_or_stops_anothers_and_viewers_only_look(desk: Desk) -> None:
    started = await bulk(desk, action="pause", filter={})
    where = f"/v1/bulk/{started['bulk_id']}"

    for method, path in (("GET", where), ("DELETE", where), ("GET", f"/v1/bulk/{uuid4()}"), ("DELETE", "/v1/bulk/x")):
        assert (await desk.call(method, path, key="bob")).status_code == 404
    assert (await desk.call("DELETE", where, key="viewer")).status_code == 403
    assert (await desk.call("POST", "/v1/bulk", {"action": "pause", "filter": {}}, key="viewer")).status_code == 403
    assert (await desk.get(f"/bulk/{started['bulk_id']}", "viewer"))["state"] == "running"
    assert [one["bulk_id"] for one in (await desk.get("/bulk"))["bulks"]] == [started["bulk_id"]]
    assert (await desk.get("/bulk", "bob"))["bulks"] == []
    assert len((await desk.get("/bulk", "root"))["bulks"]) == 1

    stopped = (await desk.call("DELETE", where)).json()
    assert (stopped["state"], (await desk.call("DELETE", where)).json()) == ("stopped", stopped)
    assert [one["action"] for one in await audit_entries(desk)].count("bulk.stop") == 1


async def test_the_answer_to_a_stop_counts_what_the_pass_did_that_was_running(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = UUID((await desk.create(schedule="every 1h"))["job_id"])
    started = await bulk(desk, action="pause", filter={})
    bulks = desk.store.engine.bulks
    taken = await bulks.take(desk.store.now, Duration(MINUTE))
    assert taken is not None
    assert await bulks.advance(taken.bulk, Progress(pending=(job_id,)), desk.store.now, Duration(MINUTE))

    read, seen = bulks.read, asyncio.Event()

    async def watched(*given: Any) -> Any:
        found = await read(*given)
        if found is not None and found.state is BulkState.STOPPED:
            seen.set()
        return found

    monkeypatch.setattr(bulks, "read", watched)
    async with asyncio.timeout(60), time_passing(desk):
        stopping = asyncio.create_task(desk.call("DELETE", f"/v1/bulk/{started['bulk_id']}"))
        await seen.wait()
        assert await bulks.record(taken.bulk, Progress(done=1))
        stopped = (await stopping).json()

    assert (stopped["state"], stopped["done"]) == ("stopped", 1)


async def test_a_stop_is_answered_though_the_store_goes_away_while_it_waits(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = await bulk(desk, action="pause", filter={})
    bulks = desk.store.engine.bulks
    taken = await bulks.take(desk.store.now, Duration(MINUTE))
    assert taken is not None
    assert await bulks.advance(taken.bulk, Progress(pending=(uuid4(),)), desk.store.now, Duration(MINUTE))
    read, seen = bulks.read, list[BulkState]()

    async def going_away(*given: Any) -> Any:
        if BulkState.STOPPED in seen:
            raise StoreUnavailable("away")
        found = await read(*given)
        seen.append(found.state)
        return found

    monkeypatch.setattr(bulks, "read", going_away)
    async with asyncio.timeout(60), time_passing(desk):
        stopped = await desk.call("DELETE", f"/v1/bulk/{started['bulk_id']}")

    assert (stopped.status_code, stopped.json()["state"]) == (200, "stopped")
    assert [one["action"] for one in await audit_entries(desk)].count("bulk.stop") == 1


WRONG = [
    ({"filter": {}}, "action"),
    ({"action": "pause"}, "ids"),
    ({"action": "pause", "filter": {}, "ids": [str(uuid4())]}, "ids"),
    ({"action": "pause", "ids": []}, "ids"),
    ({"action": "pause", "ids": ["x"]}, "ids.0"),
    ({"action": "pause", "ids": [str(uuid4())] * 1_001}, "ids"),
    ({"action": "purge", "filter": {}}, "action"),
    ({"action": "pause", "filter": []}, "filter"),
    ({"action": "pause", "of": "runs", "filter": {}}, "of"),
    ({"action": "pause", "filter": {"job_id": str(uuid4())}}, "filter.job_id"),
    ({"action": "pause", "filter": {"status": "paused"}}, "filter.status"),
    ({"action": "pause", "filter": {"status": 7}}, "filter.status"),
    ({"action": "pause", "filter": {"task": "\x1b"}}, "filter.task"),
    ({"action": "pause", "filter": {"start_time": 5}}, "filter.start_time"),
    ({"action": "pause", "filter": {"start_time": "2027-01-02T00:00:00Z", "end_time": "2027-01-01T00:00:00Z"}},
     "filter.end_time"),
    ({"action": "pause", "filter": {}, "missed": "all"}, "missed"),
    ({"action": "resume", "filter": {}, "missed": "some"}, "missed"),
    ({"action": "retry", "filter": {}}, "filter.status"),
    ({"action": "retry", "filter": {"status": "running"}}, "filter.status"),
    ({"action": "cancel", "of": "runs", "filter": {"status": "dead"}}, "filter.status"),
    ({"action": "requeue", "filter": {"fingerprint": "x"}}, "filter.fingerprint"),
    ({"action": "pause", "filter": {}, "dry_run": "yes"}, "dry_run"),
    ({"action": "pause", "filter": {}, "payload": {}}, "payload"),
    ({"action": "requeue", "filter": {}, "payload": {}}, "payload"),
    ({"action": "discard", "filter": {}, "payload_patch": {}}, "payload_patch"),
    ({"action": "requeue", "filter": {}, "payload_patch": []}, "payload_patch"),
    ({"action": "requeue", "filter": {}, "payload_patch": {"tag": "\x00"}}, "payload_patch.tag"),
    ({"action": "requeue", "filter": {}, "payload_patch": {"tag": "x" * 70_000}}, "payload_patch"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "path"), WRONG)
async def test_what_is_wrong_is_refused_by_its_name(desk: Desk, body: Any, path: str) -> None:
    told = await bulk(desk, status=422, **body)

    assert path in [error["path"] for error in told["errors"]]
    assert (await desk.get("/bulk"))["bulks"] == []


async def test_only_administrators_choose_a_user(desk: Desk) -> None:
    theirs = (await desk.create(schedule="every 1h", key="bob"))["job_id"]
    await desk.create(schedule="every 1h")

    await bulk(desk, status=403, action="pause", filter={"user_id": "bob"})
    ended = await finished(desk, await bulk(desk, "root", action="pause", filter={"user_id": "bob"}), "root")

    assert (ended["done"], (await desk.get(f"/jobs/{theirs}", "bob"))["status"]) == (1, "paused")
    assert ended["filter"] == {"user_id": "bob"}
    stored = await desk.store.engine.bulks.read(None, UUID(ended["bulk_id"]))
    assert stored is not None
    assert "bob" not in str(stored), "a name would outlive the user, if they are forgotten"
    unknown = await bulk(desk, "root", action="pause", filter={"user_id": "nobody"})
    assert unknown["filter"] == {"user_id": "nobody"}


@pytest.mark.parametrize("action", ["requeue", "discard"])
async def test_only_administrators_choose_whose_letters_and_runs(desk: Desk, action: str) -> None:
    mine, theirs = await desk.dead(), await desk.dead(key="bob")
    of_bob = {"user_id": "bob"}

    await bulk(desk, status=403, action=action, filter=of_bob)
    await bulk(desk, status=403, action="retry", filter=of_bob | {"status": "dead"})
    again = await bulk(desk, "root", status=200, action="retry", filter=of_bob | {"status": "dead"}, dry_run=True)
    ended = await finished(desk, await bulk(desk, "root", action=action, filter=of_bob), "root")

    assert [one["id"] for one in again["samples"]] == [str(theirs)]
    assert (ended["done"], ended["filter"]) == (1, of_bob)
    left = (await desk.get("/dead-letters", "root"))["dead_letters"]
    assert [letter["run_id"] for letter in left] == [str(mine)]


async def test_runs_are_retried_and_cancelled(desk: Desk) -> None:
    worker = await desk.store.worker()
    await desk.create()
    [run] = await desk.store.claim_due(worker)
    await desk.store.succeed(worker, run)
    desk.store.advance(MINUTE)

    again = await finished(desk, await bulk(desk, action="retry", filter={"status": "succeeded", "task": "mark"}))
    assert (again["done"], again["of"], len(await desk.store.claimable())) == (1, "runs", 1)
    desk.store.advance(MINUTE)
    stopped = await finished(desk, await bulk(desk, action="cancel", of="runs", filter={"status": "queued,running"}))
    assert (stopped["done"], await desk.store.claimable()) == (1, [])


@pytest.mark.parametrize("what", ["requeue", "discard"])
async def test_letters_are_chosen_by_their_filters(desk: Desk, what: str) -> None:
    await desk.dead(queue="q")
    await desk.dead()

    ended = await finished(desk, await bulk(desk, action=what, filter={"queue": "q"}))

    assert (ended["done"], len((await desk.get("/dead-letters"))["dead_letters"])) == (1, 1)


async def test_the_same_key_starts_one_bulk_and_a_user_has_ten(desk: Desk) -> None:
    once = {"Idempotency-Key": "k"}
    first = await bulk(desk, headers=once, action="pause", filter={})
    assert await bulk(desk, headers=once, action="pause", filter={}) == first
    await bulk(desk, headers=once, status=422, action="resume", filter={})
    for _ in range(9):
        await bulk(desk, action="pause", filter={})

    told = await bulk(desk, status=409, action="pause", filter={})

    assert "stop one" in told["detail"]
    assert (await bulk(desk, "bob", action="pause", filter={}))["state"] == "running"
    page = await desk.get("/bulk?limit=7")
    rest = await desk.get(f"/bulk?limit=7&page_token={page['next_page_token']}")
    assert (len(page["bulks"]), len(rest["bulks"])) == (7, 3)


async def dead_with(desk: Desk, task: str, payload: Any, key: str = "ada") -> str:
    return str(await desk.dead(key, task=task, payload=payload))


@pytest.mark.parametrize("by_ids", [True, False])
async def test_payloads_are_changed_and_letters_that_it_does_not_fit_stay(desk: Desk, by_ids: bool) -> None:
    fits = await dead_with(desk, "mark", {"seconds": "many", "tag": "a"})
    misfit = await dead_with(desk, "slow", {"seconds": 1})
    patch = {"tag": None, "extra": {"a": 1}}

    which = {"ids": [fits, misfit]} if by_ids else {"filter": {}}
    ended = await finished(desk, await bulk(desk, action="requeue", **which, payload_patch=patch))

    assert (ended["state"], ended["done"], ended["refused"], ended["payload_patch"]) == ("finished", 1, 1, patch)
    assert ended["reasons"] == [{"id": misfit, "reason": "payload.extra: is not a parameter of task 'slow'"}]
    [new] = await desk.store.claimable()
    assert (await desk.store.run(new)).payload == b'{"seconds":"many","extra":{"a":1}}'
    assert [one["run_id"] for one in (await desk.get("/dead-letters"))["dead_letters"]] == [misfit]


async def test_payloads_are_checked_by_the_settings_of_the_api_and_the_role_of_the_key(desk: Desk) -> None:
    """A scheduler has neither the networks nor the policy about tokens."""
    desk.app.api.settings = replace(desk.app.api.settings, plain_secrets="refuse")
    letter = await dead_with(desk, "http", {"url": "http://10.1.0.1/"})
    command = await dead_with(desk, "command", {}, "root")

    for patch, why in (
        ({"url": "http://10.2.0.1/"}, "payload.url: "),
        ({"headers": {"Authorization": "Bearer x"}}, "payload.headers.Authorization: would be stored in plain text"),
    ):
        ended = await finished(desk, await bulk(desk, action="requeue", ids=[letter], payload_patch=patch))
        assert ended["refused"] == 1
        assert ended["reasons"][0]["reason"].startswith(why)
    ended = await finished(
        desk, await bulk(desk, "root", action="requeue", ids=[command], payload_patch={"a": 1}), "root"
    )
    assert ended["done"] == 1, "administrators may"
    ended = await finished(
        desk, await bulk(desk, action="requeue", ids=[letter], payload_patch={"url": "http://10.1.0.2/"})
    )
    assert ended["done"] == 1


async def test_a_letter_is_requeued_once_although_its_pass_was_cut_off(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = await dead_with(desk, "slow", {"seconds": 1})
    started = await bulk(desk, action="requeue", ids=[letter], payload_patch={"tag": "b"})
    requeue, cut = desk.store.engine.history.requeue, False

    async def cut_off(*given: Any) -> Any:
        nonlocal cut
        answer = await requeue(*given)
        if not cut:
            cut = True
            raise StoreUnavailable("the process dies after the write")
        return answer

    monkeypatch.setattr(desk.store.engine.history, "requeue", cut_off)
    with pytest.raises(StoreUnavailable):
        await finished(desk, started)
    await desk.store.fleet.announce([Task("slow", b'{"type": "object", "maxProperties": 0}')], desk.store.now)
    desk.store.advance(MINUTE)
    ended = await finished(desk, started)

    assert (ended["done"], ended["refused"]) == (1, 0), "it was done before the task changed"
    assert len(await desk.store.claimable()) == 1
