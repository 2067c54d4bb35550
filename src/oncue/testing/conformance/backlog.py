"""What is due and what runs of some classes, of one user or of all; and who paused a queue."""

from __future__ import annotations

from oncue.domain.ids import ClassId
from oncue.domain.instants import MINUTE, SECOND
from oncue.engines.gauges import Backlog
from oncue.testing.conformance.store import Store


async def classes(store: Store) -> dict[str, ClassId]:
    return {key.queue: class_id for class_id, key in (await store.jobs.classes()).items()}


async def test_what_is_due_and_what_runs_is_told_by_class(store: Store) -> None:
    began, worker = store.now, await store.worker()
    await store.one_shots(3, apart=SECOND, queue="a")
    await store.one_shot(due=MINUTE, queue="a")
    await store.one_shot(due=MINUTE, queue="future")
    await store.one_shots(2, queue="line", group="g")  # of which one is held
    stranger = await store.one_shot(uid=store.stranger, queue="a")
    await store.one_shot(due=SECOND, uid=store.stranger, queue="theirs")
    await store.claim(worker, stranger)
    store.advance(SECOND)
    known = await classes(store)
    asked = [known[name] for name in ("a", "future", "line", "theirs")]

    def told(found: dict[ClassId, Backlog]) -> dict[str, Backlog]:
        return {name: found[class_id] for name, class_id in known.items() if class_id in found}

    assert told(await store.history.backlog(None, asked, store.now)) == {
        "a": Backlog(2, oldest_due=began, running=1),
        "line": Backlog(1, oldest_due=began),
        "theirs": Backlog(1, oldest_due=store.now),
    }
    assert told(await store.history.backlog(store.uid, asked, store.now)) == {
        "a": Backlog(2, oldest_due=began),
        "line": Backlog(1, oldest_due=began),
    }
    assert told(await store.history.backlog(store.stranger, asked, store.now)) == {
        "a": Backlog(running=1),
        "theirs": Backlog(1, oldest_due=store.now),
    }
    assert set(await store.history.backlog(None, asked[:1], store.now)) == {known["a"]}
    await store.claim_due(worker)
    assert told(await store.history.backlog(None, asked, store.now))["a"] == Backlog(running=3)


async def test_counting_stops_at_its_limit_and_says_so(store: Store) -> None:
    began = store.now
    await store.one_shots(5, queue="a")
    await store.one_shot(queue="b", due=SECOND)
    store.advance(SECOND)
    known = await classes(store)

    found = await store.history.backlog(None, list(known.values()), store.now, 3)
    mine = await store.history.backlog(store.uid, list(known.values()), store.now, 3)

    assert found[known["a"]] == mine[known["a"]] == Backlog(3, more=True, oldest_due=began)
    assert found[known["b"]] == Backlog(1, more=True, oldest_due=store.now), "there is one at least"
    assert mine[known["b"]].more
    assert not (await store.history.backlog(None, list(known.values()), store.now, 7))[known["a"]].more


async def test_the_pulse_sums_what_was_counted_and_what_runs_and_is_due(store: Store) -> None:
    worker = await store.worker()
    await store.one_shots(4)
    await store.one_shot(uid=store.stranger, queue="other")
    await store.one_shot(due=MINUTE)
    mine = [run for run in await store.claim_due(worker, 2) if run.uid == store.uid]
    await store.fail(worker, mine[0], retry=False)

    everybody = await store.history.pulse(None, store.now)
    assert (everybody.running, everybody.due, everybody.more, everybody.open_letters) == (2, 2, False, 1)
    assert (everybody.counts["created"], everybody.counts["dead"]) == (6, 1)
    hers = await store.history.pulse(store.uid, store.now)
    assert (hers.running, hers.due, hers.counts["created"], hers.open_letters) == (1, 2, 5, 1)
    theirs = await store.history.pulse(store.stranger, store.now)
    assert (theirs.running, theirs.due, theirs.counts["created"], theirs.open_letters) == (1, 0, 1, 0)
    await store.maintenance.roll_up()
    assert await store.history.pulse(None, store.now) == everybody, "rolled up, nothing counts twice"
    await store.history.discard(store.uid, [mine[0].run_id])
    assert (await store.history.pulse(None, store.now)).open_letters == 0

    await store.one_shots(3)
    few = await store.history.pulse(None, store.now, 2)
    assert (few.due, few.running, few.more) == (2, 2, True)
    assert (await store.history.pulse(store.uid, store.now, 2)).more


async def test_it_is_known_who_paused_a_queue(store: Store) -> None:
    await store.fleet.pause_queue("a", store.now, store.uid)
    await store.fleet.pause_queue("b", store.now)
    store.advance(SECOND)
    await store.fleet.pause_queue("a", store.now, store.stranger)
    assert await store.fleet.paused_by() == {"a": store.uid}

    await store.fleet.resume_queue("a", store.now)
    assert await store.fleet.paused_by() == {}
    store.advance(SECOND)
    await store.fleet.pause_queue("a", store.now)
    assert await store.fleet.paused_by() == {}, "not who paused it another time"
    await store.fleet.resume_queue("a", store.now)
    await store.fleet.pause_queue("a", store.now, store.stranger)
    assert await store.fleet.paused_by() == {"a": store.stranger}
