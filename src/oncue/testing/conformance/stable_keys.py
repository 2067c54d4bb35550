"""Stable keys: of a user's jobs that have not ended at most one has a given key."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest

from oncue.domain.ids import JobId
from oncue.domain.instants import DAY, HOUR, MINUTE, Duration
from oncue.domain.run import State
from oncue.domain.schedule import Schedule
from oncue.engines.port import Created, Creation, NewJob, Repeat
from oncue.testing.conformance.store import Store, job_of, only

MONTH = Duration(30 * DAY)


async def new_of(store: Store, kind: str, **how: Any) -> NewJob:
    return await (store.new_recurring(**how) if kind == "recurring" else store.new_one_shot(HOUR, **how))


@pytest.mark.parametrize("kind", ["recurring", "one-shot"])
async def test_a_key_belongs_to_one_job_of_a_user_until_that_ends(store: Store, kind: str) -> None:
    first, second = [await new_of(store, kind, key="k") for _ in range(2)]
    other_key, no_key = await new_of(store, kind, key="K"), await new_of(store, kind)
    theirs = await new_of(store, kind, key="k", uid=store.stranger)
    assert await store.jobs.keyed(store.uid, "k") is None

    assert only(await store.create(first)) == Creation(Created.NEW, first.job.job_id)
    answers = await store.create(second, other_key, no_key, theirs)

    assert answers[0] == Creation(Created.KEY_TAKEN, first.job.job_id)
    assert [one.outcome for one in answers[1:]] == [Created.NEW] * 3
    assert await store.jobs.read(None, second.job.job_id) is None
    assert await store.jobs.keyed(store.uid, "k") == first.job.job_id
    assert await store.jobs.keyed(store.stranger, "k") == theirs.job.job_id
    assert only(await store.create(first)).outcome is Created.REPEATED  # asked again, its answer lost
    await store.pause(first.job.job_id)
    assert only(await store.create(second)).outcome is Created.KEY_TAKEN
    await store.jobs.cancel(None, first.job.job_id, store.now)
    assert await store.jobs.keyed(store.uid, "k") == first.job.job_id
    assert only(await store.create(second)).outcome is Created.NEW
    assert await store.jobs.keyed(store.uid, "k") == second.job.job_id


async def test_a_one_shot_has_its_key_while_it_runs_and_until_it_is_over(store: Store) -> None:
    run_id, worker = await store.one_shot(key="k"), await store.worker()
    run = await store.claim_one(worker, run_id)
    again = await store.new_one_shot(key="k")
    assert only(await store.create(again)) == Creation(Created.KEY_TAKEN, job_of(run_id))
    await store.fail(worker, run)
    assert only(await store.create(again)).outcome is Created.KEY_TAKEN
    store.advance(MINUTE)
    await store.beat(worker)
    await store.fail(worker, only(await store.claim_due(worker)), retry=False)

    assert only(await store.create(again)).outcome is Created.NEW


async def test_a_job_keeps_its_key_when_an_edit_makes_it_a_one_shot(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, key="k")
    assert await store.edit(job_id, schedule=Schedule(at=store.at(HOUR)))

    assert only(await store.create(await store.new_one_shot(key="k"))) == Creation(Created.KEY_TAKEN, job_id)


async def test_of_one_batch_the_first_gets_the_key(store: Store) -> None:
    new = [await store.new_one_shot(key=key) for key in ("a", "b", "a", "b")]

    assert {one.outcome for one in await store.create(*new, whole=True)} == {Created.NEW, Created.KEY_TAKEN}
    assert await store.jobs.keyed(store.uid, "a") is None  # all or nothing

    assert await store.create(*new) == [
        Creation(Created.NEW, new[0].job.job_id),
        Creation(Created.NEW, new[1].job.job_id),
        Creation(Created.KEY_TAKEN, new[0].job.job_id),
        Creation(Created.KEY_TAKEN, new[1].job.job_id),
    ]


async def test_of_many_at_once_one_gets_the_key(store: Store) -> None:
    """Also of two keys in opposite order, and where the job that had them has ended."""
    stores = [store, await store.second()]
    for _ in range(3):
        new = [[await store.new_one_shot(HOUR, key=key) for key in ("ab", "ba")[i % 2]] for i in range(8)]
        answers = await asyncio.gather(
            *(one.create(*batch) for one, batch in zip(cycle(stores), new, strict=False)),
        )
        won: dict[str, list[JobId]] = {"a": [], "b": []}
        for batch, answer in zip(new, answers, strict=True):
            for job, one in zip(batch, answer, strict=True):
                if one.outcome is Created.NEW:
                    won[str(job.job.spec.key)].append(one.job_id)
        for key, jobs in won.items():
            assert await store.jobs.keyed(store.uid, key) == only(jobs)
            await store.jobs.cancel(None, only(jobs), store.now)
        assert len(await store.runs(states=frozenset({State.WAITING}))) == 0


async def test_who_is_refused_leaves_no_idempotency_key_behind(store: Store) -> None:
    first, repeat = await store.recurring(every=MINUTE, key="k"), Repeat(b"r" * 16, b"b" * 16)
    new = [await store.new_one_shot(key="k", repeat=repeat) for _ in range(3)]

    assert await store.create(*new[:2]) == [Creation(Created.KEY_TAKEN, first)] * 2
    await store.jobs.cancel(None, first, store.now)

    assert only(await store.create(new[2])) == Creation(Created.NEW, new[2].job.job_id)
    again = await store.new_one_shot(key="k", repeat=repeat)
    assert only(await store.create(again)) == Creation(Created.REPEATED, new[2].job.job_id)


async def test_a_key_is_forgotten_with_its_job_and_not_before(store: Store) -> None:
    gone, lives = await store.one_shot(key="gone"), await store.recurring(every=HOUR, key="lives")
    await store.end(gone, State.SUCCEEDED)
    store.advance(20 * DAY)
    await store.history.tend(store.now, MONTH)
    assert await store.jobs.keyed(store.uid, "gone") == gone
    store.advance(12 * DAY)
    assert await store.history.tend(store.now, MONTH) >= 1

    assert await store.jobs.keyed(store.uid, "gone") is None
    assert await store.jobs.keyed(store.uid, "lives") == lives
