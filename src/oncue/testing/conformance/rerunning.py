"""Runs that follow an ended run which is no dead letter."""

from __future__ import annotations

import asyncio

import pytest

from oncue.domain.errors import QuotaExceeded
from oncue.domain.ids import RunId
from oncue.domain.instants import MINUTE
from oncue.domain.quota import Quota
from oncue.domain.rerun import again
from oncue.domain.run import NewRun, State, Trigger
from oncue.testing.conformance.store import Store, only


async def following(store: Store, ended: RunId) -> NewRun:
    return again(await store.run(ended), RunId(store.new_id()), store.now)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.EXPIRED])
async def test_an_ended_run_is_followed_by_one_with_its_definition_and_payload(store: Store, state: State) -> None:
    ended = await store.one_shot(payload=b"[1]", group="g", start_within=MINUTE if state is State.EXPIRED else None)
    await store.end(ended, state)
    new = await following(store, ended)

    assert await store.history.rerun([new], store.now) == {new.run_id}

    run = only(await store.claim_due(await store.worker()))
    assert (run.run_id, run.parent, run.payload, run.trigger) == (new.run_id, ended, b"[1]", Trigger.REQUEUE)
    assert run.lane is not None
    assert await store.state(ended) is state
    await store.check_counts()


async def test_a_run_is_added_once_whoever_repeats_it_and_when(store: Store) -> None:
    ended = await store.one_shot()
    await store.end(ended, State.SUCCEEDED)
    new, other, worker = await following(store, ended), await following(store, ended), await store.worker()

    added = await asyncio.gather(*(store.history.rerun([new, new], store.now) for _ in range(4)))
    assert sorted(map(len, added)) == [0, 0, 0, 1]
    assert await store.history.rerun([other, new], store.now) == {other.run_id}
    for run in await store.claim_due(worker):
        assert await store.history.rerun([new], store.now) == frozenset()
        await store.succeed(worker, run)

    assert await store.history.rerun([new, other], store.now) == frozenset()
    assert await store.claimable() == []
    await store.check_counts()


async def test_a_quota_of_runs_by_hand_refuses_all_or_none(store: Store) -> None:
    ended = await store.one_shot()
    await store.end(ended, State.SUCCEEDED)
    first, second = await following(store, ended), await following(store, ended)

    with pytest.raises(QuotaExceeded):
        await store.history.rerun([first, second], store.now, Quota(runs=1))
    assert await store.claimable() == []
    assert await store.history.rerun([first], store.now, Quota(runs=1)) == {first.run_id}
    with pytest.raises(QuotaExceeded):
        await store.history.rerun([second], store.now, Quota(runs=1))
    assert await store.history.rerun([first], store.now, Quota(runs=1)) == frozenset()
