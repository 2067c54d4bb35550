"""Purging: deletes everything of a job that has ended, in small steps, and nothing of other jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from oncue.domain import change
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, Duration
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State
from oncue.engines.port import Cancelled, Count, Created, IdempotencyKey, JobQuery
from oncue.testing.conformance.dead_letters import letters, requeued
from oncue.testing.conformance.store import LIVE, Store, ids, job_of, only

MONTH = Duration(30 * DAY)


async def purge(store: Store, job_id: JobId, limit: int = 100) -> int:
    """Purge all of it; return how many calls deleted something."""
    times = 0
    while await store.jobs.purge(job_id, limit):
        times += 1
        assert times < 1_000
    return times


async def run_by_hand(store: Store, job_id: JobId) -> RunId:
    run_id = RunId(store.new_id())
    assert await store.change(job_id, lambda snap: change.run_now(snap, run_id, store.now))
    return run_id


async def with_a_past(store: Store, runs: int = 6, **how: Any) -> JobId:
    """A recurring job with edits, runs that succeeded, one that is dead, logs, skipped occurrences; active."""
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.SKIP, tags=("a", "b"), payload=b"1", **how)
    worker = await store.worker()
    for n in range(runs):
        run_id = await run_by_hand(store, job_id)
        run = only(await store.claim(worker, run_id))
        await store.history.append_log(run_id, 0, b"a line", store.now)
        await (store.succeed(worker, run) if n else store.fail(worker, run, retry=False))
        assert await store.edit(job_id, name=f"name {n}")
    assert await store.pause(job_id)
    store.advance(10 * MINUTE)
    assert await store.change(job_id, lambda snap: change.resume(snap, CatchUp.SKIP, store.now))
    assert await store.ledger(job_id) != []
    return job_id


async def test_of_a_job_that_ended_nothing_is_left(store: Store) -> None:
    job_id, other = await with_a_past(store, key="k"), await with_a_past(store, key="other")
    runs = await store.runs(job_id=job_id)
    assert isinstance(await store.jobs.cancel(None, job_id, store.now), Cancelled)
    counts = await store.counts()

    assert await store.jobs.purge(job_id, 100) > len(runs)
    assert await store.jobs.purge(job_id, 100) == 0

    assert await store.jobs.read(None, job_id) is None
    assert await store.jobs.cancel(None, job_id, store.now) is None
    assert await store.runs(job_id=job_id) == []
    assert [await store.history.run(None, run.run_id) for run in runs] == [None] * 6
    assert [await store.log(run.run_id) for run in runs] == [b""] * 6
    assert await store.ledger(job_id) == []
    assert await store.keyed("k") is None
    assert [row.job.job_id for row in (await store.lists.jobs(JobQuery(tag="a"))).items] == [other]
    assert [letter.job_id for letter in await letters(store)] == [other]
    assert await store.counts() == counts + Counter({Count.DISCARDED: 1})
    await store.check_counts()


async def test_of_others_nothing_goes(store: Store) -> None:
    job_id, other = await with_a_past(store), await with_a_past(store, key="k")
    await store.jobs.cancel(None, job_id, store.now)
    before = (await store.snapshot(other), await store.runs(job_id=other), await store.ledger(other))
    logs = [await store.log(run.run_id) for run in before[1]]

    await purge(store, job_id)

    assert (await store.snapshot(other), await store.runs(job_id=other), await store.ledger(other)) == before
    assert [await store.log(run.run_id) for run in before[1]] == logs == [b"a line"] * 6
    assert await store.keyed("k") == other
    store.advance(MINUTE)
    assert await store.plan_all() > 0


@pytest.mark.parametrize("state", [state for state in State if state.final])
async def test_a_one_shot_goes_with_all_its_runs(store: Store, state: State) -> None:
    run_id = await store.one_shot(start_within=Duration(MINUTE), key="k", tags=("a",))
    job_id = job_of(run_id)
    await store.end(run_id, state)
    if state is not State.CANCELLED:
        again = await run_by_hand(store, job_id)
        assert await store.jobs.purge(job_id, 100) == 0
        await store.end(again, State.DEAD)

    assert await purge(store, job_id) == 1

    assert await store.jobs.read(None, job_id) is None
    assert await store.history.run(None, run_id) is None
    assert (await store.runs(), await letters(store)) == ([], [])
    assert await store.keyed("k") is None


async def test_what_has_not_ended_is_left_alone_whole(store: Store) -> None:
    """Active, paused, finished with runs to come, cancelled with one that runs; a one-shot that waits, and runs."""
    worker = await store.worker()
    active, paused = await with_a_past(store), await with_a_past(store)
    assert await store.pause(paused)
    finished = await store.recurring(store.every(MINUTE, max_runs=2))
    await store.plan(ahead=10 * MINUTE)
    cancelled, waiting, running = await store.recurring(), await store.one_shot(HOUR), await store.one_shot()
    [_, _] = await store.claim(worker, await run_by_hand(store, cancelled), running)
    await store.jobs.cancel(None, cancelled, store.now)
    jobs = [active, paused, finished, cancelled, job_of(waiting), job_of(running)]
    before = [(await store.snapshot(one), await store.runs(job_id=one), await store.ledger(one)) for one in jobs]

    assert [await store.jobs.purge(one, 100) for one in [*jobs, JobId(store.new_id())]] == [0] * 7

    assert [
        (await store.snapshot(one), await store.runs(job_id=one), await store.ledger(one)) for one in jobs
    ] == before


async def test_it_goes_a_little_at_a_time_with_the_definition_last(store: Store) -> None:
    job_id = await with_a_past(store, runs=7, key="k")
    await store.jobs.cancel(None, job_id, store.now)
    left = []

    while gone := await store.jobs.purge(job_id, 2):
        assert gone <= 2
        there = await store.jobs.read(None, job_id) is not None
        left.append((len(await store.runs(job_id=job_id)), there, await store.keyed("k") is not None))

    assert [runs for runs, _, _ in left[:4]] == [5, 3, 1, 0]
    assert [there for _, there, _ in left] == [*[True] * (len(left) - 1), False]
    assert [keyed for _, _, keyed in left] == [*[True] * (len(left) - 1), False]


async def test_a_dead_letter_goes_though_its_history_was_dropped(store: Store) -> None:
    job_id = await with_a_past(store)
    store.advance(40 * DAY)
    assert await store.maintenance.maintain(store.now, MONTH) >= 1
    assert [letter.job_id for letter in await letters(store)] == [job_id]
    await store.jobs.cancel(None, job_id, store.now)

    assert await purge(store, job_id) == 1
    assert await letters(store) == []


async def test_a_repeat_of_its_creation_says_which_job_it_was(store: Store) -> None:
    idempotency_key = IdempotencyKey(b"r" * 16, b"b" * 16)
    job = await store.new_one_shot(idempotency_key=idempotency_key)
    await store.create(job)
    await store.end(RunId(job.job.job_id), State.SUCCEEDED)
    await purge(store, job.job.job_id)

    again = only(await store.create(await store.new_one_shot(idempotency_key=idempotency_key)))

    assert (again.outcome, again.job_id) == (Created.REPEATED, job.job.job_id)
    assert await store.runs() == []


async def ended_badly(store: Store, *, recurring: bool) -> tuple[JobId, RunId]:
    """A job whose only run is a dead letter."""
    if not recurring:
        run_id = await store.one_shot()
        await store.end(run_id, State.DEAD)
        return job_of(run_id), run_id
    job_id = await store.recurring(store.every(MINUTE, max_runs=1))
    await store.plan(ahead=10 * MINUTE)
    store.advance(2 * MINUTE)
    [run_id] = ids(await store.runs(job_id=job_id))
    await store.end(run_id, State.DEAD)
    return job_id, run_id


@pytest.mark.parametrize("recurring", [True, False])
@pytest.mark.parametrize("by_hand", [True, False])
async def test_who_adds_a_run_at_that_moment_has_it_whole_or_not_at_all(
    store: Store, by_hand: bool, recurring: bool
) -> None:
    """By hand, or from the dead letters, during a purge: afterwards both the job and its run exist, or neither does."""
    other = await store.second()
    for turn in range(12):
        job_id, dead = await ended_badly(store, recurring=recurring)
        new, snap = await requeued(store, dead), await store.snapshot(job_id)
        extra = change.run_now(snap, RunId(store.new_id()), store.now)
        adding = other.jobs.apply(extra, store.now) if by_hand else other.history.requeue([new], store.now)
        both = [purge(store, job_id), adding]

        await asyncio.gather(*(both if turn % 2 else reversed(both)))

        live = await store.runs(job_id=job_id, states=LIVE)
        assert (await store.jobs.read(None, job_id) is not None) == bool(live)
        for run in live:
            await store.running.cancel(None, run.run_id, store.now)
        await purge(store, job_id)
        assert (await store.runs(), await letters(store)) == ([], [])
        await store.check_counts()
