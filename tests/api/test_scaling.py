"""GET /v1/scaling: the numbers of live workers and due runs of each queue, for administrators."""

from msgspec.structs import replace
from tests.api.conftest import Desk

from oncue.domain.ids import WorkerId
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.load import Load, show_load
from oncue.domain.placement import Offer, Resources, show_offer
from oncue.engines.port import Worker

OFFER = Offer(frozenset({"mark"}), frozenset({"default", "mail"}), resources=Resources(1_000, 1_000, 10))


async def add_worker(desk: Desk, load: Load, offer: Offer = OFFER) -> WorkerId:
    store = desk.store
    worker_id = WorkerId(store.new_id())
    worker = Worker(worker_id, "w", "host", Duration(15 * SECOND), store.now, store.now, info=show_offer(offer))
    await store.fleet.register(worker, store.now)
    await store.fleet.beat(worker_id, store.now, load=show_load(load))
    return worker_id


async def test_each_queue_says_how_many_workers_it_needs(desk: Desk) -> None:
    await add_worker(desk, Load(slots={"loop": 10}, used={"loop": 7}))
    await add_worker(desk, Load(slots={"loop": 10}, used={"loop": 7}), replace(OFFER, queues=frozenset({"mail"})))
    for _ in range(4):
        await desk.create(queue="default")
    await desk.create(queue="nobody takes it")
    desk.store.advance(5 * SECOND)

    found = {one["queue"]: one for one in (await desk.get("/scaling", key="root"))["queues"]}

    assert found["default"] == {
        "queue": "default",
        "workers": 1,
        "desired": 2,
        "utilisation": 0.7,
        "due": 4,
        "more": False,
        "oldest_due_seconds": 5.0,
        "seconds_of_work": 0.4,
    }
    assert (found["mail"]["workers"], found["mail"]["desired"], found["mail"]["due"]) == (2, 2, 0)
    assert (found["nobody takes it"]["workers"], found["nobody takes it"]["desired"]) == (0, 1)
    assert await desk.get("/scaling?queue=mail", key="root") == found["mail"]


async def test_what_cannot_start_needs_no_worker(desk: Desk) -> None:
    await desk.create(queue="paused")
    await desk.create(queue="held", group="g")
    await desk.create(queue="held", group="g")
    await desk.create(queue="later", schedule="2031-01-01T00:00:00Z")
    await desk.call("POST", "/v1/queues/paused/pause", key="root")
    desk.store.advance(SECOND)

    found = {one["queue"]: (one["due"], one["desired"]) for one in (await desk.get("/scaling", key="root"))["queues"]}

    assert found == {"paused": (0, 0), "held": (1, 1), "later": (0, 0)}
    assert (await desk.get("/scaling?queue=unknown", key="root"))["desired"] == 0


async def test_workers_without_a_heartbeat_or_draining_do_not_count(desk: Desk) -> None:
    load = Load(slots={"loop": 10}, used={"loop": 10})
    await add_worker(desk, load)
    desk.store.advance(MINUTE)
    draining = await add_worker(desk, load)
    await desk.store.fleet.beat(draining, desk.store.now, draining=True)

    assert (await desk.get("/scaling?queue=default", key="root"))["workers"] == 0


async def test_only_administrators_may_ask(desk: Desk) -> None:
    assert [(await desk.call("GET", "/v1/scaling", key=key)).status_code for key in ("ada", "")] == [403, 401]
