"""Queues over REST: what is in them, who takes from them, and stopping them."""

from typing import Any

import pytest
from tests.api.conftest import Desk
from tests.api.test_explain import offering
from tests.test_docs import ROOT, table

from oncue.domain.instants import MINUTE, rfc3339
from oncue.domain.placement import Offer
from oncue.engines.port import Hint, Topic

API = ROOT / "docs" / "api.md"


async def queues(desk: Desk, key: str = "ada") -> dict[str, Any]:
    return {queue["name"]: queue for queue in (await desk.get("/queues", key))["queues"]}


async def test_a_queue_shows_its_depth_by_class_and_its_workers(desk: Desk) -> None:
    store = desk.store
    for _ in range(3):
        await desk.create(queue="q", priority="high", labels=["gpu"])
    await desk.create("http", queue="q", payload={"url": "http://example.org"})
    await desk.create()
    worker = await offering(desk, Offer(frozenset({"mark"}), frozenset({"q", "idle"})))
    await offering(desk, Offer(frozenset({"mark"}), frozenset({"q"})), draining=True)
    run = (await store.claim_due(worker))[0]
    await store.succeed(worker, run)

    found = await queues(desk)

    assert sorted(found) == ["default", "idle", "q"]
    assert [field for field, _ in table(API, "field of a queue", "meaning")] == list(found["q"])
    assert (found["q"]["depth"] + found["default"]["depth"], found["idle"]["depth"]) == (4, 0)
    assert found["q"]["depth"] == sum(one["depth"] for one in found["q"]["classes"])
    assert [(one["task"], one["priority"], one["labels"]) for one in found["q"]["classes"]] == [
        ("mark", "high", ["gpu"]),
        ("http", "normal", []),
    ]
    assert {name: queue["workers"] for name, queue in found.items()} == {
        "default": [],
        "idle": [str(worker)],
        "q": [str(worker)],
    }


async def test_depth_counts_what_is_still_open_and_nothing_else(desk: Desk) -> None:
    store = desk.store
    worker = await store.worker()
    await desk.create()
    await store.succeed(worker, *await store.claim_due(worker))
    await desk.dead()
    cancelled = await desk.create(schedule=rfc3339(store.at(MINUTE)))
    await desk.call("DELETE", f"/v1/jobs/{cancelled['job_id']}")
    await desk.create()
    await store.fail(worker, *await store.claim_due(worker))

    assert (await queues(desk))["default"]["depth"] == 1


async def test_a_member_sees_no_others_queues_and_counts_only_ones_own(desk: Desk) -> None:
    await desk.create(queue="secret", key="bob")
    await desk.create(key="bob")
    await desk.create()
    await desk.store.fleet.pause_queue("theirs", desk.store.now)

    assert {name: queue["depth"] for name, queue in (await queues(desk)).items()} == {"default": 1}
    assert {name: queue["depth"] for name, queue in (await queues(desk, "root")).items()} == {
        "default": 2,
        "secret": 1,
        "theirs": 0,
    }


async def test_an_administrator_pauses_and_resumes_a_queue(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = desk.store
    await desk.create()
    worker = await store.worker()
    sent: list[tuple[Hint, dict[str, Any]]] = []

    async def send(hints: list[Hint]) -> None:
        sent.extend([(hint, await store.fleet.paused_queues()) for hint in hints])

    monkeypatch.setattr(store.engine.signals, "send", send)

    paused = await desk.call("POST", "/v1/queues/default/pause", key="root")
    since = store.now
    assert (paused.status_code, paused.json()["paused_since"], paused.json()["depth"]) == (200, rfc3339(since), 1)
    assert await store.claim_due(worker) == []
    store.advance(MINUTE)
    again = await desk.call("POST", "/v1/queues/default/pause", key="root")
    assert again.json() == paused.json()
    assert (await queues(desk))["default"]["paused_since"] == rfc3339(since)

    resumed = await desk.call("POST", "/v1/queues/default/resume", key="root")
    assert (resumed.status_code, resumed.json()["paused_since"]) == (200, None)
    assert sent == [(Hint(Topic.RUNS), {})]
    assert len(await store.claim_due(worker)) == 1


@pytest.mark.parametrize("key", ["ada", "viewer"])
async def test_nobody_else_pauses_or_resumes_one(desk: Desk, key: str) -> None:
    await desk.store.fleet.pause_queue("q", desk.store.now)

    for queue, act in (("q", "resume"), ("default", "pause")):
        assert (await desk.call("POST", f"/v1/queues/{queue}/{act}", key=key)).status_code == 403
    assert list(await desk.store.fleet.paused_queues()) == ["q"]


async def test_one_that_nobody_uses_yet_can_be_paused_and_resumed(desk: Desk) -> None:
    paused = await desk.call("POST", "/v1/queues/new%20one/pause", key="root")
    resumed = await desk.call("POST", "/v1/queues/new%20one/resume", key="root")

    assert (paused.json()["name"], paused.json()["paused_since"] is not None) == ("new one", True)
    assert (resumed.json()["name"], resumed.json()["paused_since"], resumed.json()["classes"]) == ("new one", None, [])


@pytest.mark.parametrize("path", ["a%2Fb", "a/b"])
@pytest.mark.parametrize("name", ["a/b", "a/b/pause", "/a/b", "a/b/"])
async def test_a_name_with_slashes_is_as_good_as_any(desk: Desk, name: str, path: str) -> None:
    path = name.replace("a/b", path)
    await desk.create(queue=name)

    paused = await desk.call("POST", f"/v1/queues/{path}/pause", key="root")
    assert (paused.status_code, paused.json()["name"], paused.json()["depth"]) == (200, name, 1)
    assert list(await desk.store.fleet.paused_queues()) == [name]
    await desk.call("POST", f"/v1/queues/{path}/resume", key="root")
    assert await desk.store.fleet.paused_queues() == {}


@pytest.mark.parametrize("name", ["%20", "a%00b", "x" * 101])
async def test_a_name_that_no_queue_can_have_is_refused(desk: Desk, name: str) -> None:
    answer = await desk.call("POST", f"/v1/queues/{name}/pause", key="root")

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, ["queue"])
    assert await desk.store.fleet.paused_queues() == {}
