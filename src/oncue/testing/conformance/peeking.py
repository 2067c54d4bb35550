"""Peeking ahead: a read that shows what could be claimed, and reserves nothing."""

from __future__ import annotations

from oncue.domain.instants import HOUR, SECOND
from oncue.testing.conformance.store import LONG_AGO, Store, only


async def test_the_window_is_open_before_and_closed_at_its_end(store: Store) -> None:
    runs = await store.one_shots(5, apart=SECOND)
    classes = await store.class_ids()

    found = await store.running.peek(classes, store.at(SECOND), store.at(3 * SECOND), 100)

    assert [run.run_id for run in found] == runs[2:4]
    assert [run.due for run in found] == [store.at(2 * SECOND), store.at(3 * SECOND)]
    assert {(run.class_id, run.uid) for run in found} == {(classes[0], store.uid)}


async def test_the_earliest_come_first_whatever_their_class(store: Store) -> None:
    order = store.chance.sample(range(30), 30)
    created = {due: await store.one_shot(-due * SECOND, task=f"task{due % 3}") for due in order}

    assert await store.claimable() == [created[due] for due in range(29, -1, -1)]


async def test_the_limit_is_for_each_class(store: Store) -> None:
    a = await store.one_shots(5, apart=1, task="a")
    b = await store.one_shots(3, apart=1, task="b")
    store.advance(SECOND)

    assert set(await store.claimable(limit=2)) == {*a[:2], *b[:2]}


async def test_only_the_classes_asked_for_are_seen(store: Store) -> None:
    a = await store.new_one_shot(task="a")
    await store.create(a, await store.new_one_shot(task="b"))

    found = await store.running.peek([a.class_id], LONG_AGO, store.now, 10)

    assert only(found).run_id == a.job.job_id
    assert await store.running.peek([], LONG_AGO, store.now, 10) == []


async def test_peeking_reserves_nothing(store: Store) -> None:
    run_id = await store.one_shot()
    other = await store.second()

    assert await store.claimable() == [run_id]
    assert await other.claimable() == [run_id]
    assert await store.claim(await store.worker(), run_id) != []


async def test_what_cannot_be_claimed_is_not_seen(store: Store) -> None:
    """Held by a lane, by a gate, by a pause; running; ended."""
    heads = [await store.one_shot(group="g"), await store.one_shot(gate=("c", 1))]
    await store.one_shots(3, group="g", due=1, apart=1)
    await store.one_shots(3, gate=("c", 1), due=1, apart=1)
    paused, running, ended = await store.one_shots(3, due=1)
    store.advance(SECOND)
    await store.pause((await store.run(paused)).job_id)
    worker = await store.worker()
    await store.claim_one(worker, running)
    await store.succeed(worker, await store.claim_one(worker, ended))

    assert set(await store.claimable()) == set(heads)


async def test_a_retry_is_seen_from_its_own_due_time_on(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, run_id))
    due = (await store.run(run_id)).due
    classes = await store.class_ids()

    assert due > store.now
    assert await store.claimable() == []
    [seen] = await store.running.peek(classes, store.now, store.at(HOUR), 10)
    assert (seen.run_id, seen.due) == (run_id, due)
