"""What is to come: cursors in order of time, and waiting runs counted by when they are due."""

from __future__ import annotations

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.schedule import Schedule
from oncue.engines.port import CursorRow, DueCounts
from oncue.testing.conformance.store import Store, everything


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
