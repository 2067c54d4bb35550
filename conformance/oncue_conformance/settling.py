"""Settling: the outcome of an attempt is written once, by the worker that holds the run, and final is final.

Progress and checkpoints: kept for the attempt that holds the run, and for later ones.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain import attempt
from oncue.domain.errors import StoreRefused
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND
from oncue.domain.job import JobStatus, decode_spec
from oncue.domain.run import Claimed, Settled, State, read_attempts
from oncue.engines.port import Cancelled, Count
from oncue_conformance.store import Store, ids, job_of

FINAL = [State.SUCCEEDED, State.DEAD, State.CANCELLED, State.EXPIRED]


async def claimed(store: Store, **how: Any) -> tuple[WorkerId, Claimed]:
    worker = await store.worker()
    return worker, await store.claim_one(worker, await store.one_shot(**how))


async def test_success_is_kept_with_its_result(store: Store) -> None:
    worker, run = await claimed(store, payload=b"[1]")
    began = store.now
    ended = store.advance(SECOND)

    settled = await store.settle(worker, attempt.succeeded(run, began, ended, b'"done"'))
    view = await store.run(run.run_id)

    assert settled == Settled()
    assert (view.state, view.result, view.error) == (State.SUCCEEDED, b'"done"', None)
    assert (view.started_at, view.ended_at, view.worker_id) == (began, ended, worker)
    assert (view.token, view.failures, view.losses) == (1, 0, 0)
    assert (view.payload, view.wanted, view.nominal) == (b"[1]", began, began)
    assert view.spec is not None
    assert decode_spec(view.spec) == decode_spec(run.spec)


async def test_a_failure_waits_for_its_retry(store: Store) -> None:
    worker, run = await claimed(store)
    failed = store.failure(worker, run)
    assert failed.due is not None

    assert await store.settle(worker, failed) == Settled()
    view = await store.run(run.run_id)

    assert (view.state, view.failures, view.losses) == (State.WAITING, 1, 0)
    assert (view.due, view.wanted, view.nominal) == (failed.due, run.wanted, run.nominal)
    assert await store.running.held_by(worker, [run.run_id]) == []
    store.advance(failed.due - store.now - 1)
    assert await store.claim(worker, run.run_id) == []
    store.advance(1)
    again = await store.claim_one(worker, run.run_id)
    assert (again.attempt, again.failures, again.due, again.wanted) == (2, 1, failed.due, run.wanted)
    assert (again.spec, again.payload) == (run.spec, run.payload)
    assert [(one.number, one.outcome, one.error) for one in read_attempts(again.attempts)] == [
        (1, "failed", "it broke")
    ]


async def test_the_last_failure_is_a_dead_letter(store: Store) -> None:
    worker, run = await claimed(store, max_retries=1)
    await store.fail(worker, run)
    store.advance(MINUTE)
    await store.beat(worker)

    await store.fail(worker, await store.claim_one(worker, run.run_id))
    view = await store.run(run.run_id)

    assert (view.state, view.failures, view.error_type) == (State.DEAD, 2, "Boom")
    assert view.error is not None
    assert view.error.startswith("it broke (failed after 2 attempts")
    assert [one.number for one in read_attempts(view.attempts)] == [1, 2]
    assert await store.claimable() == []


async def test_an_older_token_has_lost_the_run(store: Store) -> None:
    """The same worker, the same run: only the token tells the stale attempt from the current one."""
    worker, stale = await claimed(store)
    await store.hand_back(worker, stale)
    current = await store.claim_one(worker, stale.run_id)

    assert await store.succeed(worker, stale, result=b'"stale"') == Settled(lost=frozenset({stale.run_id}))

    assert await store.state(stale.run_id) is State.RUNNING
    assert await store.succeed(worker, current, result=b'"current"') == Settled()
    assert (await store.run(stale.run_id)).result == b'"current"'


async def test_another_worker_cannot_settle_it(store: Store) -> None:
    worker, run = await claimed(store)
    other = await store.worker()

    assert (await store.succeed(other, run)).lost == {run.run_id}

    assert await store.running.held_by(worker, [run.run_id]) == [run]


async def test_what_was_handed_back_cannot_be_settled(store: Store) -> None:
    worker, run = await claimed(store)
    await store.hand_back(worker, run)

    assert (await store.succeed(worker, run)).lost == {run.run_id}
    assert (await store.fail(worker, run, retry=False)).lost == {run.run_id}

    assert await store.state(run.run_id) is State.WAITING


async def test_a_guess_at_the_next_token_is_refused(store: Store) -> None:
    worker, run = await claimed(store)

    assert (await store.succeed(worker, replace(run, token=run.token + 1))).lost == {run.run_id}

    assert await store.state(run.run_id) is State.RUNNING


async def test_the_lost_do_not_disturb_the_rest_of_a_batch(store: Store) -> None:
    worker = await store.worker()
    runs = await store.claim(worker, *await store.one_shots(30))
    lost = runs[::3]
    await store.hand_back(worker, *lost)

    settled = await store.settle(
        worker,
        *(store.failure(worker, run) if i % 2 else attempt.succeeded(run, store.now, store.now, None)
          for i, run in enumerate(runs)),
    )  # fmt: skip

    assert settled == Settled(lost=frozenset(ids(lost)))
    for i, run in enumerate(runs):
        view = await store.run(run.run_id)
        if i % 3 == 0:
            assert (view.state, view.failures) == (State.WAITING, 0)
        else:
            assert (view.state, view.failures) == ((State.WAITING, 1) if i % 2 else (State.SUCCEEDED, 0))
    await store.check_counts()


async def test_runs_with_different_tokens_settle_in_one_batch(store: Store) -> None:
    worker = await store.worker()
    runs = await store.claim(worker, *await store.one_shots(6))
    await store.hand_back(worker, *runs[:3])
    again = await store.claim(worker, *ids(runs[:3]))

    assert (await store.succeed(worker, *runs[:3])).lost == set(ids(again))
    assert await store.succeed(worker, *again, *runs[3:]) == Settled()

    assert {await store.state(run.run_id) for run in runs} == {State.SUCCEEDED}
    assert (await store.counts())[Count.SUCCEEDED] == 6


async def test_a_repeat_is_lost_and_changes_nothing(store: Store) -> None:
    """The answer was lost; the worker retries."""
    worker, run = await claimed(store)
    await store.succeed(worker, run, result=b"1")
    before = await store.run(run.run_id)
    store.advance(SECOND)

    assert (await store.succeed(worker, run, result=b"2")).lost == {run.run_id}

    assert await store.run(run.run_id) == before
    assert (await store.counts())[Count.SUCCEEDED] == 1


@pytest.mark.parametrize("end", FINAL)
async def test_final_is_final(store: Store, end: State) -> None:
    """P5: no verb changes a final run."""
    run_id = await store.one_shot(start_within=MINUTE)
    await store.end(run_id, end)
    worker, another = await claimed(store)
    await store.succeed(worker, another)
    before, counts, job = await store.run(run_id), await store.counts(), (await store.snapshot(job_of(run_id))).job
    assert before.state is end
    holder = before.worker_id or worker
    claim = replace(another, run_id=run_id, token=before.token)
    store.advance(HOUR)

    assert (await store.succeed(holder, claim)).lost == {run_id}
    assert (await store.fail(holder, claim)).lost == {run_id}
    assert await store.hand_back(holder, claim) == frozenset()
    assert not await store.running.save(holder, claim, progress=b"1")
    assert await store.claim(await store.worker(), run_id) == []
    assert await store.running.cancel(None, run_id, store.now) == Cancelled(final=end)
    assert await store.jobs.cancel(None, job_of(run_id), store.now) == Cancelled(final=end, job=job)
    assert len(await store.planning.expire(10, store.now)) == 0
    await store.fleet.leave(holder)
    await store.recover_runs()

    assert await store.run(run_id) == before
    assert await store.counts() == counts


@pytest.mark.parametrize("outcome", [State.SUCCEEDED, State.DEAD, State.WAITING])
async def test_a_cancel_that_was_asked_for_wins(store: Store, outcome: State) -> None:
    worker, run = await claimed(store, payload=b"[1]")
    await store.running.cancel(None, run.run_id, store.now)
    if outcome is State.SUCCEEDED:
        settlement = attempt.succeeded(run, store.now, store.now, b"1")
    else:
        settlement = store.failure(worker, run, retry=outcome is State.WAITING)

    settled = await store.settle(worker, settlement)
    view = await store.run(run.run_id)

    assert settled == Settled(cancelled=frozenset({run.run_id}))
    assert (view.state, view.ended_at, view.payload) == (State.CANCELLED, store.now, b"[1]")
    assert (await store.lists.dead_letters(None)).items == ()
    assert await store.fleet.cancel_requests(worker) == ()
    counts = await store.counts()
    assert counts[Count.CANCELLED] == 1
    assert counts[Count.SUCCEEDED] + counts[Count.DEAD] + counts[Count.RETRIED] == 0


async def test_a_buried_worker_settles_nothing(store: Store) -> None:
    """From the moment it is declared dead, not only once its runs are recovered."""
    worker, run = await claimed(store)
    await store.lose(worker)

    assert (await store.succeed(worker, run, result=b'"late"')).lost == {run.run_id}

    assert await store.state(run.run_id) is State.RUNNING
    await store.recover_runs()
    assert await store.claimable() == [run.run_id]


async def test_a_recurring_job_goes_on_after_a_run(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    worker = await store.worker()
    for _ in range(3):
        store.advance(MINUTE)
        await store.plan()
        await store.succeed(worker, *await store.claim_due(worker))

    snap = await store.snapshot(job_id)

    assert (snap.job.status, snap.waiting, snap.going) == (JobStatus.ACTIVE, (), ())
    assert [run.state for run in await store.runs(job_id=job_id)] == [State.SUCCEEDED] * 3


async def test_settling_needs_no_room_made_ahead(store: Store) -> None:
    """The clock was set forward, or no maintenance ran for long: a run that ends now is kept all the same."""
    worker, run = await claimed(store)
    store.advance(3_000 * DAY)

    assert await store.succeed(worker, run) == Settled()
    assert (await store.run(run.run_id)).ended_at == store.now


async def test_two_ends_of_one_attempt_cannot_both_be_written(store: Store) -> None:
    """A worker settles while its run is recovered: one of them wins, completely."""
    other = await store.second()
    worker = await store.worker()
    runs = await store.claim(worker, *await store.one_shots(60))
    await store.fleet.leave(worker)

    async def settle_all() -> set[RunId]:
        lost = [(await store.succeed(worker, run)).lost for run in runs]
        return set(ids(runs)) - set().union(*lost)

    won, _ = await asyncio.gather(settle_all(), reap_all(other))

    for run in runs:
        assert await store.state(run.run_id) is (State.SUCCEEDED if run.run_id in won else State.WAITING)
    await store.check_counts()


async def reap_all(store: Store) -> None:
    for _ in range(30):
        await store.recover_runs(limit=2)


async def test_what_the_store_cannot_keep_is_refused_whole_and_leaves_no_trace(store: Store) -> None:
    """Half a surrogate pair cannot be encoded. The caller can tell the refusal from an outage."""
    worker = await store.worker()
    runs = await store.claim(worker, *await store.one_shots(3))
    ends = [attempt.succeeded(run, store.now, store.now, b"1") for run in runs]
    bad = replace(ends[1], error="half a pair: \ud800")

    with pytest.raises(StoreRefused):
        await store.settle(worker, ends[0], bad, ends[2])
    assert {await store.state(run.run_id) for run in runs} == {State.RUNNING}

    assert await store.settle(worker, *ends) == Settled()
    await store.check_counts()


# --------------------------------------------------------------------------------------------- progress and checkpoints


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
