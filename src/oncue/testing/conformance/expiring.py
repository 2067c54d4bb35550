"""Expiry: a run that could not start in time never starts."""

from __future__ import annotations

from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.run import State
from oncue.engines.port import Count, Expired
from oncue.testing.conformance.store import Store, job_of


async def test_what_did_not_start_in_time_ends(store: Store) -> None:
    in_time, forever = await store.one_shot(start_within=MINUTE, payload=b"[1]"), await store.one_shot()

    store.advance(MINUTE)
    assert len(await store.planning.expire(10, store.now)) == 0
    store.advance(1)
    [expired] = await store.planning.expire(10, store.now)
    assert expired == Expired(in_time, job_of(in_time), "noop", store.at(-MINUTE - 1))
    assert await store.planning.expire(10, store.now) == []

    view = await store.run(in_time)
    assert (view.state, view.ended_at, view.started_at, view.payload) == (State.EXPIRED, store.now, None, b"[1]")
    assert await store.claimable() == [forever]
    assert (await store.counts())[Count.EXPIRED] == 1


async def test_what_runs_or_was_tried_does_not_expire(store: Store) -> None:
    running, failed, lost = await store.one_shots(3, start_within=SECOND)
    worker, unlucky = await store.worker(), await store.worker()
    await store.claim_one(worker, running)
    await store.fail(worker, await store.claim_one(worker, failed))
    await store.claim_one(unlucky, lost)
    await store.fleet.leave(unlucky)
    await store.recover_runs()
    store.advance(HOUR)

    assert len(await store.planning.expire(10, store.now)) == 0
    assert [await store.state(run_id) for run_id in (running, failed, lost)] == [
        State.RUNNING,
        State.WAITING,
        State.WAITING,
    ]


async def test_what_is_held_or_paused_expires_too(store: Store) -> None:
    await store.one_shot(-SECOND, group="g")
    held, paused = await store.one_shot(group="g", start_within=SECOND), await store.one_shot(start_within=SECOND)
    await store.pause(job_of(paused))
    store.advance(MINUTE)

    assert len(await store.planning.expire(10, store.now)) == 2
    assert {await store.state(held), await store.state(paused)} == {State.EXPIRED}
    await store.check_counts()


async def test_what_is_edited_gets_its_time_anew(store: Store) -> None:
    run_id = await store.one_shot(start_within=SECOND)
    store.advance(MINUTE)
    assert await store.edit(job_of(run_id), payload=b"[2]")

    assert len(await store.planning.expire(10, store.now)) == 0
    assert await store.claimable() == [run_id]
    store.advance(MINUTE)
    assert len(await store.planning.expire(10, store.now)) == 1
    assert (await store.run(run_id)).payload == b"[2]"


async def test_no_more_expire_at_a_time_than_asked_for(store: Store) -> None:
    await store.one_shots(5, start_within=SECOND)
    store.advance(MINUTE)

    assert [len(await store.planning.expire(2, store.now)) for _ in range(4)] == [2, 2, 1, 0]
