"""Quotas of runs: how many waiting runs started by hand a user may have; exact under concurrency."""

from __future__ import annotations

import asyncio
from itertools import cycle

import pytest

from oncue.domain import change
from oncue.domain.errors import QuotaExceeded
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Instant
from oncue.engines.port import Quota
from oncue.testing.conformance.dead_letters import dead, requeued
from oncue.testing.conformance.store import Store

THREE = Quota(runs=3)


async def run_now(store: Store, job_id: JobId, quota: Quota | None = THREE, run_id: RunId | None = None) -> bool:
    decided = change.run_now(await store.snapshot(job_id), run_id or RunId(store.new_id()), store.now)
    return await store.jobs.apply(decided, store.now, quota)


async def backfill(store: Store, job_id: JobId, minutes: int, quota: Quota | None = THREE) -> bool:
    snap, since = await store.snapshot(job_id), Instant(store.now - minutes * MINUTE + SECOND)
    return await store.jobs.apply(change.backfill(snap, job_id, since, store.now, store.now), store.now, quota)


async def test_so_many_runs_by_hand_wait_and_no_more(store: Store) -> None:
    job_id, one_shot = await store.recurring(every=HOUR), JobId(await store.one_shot(HOUR))
    assert await run_now(store, job_id)
    assert await run_now(store, one_shot)
    assert await run_now(store, job_id)

    for refused in (job_id, one_shot):
        with pytest.raises(QuotaExceeded, match=r"at most 3 are allowed \(quota_runs\)"):
            await run_now(store, refused)
    stranger = await store.recurring(every=HOUR, uid=store.stranger)
    assert await run_now(store, stranger)
    assert await run_now(store, job_id, Quota())  # an administrator, who counts all the same
    await store.claim_due(await store.worker())
    assert await run_now(store, job_id)


async def test_a_backfill_is_all_or_none_and_a_repeat_counts_once(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    store.advance(10 * MINUTE)
    with pytest.raises(QuotaExceeded, match="adds 4"):
        await backfill(store, job_id, 4)
    assert await store.claimable() == []

    assert await backfill(store, job_id, 3)
    assert await backfill(store, job_id, 3)

    assert len((await store.snapshot(job_id)).waiting) == 3
    with pytest.raises(QuotaExceeded):
        await backfill(store, job_id, 4)


async def test_a_requeue_counts_and_without_room_its_letters_stay(store: Store) -> None:
    letters = [await dead(store) for _ in range(4)]
    new = [await requeued(store, run_id) for run_id in letters]

    with pytest.raises(QuotaExceeded, match="adds 4"):
        await store.history.requeue(new, store.now, THREE)
    assert len(await store.history.requeue(new[:3], store.now, THREE)) == 3
    with pytest.raises(QuotaExceeded):
        await store.history.requeue(new[3:], store.now, THREE)
    assert await store.history.requeue(new[3:], store.now) == {new[3].run_id}


async def test_of_many_who_ask_at_once_exactly_as_many_get_a_run_as_there_is_room_for(store: Store) -> None:
    stores = [store, await store.second()]
    jobs = [await store.recurring(every=HOUR) for _ in range(8)]

    async def asked(one: Store, job_id: JobId) -> bool:
        try:
            return await run_now(one, job_id)
        except QuotaExceeded:
            return False

    done = await asyncio.gather(*(asked(one, job_id) for one, job_id in zip(cycle(stores), jobs, strict=False)))

    assert sum(done) == 3
    assert len(await store.claimable()) == 3
