"""Notices that go with another: they end with the write that says in the other one what it took."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from msgspec.structs import replace

from oncue.domain import attempt
from oncue.domain.ids import NOTICES, RunId, WorkerId
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.lane import Held
from oncue.domain.rerun import again
from oncue.domain.run import Claimed, Gathered, State
from oncue.engines.port import Count
from oncue_conformance.store import Store, only
from oncue_conformance.telling import entry, failed


def joined(others: Sequence[Claimed]) -> Gathered:
    """Say of each that it went along, and write down which ones."""
    ended = tuple(attempt.succeeded(one, one.claimed_at, one.claimed_at, b'"along"') for one in others)
    return Gathered(b" ".join(str(one.run_id).encode() for one in others), b"1", ended)


async def due_notices(store: Store, worker: WorkerId, n: int) -> Claimed:
    """Have n notices for one target wait, and claim the one that its rate lets start."""
    store.advance(MINUTE)
    for run in [await store.claim_one(worker, await store.one_shot(notify=(entry("dead"),))) for _ in range(n)]:
        await failed(store, worker, run)
    await store.permit()
    return only(await store.claim_due(worker))


async def test_what_waits_for_the_same_target_goes_with_the_first(store: Store) -> None:
    worker = await store.worker()
    await store.one_shot(notify=(entry("dead", email=("a@example.org",), webhook=None),))
    for run in await store.claim_due(worker):
        await failed(store, worker, run)
    await store.permit()
    mail = only(await store.claim_due(worker))
    first = await due_notices(store, worker, 30)
    store.advance(SECOND)

    taken = await store.running.gather(worker, first, 20, store.now, joined)
    also = await store.running.gather(worker, first, 20, store.now, joined)
    assert taken is not None
    assert also is not None
    gone = [RunId(UUID(one.decode())) for one in (taken + b" " + also).split()]
    assert (len(taken.split()), len(gone), len(set(gone))) == (20, 29, 29)
    ended = [await store.run(run_id) for run_id in gone]
    assert {(run.state, run.result, run.ended_at, run.worker_id) for run in ended} == {
        (State.SUCCEEDED, b'"along"', store.now, worker)
    }
    assert await store.running.gather(worker, first, 20, store.now, joined) is None
    assert {mail.run_id, first.run_id}.isdisjoint(gone)
    assert (await store.run(first.run_id)).payload == also
    assert (await store.counts())[Count.SUCCEEDED] == 29
    await store.check_counts()


@pytest.mark.parametrize("how", ["failed", "handed back", "lost"])
async def test_a_later_attempt_finds_what_went_along(store: Store, how: str) -> None:
    worker = await store.worker()
    first = await due_notices(store, worker, 4)
    taken = await store.running.gather(worker, first, 20, store.now, joined)
    match how:
        case "failed":
            await store.fail(worker, first)
        case "handed back":
            await store.hand_back(worker, first)
        case _:
            await store.lose(worker)
            await store.recover_runs()

    store.advance(MINUTE)
    await store.permit()
    later = await store.claim_one(await store.worker(), first.run_id)
    gone = [run.run_id for run in await store.runs(job_id=NOTICES) if run.state is State.SUCCEEDED]
    assert sorted((later.payload or b"").decode().split()) == sorted(map(str, gone))
    assert (len(gone), later.payload, later.checkpoint) == (3, taken, b"1")


async def test_a_message_that_was_begun_goes_with_no_other(store: Store) -> None:
    """What has a checkpoint, or was requeued, may have been sent before in a message of its own."""
    worker = await store.worker()
    leader = await due_notices(store, worker, 1)
    letter = await due_notices(store, worker, 1)
    await store.fail(worker, letter, retry=False)
    begun = await due_notices(store, worker, 1)
    assert await store.running.save(worker, begun, checkpoint=b"1", payload=b"whole")
    assert only(await store.running.held_by(worker, [begun.run_id])).payload == b"whole"
    await store.fail(worker, begun)
    requeued = again(await store.run(letter.run_id), RunId(store.new_id()), store.now)
    await store.history.requeue([requeued], store.now)
    fresh = await store.claim_one(worker, await store.one_shot(notify=(entry("dead"),)))
    await failed(store, worker, fresh)
    store.advance(HOUR)

    taken = await store.running.gather(worker, leader, 20, store.now, joined)
    assert taken is not None
    [gone] = [RunId(UUID(one.decode())) for one in taken.split()]
    assert gone not in (begun.run_id, requeued.run_id)
    left = [await store.run(run_id) for run_id in (begun.run_id, requeued.run_id)]
    assert [(run.state, run.payload) for run in left] == [(State.WAITING, b"whole"), (State.WAITING, letter.payload)]


async def test_a_dead_letter_has_what_went_along(store: Store) -> None:
    worker = await store.worker()
    first = await due_notices(store, worker, 4)
    taken = await store.running.gather(worker, first, 20, store.now, joined)
    [now_held] = await store.running.held_by(worker, [first.run_id])
    await store.settle(worker, store.failure(worker, now_held, retry=False))

    letter = only([run for run in (await store.lists.dead_letters(store.uid)).items if run.job_id == NOTICES])
    assert letter.payload == (await store.run(first.run_id)).payload == taken


async def test_only_who_holds_a_run_gathers(store: Store) -> None:
    worker, other = await store.worker(), await store.worker()
    first = await due_notices(store, worker, 3)

    def never(_: Sequence[Claimed]) -> Gathered:
        raise AssertionError("nothing was to be taken")

    assert await store.running.gather(other, first, 10, store.now, never) is None
    assert await store.running.gather(worker, replace(first, token=9), 10, store.now, never) is None
    await store.fleet.drain(worker, store.now)
    assert await store.running.gather(worker, first, 10, store.now, never) is None
    await store.fleet.leave(worker)
    assert await store.running.gather(worker, first, 10, store.now, never) is None
    assert [run.held for run in await store.runs(job_id=NOTICES) if run.state is State.WAITING] == [Held.RATE] * 2
