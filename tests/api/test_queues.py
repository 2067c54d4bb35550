"""Queues over REST: what is in them, who takes from them, and stopping them."""

from typing import Any

import pytest
from tests.api.conftest import Desk
from tests.api.test_explain import offering
from tests.test_docs import ROOT, table

from oncue.domain.instants import MINUTE, SECOND, rfc3339
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
    draining = await offering(desk, Offer(frozenset({"mark"}), frozenset({"q"})), draining=True)
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
    assert {name: queue["draining_workers"] for name, queue in found.items() if queue["draining_workers"]} == {
        "q": [str(draining)]
    }


async def test_a_queue_shows_what_is_due_how_late_and_how_fast_it_is(desk: Desk) -> None:
    """Members count their own; what is measured of all users' runs is for administrators."""
    store = desk.store
    store.advance(-store.now % MINUTE)
    worker = await store.worker()
    for _ in range(4):
        await desk.create(queue="q")
    await desk.create(queue="q", key="bob")
    store.advance(SECOND)
    done = (await store.claim_due(worker))[:3]
    await store.succeed(worker, *done)
    for key in ("ada", "bob", "bob"):
        await desk.create(queue="q", key=key)
    store.advance(29 * SECOND)
    await store.maintenance.roll_up()

    def told(queue: dict[str, Any]) -> list[Any]:
        names = "due running more oldest_due_seconds rate_per_minute drain_seconds"
        return [queue[name] for name in names.split()]

    whole = await desk.get("/queues/q", "root")
    assert whole == (await queues(desk, "root"))["q"]
    assert told(whole) == [3, 2, False, 29.0, 0.667, 270.0]
    assert [one["due"] for one in whole["classes"]] == [3]
    assert 500 < whole["lag_p50_ms"] <= whole["lag_p99_ms"] <= 1_000
    mine, bobs = await desk.get("/queues/q"), await desk.get("/queues/q", "bob")
    assert mine["due"] + bobs["due"] == 3
    assert mine["running"] + bobs["running"] == 2
    assert (told(mine)[2:], mine["lag_p50_ms"], mine["lag_p99_ms"]) == ([False, 29.0, None, None], None, None)

    await desk.call("POST", "/v1/queues/q/pause", key="root")
    assert (await desk.get("/queues/q", "root"))["drain_seconds"] is None
    store.advance(6 * MINUTE)
    await desk.call("POST", "/v1/queues/q/resume", key="root")
    later = await desk.get("/queues/q", "root")
    assert [later[name] for name in ("lag_p50_ms", "rate_per_minute", "drain_seconds")] == [None, 0, None]
    await store.claim_due(worker)
    assert (await desk.get("/queues/q", "root"))["drain_seconds"] == 0.0


async def test_who_paused_a_queue_is_for_administrators(desk: Desk) -> None:
    await desk.create(queue="q")
    await desk.call("POST", "/v1/queues/q/pause", key="root")

    assert (await desk.get("/queues/q", "root"))["paused_by"] == "root"
    assert (await desk.get("/queues/q"))["paused_by"] is None
    assert (await desk.get("/queues/q"))["paused_since"] is not None


async def test_a_queue_of_others_looks_like_one_that_is_missing(desk: Desk) -> None:
    await desk.create(queue="secret", key="bob")
    await desk.store.fleet.pause_queue("paused", desk.store.now)

    async def shown(name: str, key: str) -> tuple[int, str]:
        answer = await desk.call("GET", f"/v1/queues/{name}", key=key)
        return answer.status_code, answer.json().get("detail", "")

    missing = await shown("nobody", "root")
    assert missing[0] == 404
    for name in ("secret", "paused", "oncue", "nobody"):
        assert await shown(name, "ada") == missing
    assert {(await shown(name, "root"))[0] for name in ("secret", "paused")} == {200}


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
    assert again.json() == paused.json() | {"oldest_due_seconds": 60.0}
    assert (await queues(desk))["default"]["paused_since"] == rfc3339(since)

    resumed = await desk.call("POST", "/v1/queues/default/resume", key="root")
    assert (resumed.status_code, resumed.json()["paused_since"]) == (200, None)
    assert sent == [(Hint(Topic.RUNS), {"default": since})] * 2 + [(Hint(Topic.RUNS), {})]
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
    assert (await desk.get(f"/queues/{path}"))["name"] == name


@pytest.mark.parametrize("name", ["%20", "a%00b", "x" * 101])
async def test_a_name_that_no_queue_can_have_is_refused(desk: Desk, name: str) -> None:
    answer = await desk.call("POST", f"/v1/queues/{name}/pause", key="root")

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, ["queue"])
    assert await desk.store.fleet.paused_queues() == {}
