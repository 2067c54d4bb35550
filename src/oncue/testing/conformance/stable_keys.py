"""Stable keys: of a user's active or paused jobs at most one has a given key."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, Duration
from oncue.domain.job import JobStatus, definition_of
from oncue.domain.run import Settled, State
from oncue.domain.schedule import Schedule
from oncue.engines.port import Created, Creation, IdempotencyKey, KeyHolder, NewJob
from oncue.testing.conformance.store import Store, job_of, only

MONTH = Duration(30 * DAY)


async def new_of(store: Store, kind: str, **how: Any) -> NewJob:
    return await (store.new_recurring(**how) if kind == "recurring" else store.new_one_shot(HOUR, **how))


@pytest.mark.parametrize("kind", ["recurring", "one-shot"])
async def test_a_key_belongs_to_one_job_of_a_user_until_that_ends(store: Store, kind: str) -> None:
    first, second = [await new_of(store, kind, key="k") for _ in range(2)]
    other_key, no_key = await new_of(store, kind, key="K"), await new_of(store, kind)
    theirs = await new_of(store, kind, key="k", uid=store.stranger)
    assert await store.keyed("k") is None

    assert only(await store.create(first)) == Creation(Created.NEW, first.job.job_id)
    answers = await store.create(second, other_key, no_key, theirs)

    assert answers[0] == Creation(Created.KEY_TAKEN, first.job.job_id)
    assert [one.outcome for one in answers[1:]] == [Created.NEW] * 3
    assert await store.jobs.read(None, second.job.job_id) is None
    assert await store.keyed("k") == first.job.job_id
    assert await store.keyed("k", store.stranger) == theirs.job.job_id
    assert only(await store.create(first)).outcome is Created.REPEATED  # a retry after a lost answer
    await store.pause(first.job.job_id)
    assert only(await store.create(second)).outcome is Created.KEY_TAKEN
    await store.jobs.cancel(None, first.job.job_id, store.now)
    assert await store.keyed("k") == first.job.job_id
    assert only(await store.create(second)).outcome is Created.NEW
    assert await store.keyed("k") == second.job.job_id


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
    assert await store.keyed("a") is None  # all or nothing

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
            assert await store.keyed(key) == only(jobs)
            await store.jobs.cancel(None, only(jobs), store.now)
        assert len(await store.runs(states=frozenset({State.WAITING}))) == 0


async def test_who_is_refused_leaves_no_idempotency_key_behind(store: Store) -> None:
    first, idempotency_key = await store.recurring(every=MINUTE, key="k"), IdempotencyKey(b"r" * 16, b"b" * 16)
    new = [await store.new_one_shot(key="k", idempotency_key=idempotency_key) for _ in range(3)]

    assert await store.create(*new[:2]) == [Creation(Created.KEY_TAKEN, first)] * 2
    await store.jobs.cancel(None, first, store.now)

    assert only(await store.create(new[2])) == Creation(Created.NEW, new[2].job.job_id)
    again = await store.new_one_shot(key="k", idempotency_key=idempotency_key)
    assert only(await store.create(again)) == Creation(Created.REPEATED, new[2].job.job_id)


async def test_a_one_shot_that_is_being_stopped_has_ended_as_far_as_its_key_is_concerned(store: Store) -> None:
    run_id, worker = await store.one_shot(key="k"), await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.jobs.cancel(None, job_of(run_id), store.now)
    snap = await store.jobs.read(None, job_of(run_id))
    assert snap is not None
    assert (snap.job.status, snap.going) == (JobStatus.CANCELLED, (run_id,))

    again = await store.new_one_shot(key="k")
    assert only(await store.create(again)) == Creation(Created.NEW, again.job.job_id)

    assert await store.succeed(worker, run) == Settled(cancelled=frozenset({run_id}))
    assert await store.keyed("k") == again.job.job_id
    assert only(await store.create(await store.new_one_shot(key="k"))) == Creation(Created.KEY_TAKEN, again.job.job_id)


async def applied(store: Store, **how: Any) -> RunId:
    new = replace(await store.new_one_shot(**how), applied=True)
    await store.create(new)
    return RunId(new.job.job_id)


async def test_who_had_a_key_is_known_after_its_history_was_dropped_unless_it_was_cancelled(store: Store) -> None:
    """A client that puts the same job again must not run it twice."""
    ends = {State.SUCCEEDED: "done", State.DEAD: "dead", State.CANCELLED: "cancelled"}
    runs = {key: await applied(store, key=key, payload=b'{"b":[1],"a":true}') for key in ends.values()}
    made = await store.one_shot(key="made")
    await store.end(made, State.SUCCEEDED)
    lives = await store.recurring(every=HOUR, key="lives")
    for state, key in ends.items():
        await store.end(runs[key], state)
    await store.history.discard(None, [runs["dead"]])
    snap = await store.jobs.read(None, job_of(runs["done"]))
    assert snap is not None
    store.advance(20 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    assert [await store.keyed(key) for key in runs] == [job_of(run_id) for run_id in runs.values()]
    store.advance(12 * DAY)
    assert await store.maintenance.maintain(store.now, MONTH) >= 1

    assert await store.jobs.read(None, job_of(runs["done"])) is None
    assert await store.jobs.keyed(store.uid, "done") == KeyHolder(
        job_of(runs["done"]), definition_of(snap.job.spec, b' {"a": true, "b": [1]}')
    )
    assert [await store.keyed(key) for key in ("dead", "cancelled", "lives")] == [job_of(runs["dead"]), None, lives]
    assert await store.keyed("made") is None, "whoever makes jobs with keys of their own does not fill the store"
    assert only(await store.create(await store.new_one_shot(key="done"))).outcome is Created.NEW


@pytest.mark.parametrize("kind", ["recurring", "one-shot"])
async def test_what_is_known_of_a_one_shot_is_what_it_was_last(store: Store, kind: str) -> None:
    new = replace(await new_of(store, kind, key="k", payload=b'{"a": 1}'), applied=True)
    await store.create(new)
    assert await store.edit(new.job.job_id, schedule=Schedule(at=store.now), name="other")
    snap = await store.jobs.read(None, new.job.job_id)
    assert snap is not None

    assert await store.jobs.keyed(store.uid, "k") == KeyHolder(new.job.job_id, definition_of(snap.job.spec, b'{"a":1}'))
    assert definition_of(snap.job.spec, b'{"a":1}') != definition_of(new.job.spec, b'{"a":1}')


async def test_who_is_refused_leaves_what_is_known_of_the_other(store: Store) -> None:
    first, second = [replace(await store.new_one_shot(HOUR, key="k", name=name), applied=True) for name in "ab"]
    await store.create(first)
    holder = await store.jobs.keyed(store.uid, "k")

    assert only(await store.create(second)).outcome is Created.KEY_TAKEN
    assert await store.jobs.keyed(store.uid, "k") == holder
    await store.jobs.cancel(None, first.job.job_id, store.now)
    await store.create(second)

    assert await store.jobs.keyed(store.uid, "k") == KeyHolder(second.job.job_id, definition_of(second.job.spec, None))
