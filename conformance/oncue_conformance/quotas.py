"""Quotas: how many active or paused jobs and how many bytes of payload a user may have; exact under concurrency."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain import change
from oncue.domain.errors import QuotaExceeded
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.job import JobStatus
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue.domain.schedule import Schedule
from oncue.engines.port import Created, Creation, IdempotencyKey, NewJob, Quota, Usage
from oncue_conformance.store import Store, only

NEW, OVER, REPEATED = Created.NEW, Created.OVER_QUOTA, Created.REPEATED


async def one_shot(store: Store, quota: Quota | None, **how: Any) -> NewJob:
    return replace(await store.new_one_shot(how.pop("due", 0), **how), quota=quota)


async def recurring(store: Store, quota: Quota | None, **how: Any) -> NewJob:
    return replace(await store.new_recurring(**how), quota=quota)


async def outcomes(store: Store, *new: NewJob, whole: bool = False) -> list[Created]:
    return [one.outcome for one in await store.create(*new, whole=whole)]


async def fill(store: Store, quota: Quota, **how: Any) -> list[RunId]:
    """Create as many one-shots as the quota allows."""
    new = [await one_shot(store, quota, **how) for _ in range(quota.jobs)]
    assert await outcomes(store, *new) == [NEW] * quota.jobs
    return [RunId(job.job.job_id) for job in new]


async def has_room(store: Store, quota: Quota, **how: Any) -> bool:
    """Return whether one more is stored."""
    return await outcomes(store, await one_shot(store, quota, **how)) == [NEW]


async def test_there_is_room_for_so_many_jobs_of_each_kind_and_no_more(store: Store) -> None:
    quota = Quota(jobs=3)
    new = [await one_shot(store, quota), await recurring(store, quota), await one_shot(store, quota, due=HOUR)]
    assert await outcomes(store, *new) == [NEW] * 3

    refused = [await one_shot(store, quota), await recurring(store, quota)]

    assert await store.create(*refused) == [Creation(OVER, job.job.job_id, Usage(3, 2**62, 2**62)) for job in refused]
    assert [await store.jobs.read(None, job.job.job_id) for job in refused] == [None, None]
    assert await has_room(store, quota, uid=store.stranger)
    await store.check_counts()


@pytest.mark.parametrize("state", [state for state in State if state.final])
async def test_a_one_shot_that_ended_leaves_its_room_to_another(store: Store, state: State) -> None:
    quota = Quota(jobs=2, payload=20)
    how = {"payload": b"x" * 10, "start_within": Duration(MINUTE)}
    first, _ = await fill(store, quota, due=0, **how)
    if state is State.EXPIRED:
        await store.running.cancel(None, first, store.now)  # expiry would take all late runs
    assert await has_room(store, quota, **how) is (state is State.EXPIRED)

    await store.end(first, state) if state is not State.EXPIRED else await expire_all(store, 2)

    assert await has_room(store, quota, **how)
    assert await has_room(store, quota, **how) is (state is State.EXPIRED)
    assert not await has_room(store, quota, **how)


async def expire_all(store: Store, n: int) -> None:
    store.advance(HOUR)
    assert len(await store.planning.expire(10, store.now)) == n


async def test_a_one_shot_counts_until_it_is_over_whether_it_waits_or_runs_or_is_tried_again(store: Store) -> None:
    quota, worker = Quota(jobs=1), await store.worker()
    [run_id] = await fill(store, quota)
    run = await store.claim_one(worker, run_id)
    assert not await has_room(store, quota)
    await store.fail(worker, run)
    assert not await has_room(store, quota)
    store.advance(MINUTE)
    await store.beat(worker)
    await store.succeed(worker, only(await store.claim_due(worker)))

    assert await has_room(store, quota)


async def test_a_recurring_job_counts_once_until_it_has_ended_however_many_runs_it_has(store: Store) -> None:
    quota = Quota(jobs=2)
    cancelled, finite = (
        await recurring(store, quota),
        await recurring(store, quota, schedule=store.every(60, max_runs=2)),
    )
    assert await outcomes(store, cancelled, finite) == [NEW, NEW]
    await store.plan(ahead=10 * MINUTE)
    assert (await store.snapshot(finite.job.job_id)).job.status is JobStatus.FINISHED
    assert await has_room(store, quota)
    assert await store.pause(cancelled.job.job_id)
    assert not await has_room(store, quota)
    await store.jobs.cancel(None, cancelled.job.job_id, store.now)

    assert await has_room(store, quota)
    assert not await has_room(store, quota)


async def test_payloads_are_counted_in_bytes_and_who_sends_none_has_room(store: Store) -> None:
    quota = Quota(payload=100)
    sizes = [60, 41, 40, 1, 0]
    new = [await one_shot(store, quota, payload=b"x" * size if size else None) for size in sizes]

    answers = await store.create(*new)

    assert [one.outcome for one in answers] == [NEW, OVER, NEW, OVER, NEW]
    assert [one.used and one.used.payload for one in answers] == [None, 60, None, 100, None]
    await store.running.cancel(None, RunId(new[2].job.job_id), store.now)
    assert await has_room(store, quota, payload=b"x" * 40)
    assert not await has_room(store, quota, payload=b"x")
    assert await outcomes(store, await recurring(store, quota, payload=b"x")) == [OVER]


async def test_of_fifty_at_once_exactly_as_many_are_stored_as_there_is_room_for(store: Store) -> None:
    """Three times: with no user counted yet, with a bound that is too high, and with two users."""
    stores = [store, await store.second(), await store.second()]
    quota, whose = Quota(jobs=7), [store.uid, store.stranger]
    for users in (whose[:1], whose[:1], whose):
        new = [
            await one_shot(store, quota, uid=uid, payload=b"{}")
            for _, uid in zip(range(50), cycle(users), strict=False)
        ]
        calls = [one.create(job) for one, job in zip(cycle(stores), new, strict=False)]

        answers = [only(answer) for answer in await asyncio.gather(*calls)]

        stored = Counter(job.job.uid for job, one in zip(new, answers, strict=True) if one.outcome is NEW)
        assert stored == dict.fromkeys(users, 7)
        waiting = await store.runs(states=frozenset({State.WAITING}))
        assert len(waiting) == 7 * len(users)
        for run in waiting:
            await store.running.cancel(None, run.run_id, store.now)
        await store.check_counts()


async def test_of_many_who_grow_at_once_exactly_as_many_do_as_there_is_room_for(store: Store) -> None:
    """New jobs and edits of old ones, each for ten bytes more."""
    stores = [store, await store.second(), await store.second()]
    quota = Quota(payload=130)
    old = [await one_shot(store, quota, due=HOUR, payload=b"x") for _ in range(10)]
    assert await outcomes(store, *old) == [NEW] * 10
    changes = [await store.edited(await store.snapshot(job.job.job_id), payload=b"y" * 11) for job in old]
    new = [await one_shot(store, quota, due=HOUR, payload=b"z" * 10) for _ in range(10)]

    async def grown(one: Store, how: change.JobChange | NewJob) -> bool:
        if isinstance(how, NewJob):
            return await outcomes(one, how) == [NEW]
        try:
            return await one.jobs.apply(how, one.now, quota)
        except QuotaExceeded:
            return False

    mixed = [how for pair in zip(changes, new, strict=True) for how in pair]
    done = await asyncio.gather(*(grown(one, how) for one, how in zip(cycle(stores), mixed, strict=False)))

    assert sum(done) == 12
    runs = [await store.run(run.run_id) for run in await store.runs(states=frozenset({State.WAITING}))]
    assert sum(len(run.payload or b"") for run in runs) == 130


async def test_groups_of_several_users_in_any_order_do_not_wait_in_a_circle(store: Store) -> None:
    stores, quota = [store, await store.second()], Quota(jobs=10)
    users = [store.uid, store.stranger, await store.accounts.user("eve", store.now)]

    async def group(one: Store, turn: int) -> list[Created]:
        order = [users[(turn * step + i) % 3] for step in (1, 2) for i in range(3)]
        return await outcomes(one, *[await one_shot(store, quota, uid=uid, due=HOUR) for uid in order])

    answers = await asyncio.gather(*(group(one, turn) for turn, one in zip(range(12), cycle(stores), strict=False)))

    assert Counter(one for answer in answers for one in answer) == {NEW: 30, OVER: 42}


async def test_a_whole_batch_is_stored_or_refused_as_one_and_says_what_would_fit(store: Store) -> None:
    quota = Quota(jobs=3)
    await store.create(await one_shot(store, quota))
    batch = [await one_shot(store, quota) for _ in range(4)]

    assert await outcomes(store, *batch, whole=True) == [NEW, NEW, OVER, OVER]
    assert [await store.jobs.read(None, job.job.job_id) for job in batch] == [None] * 4

    assert await outcomes(store, *batch[:2], whole=True) == [NEW, NEW]
    assert not await has_room(store, quota)


async def test_a_repeat_is_never_refused_and_never_counted(store: Store) -> None:
    quota, idempotency_key = Quota(jobs=2, payload=4), IdempotencyKey(b"r" * 16, b"b" * 16)
    keyed = await one_shot(store, quota, idempotency_key=idempotency_key, payload=b"xx")
    plain = await one_shot(store, quota)
    again = [await one_shot(store, quota, idempotency_key=idempotency_key, payload=b"xx") for _ in range(3)]

    assert await outcomes(store, keyed, again[0]) == [NEW, REPEATED]
    assert await outcomes(store, again[1]) == [REPEATED]
    assert await outcomes(store, plain) == [NEW]
    assert await outcomes(store, plain, keyed, again[2]) == [REPEATED] * 3
    assert await outcomes(store, plain, again[2], whole=True) == [REPEATED] * 2
    await store.running.cancel(None, RunId(plain.job.job_id), store.now)
    assert await has_room(store, quota, payload=b"xx")
    assert not await has_room(store, quota)


async def test_one_job_by_many_callers_at_once_is_stored_once_and_refused_to_none(store: Store) -> None:
    """As when an answer is lost and the caller retries while the first call is still in progress."""
    stores, quota = [store, await store.second(), await store.second()], Quota(jobs=1)
    for key in (None, "k"):
        job = await one_shot(store, quota, due=HOUR, key=key)

        answers = await asyncio.gather(*(one.create(job) for _, one in zip(range(12), cycle(stores), strict=False)))

        assert Counter(only(answer).outcome for answer in answers) == {NEW: 1, REPEATED: 11}
        await store.running.cancel(None, RunId(job.job.job_id), store.now)


async def test_who_is_refused_leaves_no_key_of_either_kind_behind(store: Store) -> None:
    quota, idempotency_key = Quota(jobs=1), IdempotencyKey(b"r" * 16, b"b" * 16)
    ended = await one_shot(store, quota, key="used")
    await store.create(ended)
    await store.end(RunId(ended.job.job_id), State.SUCCEEDED)
    [holder] = await fill(store, quota)
    new, same, used = [
        await one_shot(store, quota, key=key, idempotency_key=one)
        for key, one in (("k", idempotency_key), ("k", idempotency_key), ("used", None))
    ]

    assert await outcomes(store, new, same, used) == [OVER] * 3
    assert await store.keyed("k") is None
    assert await store.keyed("used") == ended.job.job_id
    await store.running.cancel(None, holder, store.now)

    other = await one_shot(store, quota, key="k", idempotency_key=replace(idempotency_key, body_hash=b"c" * 16))
    assert await store.create(other) == [Creation(NEW, other.job.job_id)]
    assert await store.keyed("k") == other.job.job_id


async def test_a_key_that_one_is_refused_goes_to_the_next_that_has_room(store: Store) -> None:
    quota = Quota(payload=10)
    large, small, third = [await one_shot(store, quota, key="k", payload=b"x" * size) for size in (11, 5, 1)]

    assert await store.create(large, small, third) == [
        Creation(OVER, large.job.job_id, Usage(2**62, 0, 2**62)),
        Creation(NEW, small.job.job_id),
        Creation(Created.KEY_TAKEN, small.job.job_id),
    ]
    assert await store.keyed("k") == small.job.job_id


@pytest.mark.parametrize("kind", [one_shot, recurring])
async def test_an_edit_may_make_a_payload_larger_while_there_is_room(store: Store, kind: Any) -> None:
    quota = Quota(jobs=2, payload=20)
    how = {"due": HOUR} if kind is one_shot else {}
    one, two = [await kind(store, quota, payload=b"x" * 10, **how) for _ in range(2)]
    assert await outcomes(store, one, two) == [NEW, NEW]

    async def edit(new: NewJob, payload: bytes | None = None, **fields: Any) -> bool:
        snap = await store.snapshot(new.job.job_id)
        return await store.jobs.apply(await store.edited(snap, payload=payload, **fields), store.now, quota)

    before = await store.snapshot(one.job.job_id)
    with pytest.raises(QuotaExceeded, match="at most 20 are allowed, and this request adds 1") as refused:
        await edit(one, b"y" * 11, name="larger")
    assert refused.value.path == "payload"
    assert await store.snapshot(one.job.job_id) == before
    assert await edit(one, b"y" * 10, name="as large")
    assert await edit(two, b"y" * 6)
    assert await edit(one, b"z" * 14, name="larger")
    with pytest.raises(QuotaExceeded):
        await edit(one, b"z" * 15)
    assert (await store.snapshot(one.job.job_id)).job.payload == b"z" * 14
    at = Schedule(at=store.at(2 * HOUR)) if kind is recurring else store.every(HOUR)
    with pytest.raises(QuotaExceeded):
        await edit(one, b"z" * 15, schedule=at)
    assert await edit(one, b"z" * 14, schedule=at)
    assert not await has_room(store, quota)


async def test_an_edit_of_what_moved_on_is_no_question_of_room(store: Store) -> None:
    quota = Quota(payload=10)
    job = await recurring(store, quota, payload=b"x" * 10)
    await store.create(job)
    late = await store.edited(await store.snapshot(job.job.job_id), payload=b"y" * 20)
    assert await store.edit(job.job.job_id, name="another")

    assert await store.jobs.apply(late, store.now, quota) is False


async def test_who_is_over_a_quota_that_was_lowered_keeps_all_and_only_adds_nothing(store: Store) -> None:
    wide, narrow = Quota(jobs=5, payload=50), Quota(jobs=2, payload=20)
    new = [await recurring(store, wide, payload=b"x" * 10) for _ in range(5)]
    assert await outcomes(store, *new) == [NEW] * 5
    job_id: JobId = new[0].job.job_id

    assert not await has_room(store, narrow)
    snap = await store.snapshot(job_id)
    assert await store.jobs.apply(await store.edited(snap, name="other", payload=b"y" * 9), store.now, narrow)
    assert await store.pause(job_id)
    resumed = change.resume(await store.snapshot(job_id), CatchUp.SKIP, store.now)
    assert await store.jobs.apply(resumed, store.now, narrow)
    assert not await has_room(store, wide)  # an incomplete count is no bound
    await store.jobs.cancel(None, job_id, store.now)
    assert await has_room(store, wide, payload=b"x" * 10)
    assert not await has_room(store, wide)


async def test_who_has_no_limit_is_counted_for_who_has(store: Store) -> None:
    """An administrator's jobs, for a member's key of the same user: before and after the first count."""
    limit, none = Quota(jobs=3, payload=30), Quota()
    new = [await one_shot(store, none, payload=b"x" * 10) for _ in range(2)]
    assert await outcomes(store, *new) == [NEW, NEW]
    assert await has_room(store, limit)
    assert await outcomes(store, await one_shot(store, none), await one_shot(store, limit)) == [NEW, OVER]
    for job in new:
        await store.running.cancel(None, RunId(job.job.job_id), store.now)
    assert await outcomes(store, await one_shot(store, none), await one_shot(store, limit)) == [NEW, OVER]


async def test_what_was_stored_while_nobody_counted_is_counted_after_tending(store: Store) -> None:
    quota = Quota(jobs=4)
    assert await has_room(store, quota)
    await store.one_shots(3)

    store.advance(SECOND)
    await store.maintenance.maintain(store.now, Duration(30 * DAY))

    assert not await has_room(store, quota)
