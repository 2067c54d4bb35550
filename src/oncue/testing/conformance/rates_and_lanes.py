"""Rates together with everything else that may hold a run: only a run that nothing else holds is granted a start."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.domain.change import resume
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.lane import Held
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue.engines.port import Permitted
from oncue.testing.conformance.rates import rate
from oncue.testing.conformance.store import Store, job_of

LANES: dict[str, dict[str, Any]] = {"lane": {"group": "g"}, "gate": {"gate": ("c", 1)}}


async def test_what_is_paused_is_granted_no_start_until_it_is_resumed(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(1, HOUR))
    await store.pause(job_of(run_id))
    assert await store.permit() == Permitted()
    assert (await store.run(run_id)).held == Held.PAUSED | Held.RATE

    assert await store.change(job_of(run_id), lambda snap: resume(snap, CatchUp.ALL, store.now))

    assert await store.claimable() == []
    assert await store.permit() == Permitted(1, store.now)
    assert await store.claimable() == [run_id]


async def test_a_retry_that_came_to_wait_while_a_resume_was_decided_is_granted_a_start(store: Store) -> None:
    """The run was running when the caller read it: only the resume knows that its rate alone holds it now."""
    job_id = await store.recurring(every=HOUR, rate=rate(1, SECOND))
    await store.plan(ahead=HOUR)
    store.advance(HOUR)
    await store.permit()
    worker = await store.worker()
    [run] = await store.claim_due(worker)
    await store.pause(job_id)
    looked = await store.snapshot(job_id)
    await store.fail(worker, run)
    assert (await store.run(run.run_id)).held == Held.PAUSED | Held.RATE
    store.advance(MINUTE)
    assert await store.permit() == Permitted()

    assert await store.jobs.apply(resume(looked, CatchUp.SKIP, store.now), store.now)

    assert (await store.permit()).runs == 1
    assert await store.claimable() == [run.run_id]


@pytest.mark.parametrize("how", ["lane", "gate"])
async def test_what_waits_for_others_is_granted_a_start_when_it_is_let_in(store: Store, how: str) -> None:
    ahead = await store.one_shot(-SECOND, **LANES[how])
    run_id = await store.one_shot(rate=rate(1, HOUR), **LANES[how])
    worker = await store.worker()

    assert await store.permit() == Permitted()
    await store.succeed(worker, await store.claim_one(worker, ahead))
    assert await store.permit() == Permitted(1, store.now)
    assert await store.claimable() == [run_id]


@pytest.mark.parametrize("how", ["lane", "gate"])
async def test_what_waits_for_its_rate_holds_its_place(store: Store, how: str) -> None:
    await store.one_shot(-MINUTE, rate=rate(1, HOUR))
    await store.permit()
    first = await store.one_shot(-2 * SECOND, rate=rate(1, HOUR), **LANES[how])
    second = await store.one_shot(-SECOND, **LANES[how])

    assert second not in await store.claimable()
    assert (await store.run(first)).held == Held.RATE
    await store.running.cancel(None, first, store.now)
    assert second in await store.claimable()


async def test_an_earlier_arrival_that_waits_for_its_rate_goes_ahead_in_its_gate(store: Store) -> None:
    later = await store.one_shot(gate=("c", 1))
    earlier = await store.one_shot(-SECOND, gate=("c", 1), rate=rate(1, HOUR))

    assert await store.claimable() == []
    await store.permit()
    assert await store.claimable() == [earlier]
    await store.end(earlier, State.SUCCEEDED)
    assert await store.claimable() == [later]


async def test_an_edit_changes_the_rate_of_what_waits(store: Store) -> None:
    await store.one_shot(-SECOND, rate=rate(1, HOUR, "k"))
    await store.permit()
    run_id = await store.one_shot(rate=rate(1, HOUR, "k"))
    assert (await store.permit()).runs == 0

    assert await store.edit(job_of(run_id), rate=rate(1, HOUR, "another"))
    assert (await store.permit()).runs == 1
    assert await store.edit(job_of(run_id), rate=None)
    assert run_id in await store.claimable()


async def test_a_cancelled_run_waits_for_no_rate(store: Store) -> None:
    run_id = await store.one_shot(rate=rate(1, HOUR))
    await store.running.cancel(None, run_id, store.now)

    assert await store.permit() == Permitted()
