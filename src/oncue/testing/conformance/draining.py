"""Drained workers: they claim nothing until they are resumed. And the runs that a worker holds."""

from __future__ import annotations

import msgspec
import pytest

from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import SECOND
from oncue.domain.run import State
from oncue.engines.port import Beat, Worker
from oncue.testing.conformance.store import LEASE, Store, only


async def test_a_drained_worker_claims_nothing_until_it_is_resumed_and_keeps_its_runs(store: Store) -> None:
    worker, other = await store.worker(), await store.worker()
    run_id = await store.one_shot()
    [mine] = await store.claim_due(worker)
    await store.one_shot()
    asked_at = store.now

    assert await store.fleet.drain(worker, asked_at)
    store.advance(SECOND)
    assert await store.fleet.drain(worker, store.now), "a repeat"
    assert await store.claim_due(worker) == []
    drained = next(one for one in await store.fleet.workers() if one.worker_id == worker)
    assert (drained.draining, drained.drain_at) == (True, asked_at)
    told = await store.beat(worker)
    assert told is not None
    assert told.drain_at == asked_at
    assert await store.beat(other) == Beat(place=0, peers=1), "who takes no runs has no place"
    await store.succeed(worker, mine)
    assert await store.state(run_id) is State.SUCCEEDED

    assert await store.fleet.undrain(worker)
    assert await store.fleet.undrain(worker), "a repeat"
    beat = await store.beat(worker)
    assert beat is not None
    assert (beat.peers, beat.drain_at) == (2, None)
    assert len(await store.claim_due(worker)) == 1


async def test_a_worker_that_is_gone_is_not_drained_and_one_that_leaves_says_how_it_was(store: Store) -> None:
    worker = await store.worker()
    await store.fleet.drain(worker, store.now)
    found = only(await store.fleet.workers())

    assert await store.fleet.leave(worker) == found
    assert await store.fleet.leave(worker) is None
    assert not await store.fleet.drain(worker, store.now)
    assert not await store.fleet.undrain(worker)
    assert await store.fleet.workers() == []


async def test_a_worker_registers_as_drained_and_a_repeat_leaves_it_so(store: Store) -> None:
    worker = Worker(WorkerId(store.new_id()), "name", "host", LEASE, store.now, store.now, drain_at=store.now)
    await store.fleet.register(worker, store.now)
    await store.fleet.register(msgspec.structs.replace(worker, drain_at=None), store.now)

    assert only(await store.fleet.workers()).drain_at == store.now
    await store.one_shot()
    assert await store.claim_due(worker.worker_id) == []


async def test_the_runs_that_a_worker_holds_are_listed_page_by_page(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at a bounded number of running runs, whoever holds them: it may be short, or empty."""
    for lists in ("sqlite", "postgres"):
        monkeypatch.setattr(f"oncue.engines.{lists}.lists.HELD_SCAN", 3)
    mine, theirs = await store.worker(), await store.worker()
    held = dict[RunId, bool]()
    for turn in range(8):
        store.advance(SECOND)  # ids rise with time
        run_id = await store.one_shot(uid=store.stranger if turn == 5 else store.uid)
        held[run_id] = turn not in (0, 1, 2, 4)
        await store.claim_due(mine if held[run_id] else theirs)

    for uid, strangers in ((None, True), (store.uid, False)):
        found, after, pages = list[RunId](), None, 0
        while pages == 0 or after is not None:
            page = await store.lists.held(mine, uid, 2, after)
            found += [run.run_id for run in page.items]
            after, pages = page.next, pages + 1
            assert len(page.items) <= 2
            assert pages < 9
        expected = [run_id for run_id, is_mine in sorted(held.items()) if is_mine]
        if not strangers:
            expected.remove(sorted(held)[5])
        assert found == expected
