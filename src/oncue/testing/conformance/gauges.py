"""The state of the whole cluster in numbers, as of one moment."""

from __future__ import annotations

from msgspec.structs import replace

from oncue.domain.ids import WorkerId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration
from oncue.domain.placement import Offer, Priority, show_offer
from oncue.domain.run import State
from oncue.engines.gauges import MEMBER_LEASE
from oncue.engines.port import Count, Finding, Gauges, Member, QueueGauge, Turn, Worker
from oncue.testing.conformance.store import LEASE, Store


async def gauges(store: Store, most: int = 2_000) -> Gauges:
    return await store.history.gauges(store.now, most)


async def test_an_empty_store_has_nothing_to_tell(store: Store) -> None:
    found = await gauges(store)

    assert (found.at, found.counts, found.classes, found.queues, found.dead_letters) == (store.now, {}, (), (), {})
    assert (found.planner_lag, found.held_oldest, found.orphans) == (0, 0, 0)
    assert (found.processes, found.worker_states) == ({}, {"live": 0, "draining": 0})
    assert (found.findings, found.turns, found.tasks_without_worker) == ({}, {}, ())
    assert found.history_from is not None
    assert found.history_from <= store.now


async def test_queues_tell_what_is_open_what_is_due_and_since_when(store: Store) -> None:
    """Due is what could start now: neither what is held or runs, nor what is for later. A paused queue has it, too."""
    worker = await store.worker()
    first, *_ = await store.one_shots(3, apart=SECOND, queue="a")
    await store.one_shots(2, due=HOUR, queue="a", priority=Priority.HIGH)
    await store.one_shots(2, queue="b", group="g")
    await store.one_shot(HOUR, queue="c")
    await store.end(await store.one_shot(queue="ended"), State.SUCCEEDED)
    await store.fleet.pause_queue("b", store.now)
    await store.fleet.pause_queue("empty", store.now)
    await store.claim_one(worker, first)
    store.advance(10 * SECOND)

    found = (await gauges(store)).queues

    assert found == (
        QueueGauge("a", open=5, due=2, more=False, oldest_due=Duration(9 * SECOND), paused=False),
        QueueGauge("b", open=2, due=1, more=False, oldest_due=Duration(10 * SECOND), paused=True),
        QueueGauge("c", open=1, due=0, more=False, oldest_due=Duration(0), paused=False),
        QueueGauge("empty", open=0, due=0, more=False, oldest_due=Duration(0), paused=True),
    )


async def test_what_is_due_is_counted_up_to_a_limit_beginning_with_the_oldest_queue(store: Store) -> None:
    for queue, many in (("young", 0), ("oldest", 3), ("large", 10), ("young", 2)):
        await store.one_shots(many, queue=queue)
        store.advance(SECOND)

    found = (await store.history.gauges(store.now, most_due=10)).queues

    assert {one.queue: (one.due, one.more) for one in found} == {
        "oldest": (3, False),
        "large": (7, True),
        "young": (1, True),  # not counted: there is one at least
    }
    assert {one.queue: one.open for one in found} == {"oldest": 3, "large": 10, "young": 2}
    exactly = (await store.history.gauges(store.now, most_due=16)).queues
    assert {one.queue: (one.due, one.more) for one in exactly} == {
        "oldest": (3, False),
        "large": (10, False),
        "young": (2, False),
    }


async def test_the_classes_with_the_most_open_runs_are_looked_at(store: Store) -> None:
    for many, task in ((1, "a"), (3, "b"), (2, "c")):
        await store.one_shots(many, task=task)

    found = await gauges(store, most=2)

    assert [(one.key.task, one.open, one.due) for one in found.classes] == [("b", 3, 3), ("c", 2, 2)]
    assert found.more_classes
    assert not (await gauges(store, most=3)).more_classes
    assert found.counts["a", Count.CREATED] == 1


async def test_counts_are_summed_by_task_over_users_and_classes(store: Store) -> None:
    for queue, uid in (("a", store.uid), ("b", store.uid), ("a", store.stranger)):
        await store.one_shot(queue=queue, uid=uid, task="t")
    await store.maintenance.roll_up()
    dead = await store.one_shot(task="t")
    await store.end(dead, State.DEAD)

    found = await gauges(store)

    assert found.counts == {("t", Count.CREATED): 4, ("t", Count.DEAD): 1}
    assert found.dead_letters == {"t": 1}


async def test_planning_is_late_when_an_instant_has_passed_that_nobody_planned(store: Store) -> None:
    job = await store.recurring(every=MINUTE)
    assert (await gauges(store)).planner_lag == 0
    store.advance(MINUTE + 3 * SECOND)
    assert (await gauges(store)).planner_lag == 3 * SECOND

    await store.plan_all()
    assert (await gauges(store)).planner_lag == 0

    store.advance(HOUR)
    await store.pause(job)
    assert ((await gauges(store)).planner_lag, (await gauges(store)).next_plan) == (0, None)


async def test_it_tells_who_is_held_longest_and_how_many_run_without_a_worker(store: Store) -> None:
    worker = await store.worker()
    runs = await store.one_shots(3, due=SECOND, apart=SECOND, group="g")
    await store.one_shot(HOUR, group="g")
    store.advance(MINUTE)
    assert (await gauges(store)).held_oldest == MINUTE - 2 * SECOND
    await store.claim_one(worker, runs[0])
    assert (await gauges(store)).orphans == 0

    await store.fleet.leave(worker)

    assert (await gauges(store)).orphans == 1


async def test_processes_are_counted_by_role_and_version_while_they_beat(store: Store) -> None:
    for role, version in (("api", "1"), ("api", "1"), ("api", "2"), ("scheduler", "2")):
        await store.members.beat(Member(store.new_id(), role, version, 1, "host", store.now, store.now), store.now)
    store.advance(MEMBER_LEASE)
    assert (await gauges(store)).processes == {("api", "1"): 2, ("api", "2"): 1, ("scheduler", "2"): 1}

    store.advance(1)
    assert (await gauges(store)).processes == {}
    store.advance(-HOUR)  # nor do those that are to come: the clock was set back
    assert (await gauges(store)).processes == {}


async def test_workers_are_live_or_draining_and_offer_tasks_while_they_beat(store: Store) -> None:
    for task in ("offered", "leaving", "told", "nobody's"):
        await store.one_shot(task=task)
    [told] = await store.jobs.intern([(await store.new_one_shot(task="told")).job.spec.class_key])
    base = Worker(WorkerId(store.new_id()), "w", "host", LEASE, store.now, store.now)
    workers = [
        replace(base, info=show_offer(Offer(frozenset({"offered"})))),
        replace(
            base, worker_id=WorkerId(store.new_id()), info=show_offer(Offer(frozenset({"leaving"}))), draining=True
        ),
        replace(base, worker_id=WorkerId(store.new_id()), info=b"of another version", classes=(told,)),
    ]
    for worker in workers:
        await store.fleet.register(worker, store.now)

    found = await gauges(store)
    assert found.worker_states == {"live": 2, "draining": 1}
    assert found.tasks_without_worker == ("leaving", "nobody's")

    store.advance(LEASE + SECOND)
    later = await gauges(store)
    assert later.worker_states == {"live": 0, "draining": 0}
    assert later.tasks_without_worker == ("leaving", "nobody's", "offered", "told")


async def test_open_findings_are_counted_by_check_and_turns_are_told(store: Store) -> None:
    for check, object_id in (("cursor", "a"), ("cursor", "b"), ("lane", "a"), ("sums", "")):
        await store.auditing.record_findings([Finding(check, object_id, "wrong", store.now, store.now)], store.now)
    await store.auditing.clear_findings("sums", [""], store.now)
    await store.maintenance.take_turn("self-audit", store.now, SECOND)
    await store.maintenance.finish_turn("self-audit", b"", b"here")

    found = await gauges(store)

    assert found.findings == {"cursor": 2, "lane": 1}
    assert found.turns == {"self-audit": Turn(store.at(SECOND), b"here")}


async def test_sizes_are_told_in_bytes(store: Store) -> None:
    before = await store.history.sizes()
    await store.one_shots(500, payload=b'"' + b"x" * 2_000 + b'"')

    after = await store.history.sizes()
    assert sum(after.values()) > sum(before.values()) + 500 * 1_000 / 10
    assert all(size >= 0 for size in after.values())
