"""Workers over REST: what each does, what it holds, and draining them."""

from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Desk
from tests.test_docs import ROOT, table

from oncue.domain.ids import WorkerId
from oncue.domain.instants import MINUTE, SECOND, rfc3339
from oncue.domain.load import Load, show_load
from oncue.domain.placement import Offer, Resources, show_offer
from oncue.engines.port import Worker
from oncue_conformance.store import LEASE

API = ROOT / "docs" / "api.md"
OFFER = Offer(frozenset({"mark"}), frozenset({"q", "default"}), frozenset({"gpu"}), Resources(4_000), {}, "1.2")
LOAD = Load({"loop": 8, "thread": 2}, {"loop": 3}, cpu_milli=1_500, memory_mb=256, running=3)


async def add(desk: Desk, offer: Offer | None = OFFER) -> WorkerId:
    store, worker_id = desk.store, WorkerId(desk.store.new_id())
    info = None if offer is None else show_offer(offer)
    await store.fleet.register(Worker(worker_id, "w", "host", LEASE, store.now, store.now, info=info), store.now)
    return worker_id


async def act(desk: Desk, worker: object, what: str, key: str = "root") -> tuple[int, Any]:
    answer = await desk.call("POST", f"/v1/workers/{worker}/{what}", key=key)
    return answer.status_code, answer.json()


async def test_a_worker_says_what_it_does(desk: Desk) -> None:
    worker, quiet = await add(desk), await add(desk, None)
    await desk.store.fleet.beat(worker, desk.store.now, load=show_load(LOAD))

    shown = await desk.get(f"/workers/{worker}")

    fields = [name.strip("`") for row in table(API, "field of a worker", "meaning") for name in row[0].split(", ")]
    assert fields == list(shown)
    said = ("status", "version", "running", "slots", "free_slots", "resources_used")
    assert {name: shown[name] for name in said} == {
        "status": "active",
        "version": "1.2",
        "running": 3,
        "slots": {"loop": 8, "thread": 2},
        "free_slots": {"loop": 5, "thread": 2},
        "resources_used": {"cpu": 1.5, "memory_mb": 256},
    }
    assert (shown["tasks"], shown["queues"], shown["labels"]) == (["mark"], ["default", "q"], ["gpu"])
    unknown = await desk.get(f"/workers/{quiet}")
    assert (unknown["version"], unknown["running"], unknown["free_slots"], unknown["tasks"]) == (None, None, {}, [])
    assert (await desk.get("/workers"))["workers"] == [shown, unknown]
    desk.store.advance(LEASE + SECOND)
    assert (await desk.get(f"/workers/{worker}"))["status"] == "no_heartbeat"


async def test_an_administrator_drains_and_resumes_a_worker(desk: Desk) -> None:
    store, worker = desk.store, await add(desk)
    await desk.create()
    asked_at = store.now

    status, drained = await act(desk, worker, "drain")
    assert (status, drained["status"], drained["draining"]) == (200, "draining", True)
    assert drained["drain_requested_at"] == rfc3339(asked_at)
    assert await store.claim_due(worker) == []
    store.advance(SECOND)
    assert await act(desk, worker, "drain") == (200, drained)
    [queue] = [one for one in (await desk.get("/queues"))["queues"] if one["name"] == "default"]
    assert queue["workers"] == []
    assert (await desk.get("/audit", "root"))["audit"][0]["action"] == "worker.drain"

    status, resumed = await act(desk, worker, "resume")
    assert (status, resumed["status"], resumed["drain_requested_at"]) == (200, "active", None)
    assert await act(desk, worker, "resume") == (200, resumed)
    assert len(await store.claim_due(worker)) == 1
    lines = [line["action"] for line in (await desk.get("/audit", "root"))["audit"] if "worker" in line["action"]]
    assert lines == ["worker.resume", "worker.drain"], "what changed nothing is not logged"


async def test_a_stopping_worker_that_is_resumed_stays_draining(desk: Desk) -> None:
    worker = await add(desk)
    await act(desk, worker, "drain")
    await desk.store.fleet.beat(worker, desk.store.now, draining=True)

    status, resumed = await act(desk, worker, "resume")

    assert (status, resumed["status"], resumed["drain_requested_at"]) == (200, "draining", None)


async def test_a_worker_of_an_older_version_cannot_be_drained(desk: Desk) -> None:
    """It would go on claiming, and be shown as if it did not."""
    worker = await add(desk, Offer(frozenset({"mark"})))

    status, refused = await act(desk, worker, "drain")

    assert (status, "Stop its process" in refused["detail"]) == (409, True)
    assert (await desk.get(f"/workers/{worker}"))["draining"] is False


@pytest.mark.parametrize("key", ["ada", "viewer"])
async def test_only_administrators_drain_and_learn_nothing_otherwise(desk: Desk, key: str) -> None:
    worker = await add(desk)
    for what in ("drain", "resume"):
        for which in (worker, uuid4(), "nonsense"):
            assert (await act(desk, which, what, key))[0] == 403
    assert (await desk.get(f"/workers/{worker}"))["draining"] is False


@pytest.mark.parametrize("which", [uuid4(), "nonsense", "%00"])
async def test_a_worker_that_is_gone_is_not_found(desk: Desk, which: object) -> None:
    for path in ("", "/runs"):
        assert (await desk.call("GET", f"/v1/workers/{which}{path}")).status_code == 404
    for what in ("drain", "resume"):
        assert (await act(desk, which, what))[0] == 404


async def test_members_see_only_their_own_of_the_runs_that_a_worker_holds(desk: Desk) -> None:
    store = desk.store
    worker, other = await add(desk), await add(desk)
    made = {key: [await desk.create(key=key) for _ in range(2)] for key in ("ada", "bob")}
    held = await store.claim_due(worker)
    await desk.create(schedule=rfc3339(store.at(MINUTE)))

    async def seen(key: str, which: WorkerId = worker) -> set[str]:
        found, token = set[str](), ""
        while True:
            page = await desk.get(f"/workers/{which}/runs?limit=1{token}", key)
            found |= {run["run_id"] for run in page["runs"]}
            if page["next_page_token"] is None:
                return found
            token = f"&page_token={page['next_page_token']}"

    assert await seen("root") == {str(run.run_id) for run in held}
    for key in ("ada", "bob"):
        assert await seen(key) == {job["job_id"] for job in made[key]}
    assert await seen("viewer") == await seen("ada")
    assert await seen("root", other) == set()
    await store.succeed(worker, *held)
    assert await seen("root") == set()
