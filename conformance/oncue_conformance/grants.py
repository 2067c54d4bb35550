"""Rates together with everything else that may hold a run: only a run that nothing else holds is granted a start.

Granted starts that no worker uses: they are taken back, and granted again.
"""

from __future__ import annotations

from typing import Any

import pytest

from oncue.domain.change import resume
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration
from oncue.domain.job import Rate
from oncue.domain.lane import Held
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue.engines.port import Permitted
from oncue_conformance.rates import dues, granted, rate
from oncue_conformance.store import Store, job_of

# ------------------------------------------------------------------------------- beside everything else that holds runs

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


# -------------------------------------------------------------------------------------------------- that no worker uses


async def away(store: Store, seconds: int, ahead: int = SECOND) -> None:
    """Schedulers run, and there is no worker."""
    for _ in range(2 * seconds):
        store.advance(SECOND // 2)
        await store.permit(ahead=ahead)


async def test_what_was_granted_while_no_worker_was_there_does_not_start_all_at_once(store: Store) -> None:
    await store.one_shots(40, due=-SECOND, apart=1, rate=rate(2, SECOND))
    await store.permit(ahead=SECOND)
    await away(store, 8)
    worker, started = await store.worker(), []

    for _ in range(4):
        started.append(len(await store.claim_due(worker)))
        store.advance(SECOND)
        await store.permit(ahead=SECOND)

    assert max(started) <= 2
    assert sum(started) >= 6


async def test_a_start_that_was_made_use_of_late_counts_from_then_on(store: Store) -> None:
    """Not exactly: from the last pass before, and there are two passes in a second."""
    await store.one_shots(3, rate=rate(1, MINUTE))
    await store.permit(ahead=0)
    await away(store, 60, ahead=0)
    assert len(await store.claim_due(await store.worker())) == 1

    store.advance(MINUTE - 1)
    assert (await store.permit(ahead=0)).runs == 0
    store.advance(1)
    assert (await store.permit(ahead=0)).runs == 1


async def test_who_was_first_stays_first(store: Store) -> None:
    runs = await store.one_shots(6, due=-SECOND, apart=1, rate=rate(1, SECOND))
    await store.permit(ahead=2 * SECOND)
    await away(store, 5, ahead=2 * SECOND)

    worker, order = await store.worker(), list[RunId]()
    while len(order) < 6:
        order += [run.run_id for run in await store.claim_due(worker)]
        store.advance(SECOND // 4)
        await store.permit(ahead=SECOND)

    assert order == runs


async def test_one_that_is_late_keeps_its_rank(store: Store) -> None:
    """Workers are busy: a run that waits longer for one of them must not fall behind others again and again."""
    run_id = await store.one_shot(rate=rate(10, SECOND))
    due = store.now
    await store.permit()

    await away(store, 5)

    assert await dues(store, run_id) == [due]
    assert await store.claimable() == [run_id]


async def test_a_start_counts_once_however_often_it_is_looked_at(store: Store) -> None:
    first = await store.one_shot(rate=rate(2, MINUTE))
    await store.permit(ahead=0)
    await away(store, 5, ahead=0)
    second = await store.one_shot(rate=rate(2, MINUTE))

    await store.permit(ahead=0)

    assert await granted(store, first, second) == [first, second]


async def test_a_retry_is_no_start_that_was_not_made_use_of(store: Store) -> None:
    """Its earlier start was used, and counts."""
    run_id = await store.one_shot(rate=rate(2, MINUTE))
    worker = await store.worker()
    await store.permit(ahead=0)
    await store.fail(worker, await store.claim_one(worker, run_id))
    assert (await store.permit(ahead=HOUR)).runs == 1  # the retry; no worker claims it
    await away(store, 10, ahead=0)
    other = await store.one_shot(rate=rate(2, MINUTE))

    await store.permit(ahead=0)

    assert await granted(store, run_id, other) == [run_id]


async def test_what_is_paused_after_it_was_granted_a_start_holds_up_nobody(store: Store) -> None:
    paused = await store.one_shot(rate=rate(1, SECOND))
    await store.permit(ahead=0)
    await store.pause(JobId(paused))
    other = await store.one_shot(rate=rate(1, SECOND))
    store.advance(2 * SECOND)

    await store.permit(ahead=0)

    assert await granted(store, other) == [other]


async def test_what_is_held_again_gives_its_start_back(store: Store) -> None:
    """Otherwise it would start with an old grant as soon as it is resumed."""
    paused = await store.one_shot(rate=rate(1, MINUTE))
    await store.permit(ahead=0)
    await store.pause(JobId(paused))
    await away(store, 2, ahead=0)
    other = await store.one_shot(rate=rate(1, MINUTE))
    await store.permit(ahead=0)
    assert await store.claimable() == [other]

    await store.change(JobId(paused), lambda snap: resume(snap, CatchUp.SKIP, store.now))
    await store.permit(ahead=0)

    assert await store.claimable() == [other]


async def test_what_runs_keeps_its_start_however_long_it_runs(store: Store) -> None:
    await store.one_shots(3, rate=Rate(1, Duration(HOUR), None))
    await store.permit(ahead=0)
    assert len(await store.claim_due(await store.worker())) == 1

    await away(store, 20, ahead=0)

    assert await store.claimable() == []
