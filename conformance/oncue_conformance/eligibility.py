"""From when a run could start: lateness counts from there, not from when it was wanted.

Expiry: a run that could not start in time never starts.
"""

from __future__ import annotations

from typing import Any

import pytest

from oncue.domain.change import resume
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration
from oncue.domain.job import Rate
from oncue.domain.policy import CatchUp
from oncue.domain.run import Claimed, State
from oncue.engines.port import Count, Expired
from oncue_conformance.store import Store, job_of, only


async def claimed(store: Store) -> Claimed:
    """Claim the only run that is due, as `held_by` tells of it, too."""
    worker = await store.worker()
    run = only(await store.claim_due(worker))
    assert only(await store.running.held_by(worker, [run.run_id])).free_at == run.free_at
    return run


LANES: list[dict[str, Any]] = [{}, {"group": "g"}, {"gate": ("key", 1)}, {"group": "g", "gate": ("key", 1)}]


@pytest.mark.parametrize("lanes", LANES)
async def test_what_is_let_in_as_it_is_stored_was_never_held_up(store: Store, lanes: dict[str, Any]) -> None:
    """However late it was stored: that is lateness, too."""
    await store.one_shot(-MINUTE, **lanes)

    run = await claimed(store)

    assert (run.free_at, run.eligible) == (None, store.at(-MINUTE))


async def test_occurrences_that_were_planned_late_are_late(store: Store) -> None:
    await store.recurring(every=MINUTE)
    store.advance(MINUTE + 2 * SECOND)
    await store.plan()

    assert (await claimed(store)).eligible == store.at(-2 * SECOND)


@pytest.mark.parametrize("lanes", LANES[1:])
async def test_who_waits_for_another_could_start_when_that_ended(store: Store, lanes: dict[str, Any]) -> None:
    await store.one_shots(2, due=-MINUTE, apart=1, **lanes)
    first = await claimed(store)
    worker = await store.worker()
    assert await store.claim_due(worker) == []
    store.advance(SECOND)
    [holder] = [one.worker_id for one in await store.fleet.workers() if one.worker_id != worker]
    await store.succeed(holder, first)
    let_in = store.now
    store.advance(SECOND)

    second = await claimed(store)

    assert (second.free_at, second.eligible) == (let_in, let_in)


async def test_who_was_let_in_ahead_is_eligible_when_due(store: Store) -> None:
    await store.one_shot(group="g")
    await store.one_shot(MINUTE, group="g")
    worker = await store.worker()
    [first] = await store.claim_due(worker)
    await store.succeed(worker, first)
    store.advance(MINUTE)

    assert (await claimed(store)).eligible == store.now


async def test_a_rate_lets_a_run_in_when_it_grants_a_start(store: Store) -> None:
    await store.one_shot(rate=Rate(1, Duration(SECOND)))
    store.advance(SECOND)
    await store.permit()

    assert (await claimed(store)).eligible == store.now


async def test_a_job_that_was_paused_could_start_when_it_was_resumed(store: Store) -> None:
    run_id = await store.one_shot()
    await store.pause(job_of(run_id))
    store.advance(MINUTE)
    await store.change(job_of(run_id), lambda snap: resume(snap, CatchUp.ALL, store.now))

    assert (await claimed(store)).eligible == store.now


async def test_so_could_the_runs_of_a_queue(store: Store) -> None:
    await store.one_shot(queue="slow")
    await store.fleet.pause_queue("slow", store.now)
    store.advance(MINUTE)
    resumed = store.now
    await store.fleet.resume_queue("slow", resumed)
    store.advance(SECOND)
    await store.fleet.resume_queue("slow", store.now)  # a repeat: nothing is paused any more

    assert (await claimed(store)).free_at == resumed
    await store.one_shot(queue="slow")
    assert (await claimed(store)).eligible == store.now
    await store.one_shot(queue="other")
    assert (await claimed(store)).free_at is None


async def test_what_was_handed_back_can_start_from_then_on(store: Store) -> None:
    await store.one_shot(-MINUTE)
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    store.advance(SECOND)
    await store.hand_back(worker, run)
    handed_back = store.now
    store.advance(SECOND)

    assert (await claimed(store)).eligible == handed_back


async def test_a_retry_could_start_when_it_is_due(store: Store) -> None:
    await store.one_shot(group="g")
    worker = await store.worker()
    await store.fail(worker, *(await store.claim_due(worker)))
    store.advance(MINUTE)

    run = await claimed(store)

    assert run.eligible == run.due


# --------------------------------------------------------------------------------------------------------------- expiry


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
