"""Counts: written as things happen, and consistent."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from oncue.domain.change import resume
from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, HOUR, MINUTE, Duration
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State
from oncue.engines.port import EVERYBODY, Count, Counter
from oncue.testing.conformance.dead_letters import requeued
from oncue.testing.conformance.store import Store, job_of


def sum_of(counters: Iterable[Counter]) -> Tally[Count]:
    found: Tally[Count] = Tally()
    for one in counters:
        found[one.what] += one.n
    return found


async def test_counts_add_up(store: Store) -> None:
    """I16, through every state that a run can reach."""
    a, b, c, d, e, f, g = await store.one_shots(7, start_within=MINUTE)
    await store.one_shot(HOUR)
    worker = await store.worker()
    await store.succeed(worker, await store.claim_one(worker, a))
    await store.fail(worker, await store.claim_one(worker, b), retry=False)
    await store.fail(worker, await store.claim_one(worker, c))
    await store.hand_back(worker, await store.claim_one(worker, d))
    await store.claim_one(worker, e)
    await store.running.cancel(None, f, store.now)
    await store.running.cancel(None, d, store.now)
    store.advance(2 * MINUTE)
    assert len(await store.planning.expire(10, store.now)) == 1
    assert await store.state(g) is State.EXPIRED
    await store.fleet.leave(worker)
    await store.recover_runs()

    counts = await store.counts()
    assert counts == {
        Count.RETRIED: 1,
        Count.CREATED: 8,
        Count.SUCCEEDED: 1,
        Count.DEAD: 1,
        Count.LOST: 1,
        Count.CANCELLED: 2,
        Count.EXPIRED: 1,
    }
    await store.check_counts()


async def test_counts_are_kept_by_user_and_class(store: Store) -> None:
    mine = await store.new_one_shot(task="a")
    other_task = await store.new_one_shot(task="b")
    theirs = await store.new_one_shot(task="a", uid=store.stranger)
    await store.create(mine, other_task, theirs, await store.new_one_shot(task="a"))
    await store.maintenance.roll_up()

    found = [await store.history.counters(uid) for uid in (store.uid, store.stranger, None)]

    a, b = mine.class_id, other_task.class_id
    assert found == [
        [Counter(store.uid, a, Count.CREATED, 2), Counter(store.uid, b, Count.CREATED, 1)],
        [Counter(store.stranger, a, Count.CREATED, 1)],
        [Counter(EVERYBODY, a, Count.CREATED, 3), Counter(EVERYBODY, b, Count.CREATED, 1)],
    ]


async def test_everybodys_counts_are_those_of_each(store: Store) -> None:
    """Before they are rolled up, in between, and after."""
    for _ in range(2):
        for uid in (store.uid, store.stranger):
            await store.one_shots(2, uid=uid)
            await store.end(await store.one_shot(-1, uid=uid), State.DEAD)
        for folded in (False, True):
            if folded:
                await store.maintenance.roll_up()
            each = sum_of(
                await store.history.counters(store.uid) + await store.history.counters(store.stranger),
            )
            assert sum_of(await store.history.counters()) == each
            assert each[Count.CREATED] == 3 * each[Count.DEAD]


async def open_letters(store: Store, uid: UserNumber | None = None) -> int:
    counts = await store.counts(uid)
    return counts[Count.DEAD] - counts[Count.REQUEUED] - counts[Count.DISCARDED]


async def test_open_dead_letters_are_those_that_neither_went_nor_came_back(store: Store) -> None:
    dead = [await store.one_shot(-9) for _ in range(6)]
    for run_id in dead:
        await store.end(run_id, State.DEAD)
    for uid in (store.stranger, store.uid):
        assert await open_letters(store, uid) == (6 if uid == store.uid else 0)

    letter = await requeued(store, dead[0])
    for _ in range(2):  # the second is a repeat: the letter has gone
        await store.history.requeue([letter], store.now)
    assert await open_letters(store) == 5
    await store.history.discard(None, dead[:2])
    assert await open_letters(store) == 4
    await store.jobs.purge(job_of(dead[2]), 10)
    assert await open_letters(store) == 3 == len((await store.lists.dead_letters(None)).items)
    counts = await store.counts()
    assert (counts[Count.REQUEUED], counts[Count.DISCARDED]) == (1, 2)


async def test_dead_letters_that_retention_drops_are_discarded(store: Store) -> None:
    await store.end(await store.one_shot(-9), State.DEAD)
    store.advance(500 * DAY)
    await store.maintenance.maintain(store.now, Duration(365 * DAY))

    assert (await store.lists.dead_letters(None)).items == ()
    assert await open_letters(store) == 0


async def test_the_dead_letters_of_a_recurring_job_that_is_purged_are_discarded(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    await store.plan(ahead=2 * MINUTE)
    store.advance(2 * MINUTE)
    worker = await store.worker()
    await store.fail(worker, *await store.claim_due(worker), retry=False)
    await store.jobs.cancel(None, job_id, store.now)

    assert await open_letters(store) == 2
    while await store.jobs.purge(job_id, 1):
        pass
    assert await open_letters(store) == 0


async def test_occurrences_that_made_no_run_are_counted_as_the_ledger_has_them(store: Store) -> None:
    """By planning, by overlap, by a resume, and by an edit of a crowded job's runs."""
    late = await store.recurring(every=MINUTE, catch_up=CatchUp.LAST)
    skips = await store.recurring(every=MINUTE, overlap=Overlap.SKIP)
    paused = await store.recurring(every=MINUTE, uid=store.stranger)
    await store.pause(paused)
    store.advance(10 * MINUTE)
    await store.plan_all()
    worker = await store.worker()
    await store.claim_due(worker)
    store.advance(MINUTE)
    await store.plan_all()
    await store.decide_overlaps()
    await store.change(paused, lambda snap: resume(snap, CatchUp.SKIP, store.now))

    for uid, jobs in ((store.uid, (late, skips)), (store.stranger, (paused,)), (None, (late, skips, paused))):
        ledger = Tally[str]()
        for job_id in jobs:
            for entry in await store.ledger(job_id):
                ledger[entry.outcome] += entry.count
        counts = await store.counts(uid)
        assert {what: counts[what] for what in (Count.SKIPPED, Count.COALESCED, Count.MISSED) if counts[what]} == ledger
    assert len(ledger) > 1


async def test_folding_changes_no_sum(store: Store) -> None:
    await store.one_shots(3)
    before = await store.counts()
    await store.maintenance.roll_up()

    assert await store.maintenance.roll_up() == 0
    assert await store.counts() == before
