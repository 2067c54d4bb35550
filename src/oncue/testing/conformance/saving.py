"""Progress and checkpoints: kept for the attempt that holds the run, and for later ones."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncue.domain.instants import MINUTE
from oncue.testing.conformance.store import Store


async def test_progress_is_seen_while_it_runs(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())

    assert await store.running.save(worker, run, progress=b"0.5")
    assert await store.running.save(worker, run, checkpoint=b"page 3")

    assert (await store.run(run.run_id)).progress == b"0.5"


@pytest.mark.parametrize("how", ["retry", "lost", "handed back"])
async def test_the_next_attempt_gets_the_checkpoint(store: Store, how: str) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    await store.running.save(worker, run, checkpoint=b"page 3")
    await store.running.save(worker, run, progress=b"0.5")  # leaves the checkpoint alone
    if how == "retry":
        await store.fail(worker, run)
    elif how == "lost":
        await store.fleet.leave(worker)
        await store.recover_runs()
    else:
        await store.hand_back(worker, run)
    store.advance(MINUTE)

    assert (await store.claim_one(await store.worker(), run.run_id)).checkpoint == b"page 3"


async def test_a_stale_attempt_saves_nothing(store: Store) -> None:
    worker, other = await store.worker(), await store.worker()
    stale = await store.claim_one(worker, await store.one_shot())
    await store.hand_back(worker, stale)
    current = await store.claim_one(worker, stale.run_id)
    await store.running.save(worker, current, checkpoint=b"new", progress=b"new")

    assert not await store.running.save(worker, stale, checkpoint=b"old", progress=b"old")
    assert not await store.running.save(other, current, checkpoint=b"old", progress=b"old")
    assert not await store.running.save(worker, replace(current, token=9), checkpoint=b"old", progress=b"old")

    assert (await store.run(current.run_id)).progress == b"new"
    await store.hand_back(worker, current)
    assert not await store.running.save(worker, current, checkpoint=b"old")
    assert (await store.claim_one(worker, current.run_id)).checkpoint == b"new"
