"""The state of the whole cluster in numbers, as of one moment.

What is due and what runs of some classes, of one user or of all; and who paused a queue.

What is to come: cursors in order of time, and waiting runs counted by when they are due.
"""

from __future__ import annotations

from msgspec.structs import replace

from oncue.domain.ids import ClassId, UserNumber, WorkerId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.placement import Offer, Priority, show_offer
from oncue.domain.run import State
from oncue.domain.schedule import Schedule
from oncue.engines.gauges import MEMBER_LEASE, Backlog
from oncue.engines.port import Count, CursorRow, DueCounts, Finding, Gauges, Member, QueueGauge, Turn, Worker
from oncue_conformance.store import LEASE, Store, everything


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


# ------------------------------------------------------------------------------------------------------ of some classes


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


# -------------------------------------------------------------------------------------------------------------- to come


async def test_cursors_come_in_order_of_their_next_occurrence(store: Store) -> None:
    made = {
        name: await store.recurring(Schedule(every=Duration(n * MINUTE), anchor=store.now), name=name, payload=b"{}")
        for name, n in (("c", 3), ("a", 1), ("b", 2), ("d", 3))
    }
    theirs = await store.recurring(Schedule(every=HOUR, anchor=store.now), uid=store.stranger, task="other")
    paused = await store.recurring(Schedule(every=MINUTE, anchor=store.now))
    await store.pause(paused)
    await store.plan(ahead=MINUTE)  # of a, to the next

    async def names(uid: UserNumber | None, since: int, until: int, limit: int) -> list[str]:
        found = await everything(lambda after: store.ahead.cursors(uid, store.at(since), store.at(until), limit, after))
        return [row.spec.name or row.spec.task for row in found]

    both = sorted("cd", key=lambda name: made[name])
    early = sorted("ab", key=lambda name: made[name])
    for limit in (1, 2, 100):
        assert await names(store.uid, 0, DAY, limit) == [*early, *both]
        assert await names(None, 0, DAY, limit) == [*early, *both, "other"]
    assert await names(store.uid, 2 * MINUTE, 3 * MINUTE, 10) == early
    assert await names(store.stranger, 0, 30 * MINUTE, 10) == []
    [row] = (await store.ahead.cursors(store.stranger, store.now, store.at(DAY), 10)).items
    snap = await store.jobs.read(None, theirs)
    assert snap is not None
    assert row == CursorRow(theirs, store.stranger, snap.class_id, snap.job.spec, store.at(HOUR), 0)
    [first, *_] = [row for row in (await store.ahead.cursors(None, store.now, store.at(DAY), 10)).items if row.planned]
    assert (first.job_id, first.planned, first.next_at) == (made["a"], 1, store.at(2 * MINUTE))


async def test_waiting_runs_are_counted_by_when_they_are_due(store: Store) -> None:
    start = store.now - store.now % HOUR
    first = [await store.new_one_shot(n * MINUTE, task="a") for n in (1, 2, 2, 61)]
    other = [await store.new_one_shot(n * MINUTE, task="b") for n in (1, 62)]
    theirs = [await store.new_one_shot(MINUTE, task="a", uid=store.stranger)]
    held = [await store.new_one_shot(MINUTE, task="a", group="g") for _ in range(3)]
    await store.create(*first, *other, *theirs, *held)
    a, b = first[0].class_id, other[0].class_id
    window = (store.now, store.at(2 * HOUR), HOUR)

    def hours(*counts: int) -> dict[Instant, int]:
        return {Instant(start + n * HOUR): count for n, count in enumerate(counts) if count}

    let_in = 1  # of those in a group
    of_a, of_b = DueCounts(hours(4 + let_in, 1)), DueCounts(hours(1, 1))
    hers = DueCounts(hours(3 + let_in, 1))
    assert await store.ahead.due_counts(None, [a, b], *window, 1_000) == {a: of_a, b: of_b}
    assert await store.ahead.due_counts(None, [b], *window, 1_000) == {b: of_b}
    assert await store.ahead.due_counts(store.uid, [a, b], *window, 1_000) == {a: hers, b: of_b}
    assert await store.ahead.due_counts(store.uid, [b], *window, 1_000) == {b: of_b}
    assert await store.ahead.due_counts(store.stranger, [a, b], *window, 1_000) == {
        a: DueCounts(hours(1)),
        b: DueCounts({}),
    }
    assert await store.ahead.due_counts(None, [], *window, 1_000) == {}
    nearer = await store.ahead.due_counts(None, [a], store.at(90 * SECOND), store.at(HOUR), MINUTE, 1_000)
    assert nearer == {a: DueCounts({Instant(start + 2 * MINUTE): 2})}


async def test_counting_stops_after_so_many_and_says_where(store: Store) -> None:
    runs = [await store.new_one_shot(n * MINUTE, task="a") for n in range(1, 9)]
    few = [await store.new_one_shot(n * MINUTE, task="b") for n in range(1, 3)]
    await store.create(*runs, *few)
    many, seldom = runs[0].class_id, few[0].class_id

    found = await store.ahead.due_counts(None, [many, seldom], store.now, store.at(HOUR), HOUR, 8)  # four of each
    mine = await store.ahead.due_counts(store.uid, [many, seldom], store.now, store.at(HOUR), HOUR, 8)

    assert (sum(found[many].counts.values()), found[many].reached) == (4, store.at(4 * MINUTE))
    assert (sum(found[seldom].counts.values()), found[seldom].reached) == (2, None)
    reached = mine[many].reached
    assert reached is not None
    assert store.at(4 * MINUTE) <= reached < store.at(8 * MINUTE)


async def test_what_was_not_reached_of_a_user_may_be_of_any_class(store: Store) -> None:
    early = [await store.new_one_shot(n * MINUTE, task="a") for n in range(1, 5)]
    late = await store.new_one_shot(30 * MINUTE, task="b")
    await store.create(*early, late)
    window = (store.now, store.at(HOUR), HOUR)

    found = await store.ahead.due_counts(store.uid, [late.class_id], *window, 4)
    both = await store.ahead.due_counts(store.uid, [early[0].class_id, late.class_id], *window, 4)

    for counted in (found, both):
        of_late = counted[late.class_id]
        assert sum(of_late.counts.values()) == 1 or of_late.reached is not None
