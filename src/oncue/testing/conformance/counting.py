"""Counts: written as things happen, and consistent."""

from __future__ import annotations

from oncue.domain.instants import HOUR, MINUTE
from oncue.domain.run import State
from oncue.engines.port import Count
from oncue.testing.conformance.store import Store


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

    found = {(c.uid, c.class_id, c.what): c.n for c in await store.history.counters()}

    assert found == {
        (store.uid, mine.class_id, Count.CREATED): 2,
        (store.uid, other_task.class_id, Count.CREATED): 1,
        (store.stranger, mine.class_id, Count.CREATED): 1,
    }
    assert {c.uid for c in await store.history.counters(store.stranger)} == {store.stranger}


async def test_folding_changes_no_sum(store: Store) -> None:
    await store.one_shots(3)
    before = await store.counts()
    await store.maintenance.roll_up()

    assert await store.maintenance.roll_up() == 0
    assert await store.counts() == before
