"""Creating jobs: stored completely, once per idempotency key, each alone or all together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import pytest

from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.job import Cursor, JobStatus, WaitingRun
from oncue.domain.placement import Priority, Resources
from oncue.domain.policy import OnLeftBehind, OnLost, Retry
from oncue.domain.run import State
from oncue.engines.port import Count, Created, Creation, IdempotencyKey, NewJob
from oncue_conformance.store import Store, job_of, only


def idempotency_key(key: str, body: str = "body") -> IdempotencyKey:
    return IdempotencyKey(key.encode().ljust(32, b"."), body.encode().ljust(32, b"."))


def outcomes(answers: Sequence[Creation]) -> list[Created]:
    return [answer.outcome for answer in answers]


async def test_a_one_shot_is_stored_as_it_was_defined(store: Store) -> None:
    new = await store.new_one_shot(
        5 * SECOND,
        payload=b'{"a": 1}',
        name="cancel_requests",
        key="k",
        queue="slow",
        priority=Priority.LOW,
        tags=("x", "y"),
        max_retries=7,
        retry=Retry(backoff=Duration(3 * SECOND), factor=1.5),
        timeout=Duration(2 * HOUR),
        start_within=Duration(MINUTE),
        on_lost=OnLost.DEAD,
        on_left_behind=OnLeftBehind.RELEASE,
        group="g",
        gate=("c", 3),
        resources=Resources(cpu_milli=500, memory_mb=64),
        labels=("gpu",),
    )
    await store.create(new)

    snap = await store.snapshot(new.job.job_id)
    run = only(snap.waiting)

    assert snap.job == new.job
    assert (snap.class_id, snap.cursor, snap.going, snap.started) == (new.class_id, None, (), False)
    assert run == WaitingRun(RunId(new.job.job_id), store.at(5 * SECOND), store.at(5 * SECOND), scheduled=True)


async def test_a_recurring_job_is_stored_with_its_cursor(store: Store) -> None:
    new = await store.new_recurring(every=MINUTE, payload=b"[1]", tags=("x",))
    await store.create(new)

    snap = await store.snapshot(new.job.job_id)

    assert snap.job == new.job
    assert snap.cursor == Cursor(store.at(MINUTE), floor=store.now)
    assert (snap.waiting, snap.going, snap.started) == ((), (), False)


@pytest.mark.parametrize("payload", [None, b"null", b"{}", '"ä→\u2028"'.encode(), b"[" + b"1," * 100_000 + b"1]"])
async def test_a_payload_comes_back_to_the_byte(store: Store, payload: bytes | None) -> None:
    run_id = await store.one_shot(payload=payload)
    worker = await store.worker()

    assert (await store.snapshot(job_of(run_id))).job.payload == payload
    assert (await store.claim_one(worker, run_id)).payload == payload


async def test_nothing_to_create_is_no_problem(store: Store) -> None:
    assert await store.create() == []
    assert await store.create(whole=True) == []


async def test_a_batch_is_answered_in_order_and_stored_completely(store: Store) -> None:
    new = [await store.new_one_shot(i) for i in range(1_000)]
    new[500] = await store.new_recurring()
    store.chance.shuffle(new)

    answers = await store.create(*new)
    store.advance(SECOND)

    assert answers == [Creation(Created.NEW, one.job.job_id) for one in new]
    assert len(await store.claimable()) == 999


async def test_the_same_key_and_body_again_is_the_same_job(store: Store) -> None:
    first = await store.new_one_shot(idempotency_key=idempotency_key("k"))
    second = await store.new_one_shot(idempotency_key=idempotency_key("k"))

    assert await store.create(first) == [Creation(Created.NEW, first.job.job_id)]
    assert await store.create(second) == [Creation(Created.REPEATED, first.job.job_id)]

    assert await store.jobs.read(None, second.job.job_id) is None
    assert await store.claimable() == [first.job.job_id]


async def test_the_same_key_is_the_same_job_after_it_has_run(store: Store) -> None:
    first = await store.new_one_shot(idempotency_key=idempotency_key("k"))
    await store.create(first)
    worker = await store.worker()
    await store.succeed(worker, *await store.claim_due(worker))

    assert await store.create(await store.new_one_shot(idempotency_key=idempotency_key("k"))) == [
        Creation(Created.REPEATED, first.job.job_id)
    ]
    assert await store.claimable() == []


async def test_the_same_key_with_another_body_stores_nothing(store: Store) -> None:
    await store.create(await store.new_one_shot(HOUR, idempotency_key=idempotency_key("k")))
    before, refused, after = (
        await store.new_one_shot(),
        await store.new_one_shot(idempotency_key=idempotency_key("k", "another body")),
        await store.new_recurring(),
    )

    answers = await store.create(before, refused, after)

    assert outcomes(answers) == [Created.NEW, Created.KEY_REUSED, Created.NEW]
    assert await store.jobs.read(None, refused.job.job_id) is None
    assert await store.jobs.read(None, after.job.job_id) is not None
    assert await store.claimable() == [before.job.job_id]


async def test_another_users_key_is_another_key(store: Store) -> None:
    """Otherwise a user learns another's job ids by guessing keys."""
    mine = await store.new_one_shot(idempotency_key=idempotency_key("k"))
    theirs = await store.new_one_shot(uid=store.stranger, idempotency_key=idempotency_key("k"))

    assert outcomes(await store.create(mine, theirs)) == [Created.NEW, Created.NEW]


async def test_a_key_twice_in_one_batch_makes_one_job(store: Store) -> None:
    new = [
        await store.new_one_shot(idempotency_key=idempotency_key("k")),
        await store.new_one_shot(idempotency_key=idempotency_key("k")),
        await store.new_one_shot(idempotency_key=idempotency_key("k", "another body")),
    ]

    answers = await store.create(*new)

    assert outcomes(answers) == [Created.NEW, Created.REPEATED, Created.KEY_REUSED]
    assert answers[1].job_id == new[0].job.job_id
    assert await store.claimable() == [new[0].job.job_id]


@pytest.mark.parametrize("recurring", [False, True])
async def test_without_a_key_the_job_id_makes_a_repeat_harmless(store: Store, recurring: bool) -> None:
    new = await (store.new_recurring() if recurring else store.new_one_shot(HOUR))

    assert outcomes(await store.create(new)) == [Created.NEW]
    assert await store.create(new) == [Creation(Created.REPEATED, new.job.job_id)]
    assert (await store.counts())[Count.CREATED] == (0 if recurring else 1)


@pytest.mark.parametrize("so_far", [State.RUNNING, State.SUCCEEDED, State.DEAD, State.CANCELLED])
async def test_a_late_repeat_does_not_run_it_again(store: Store, so_far: State) -> None:
    """The answer was lost; by the time the caller retries, the job has started or ended."""
    new = await store.new_one_shot()
    await store.create(new)
    worker = await store.worker()
    if so_far is State.CANCELLED:
        await store.jobs.cancel(None, new.job.job_id, store.now)
    else:
        [run] = await store.claim_due(worker)
    if so_far is State.SUCCEEDED:
        await store.succeed(worker, run)
    elif so_far is State.DEAD:
        await store.fail(worker, run, retry=False)

    assert await store.create(new) == [Creation(Created.REPEATED, new.job.job_id)]
    assert await store.claimable() == []


@pytest.mark.parametrize("refused", [Created.REPEATED, Created.KEY_REUSED])
async def test_whole_stores_nothing_when_one_is_refused(store: Store, refused: Created) -> None:
    await store.create(await store.new_one_shot(HOUR, idempotency_key=idempotency_key("k")))
    body = "body" if refused is Created.REPEATED else "another body"
    new = [
        await store.new_one_shot(group="g"),
        await store.new_one_shot(idempotency_key=idempotency_key("k", body)),
        await store.new_recurring(),
        await store.new_one_shot(idempotency_key=idempotency_key("fresh")),
    ]

    answers = await store.create(*new, whole=True)

    assert answers[1].outcome is refused
    for one in new:
        assert await store.jobs.read(None, one.job.job_id) is None
    assert await store.claimable() == []
    assert outcomes(await store.create(await store.new_one_shot(idempotency_key=idempotency_key("fresh")))) == [
        Created.NEW
    ]
    await store.check_counts()


async def test_whole_stores_all_when_none_is_refused(store: Store) -> None:
    most = min(100, store.engine.capabilities.atomic_batch)
    new = [await store.new_one_shot(idempotency_key=idempotency_key(f"k{i}")) for i in range(most)]

    assert set(outcomes(await store.create(*new, whole=True))) == {Created.NEW}
    assert len(await store.claimable()) == len(new)


async def test_n_identical_creates_at_once_make_one_job(store: Store) -> None:
    """P8, from two processes."""
    stores = [store, await store.second()]
    new = [await store.new_one_shot(idempotency_key=idempotency_key("k")) for _ in range(30)]

    answers = await asyncio.gather(*(stores[i % 2].create(one) for i, one in enumerate(new)))

    assert Counter(outcomes([only(answer) for answer in answers])) == {Created.NEW: 1, Created.REPEATED: 29}
    assert {only(answer).job_id for answer in answers} == set(await store.claimable())
    assert (await store.counts())[Count.CREATED] == 1


async def test_keys_in_opposite_order_do_not_deadlock(store: Store) -> None:
    stores = [store, await store.second()]
    keys = [idempotency_key(f"k{i}") for i in range(25)]

    async def creator(n: int) -> list[Creation]:
        answers = []
        for _ in range(4):
            wanted = store.chance.sample(keys, 15)
            answers += await stores[n % 2].create(*[await store.new_one_shot(idempotency_key=key) for key in wanted])
        return answers

    answers = list(chain(*await asyncio.gather(*(creator(n) for n in range(8)))))

    winners = {answer.job_id for answer in answers if answer.outcome is Created.NEW}
    assert len(winners) == len({answer.job_id for answer in answers}) <= len(keys)
    assert set(await store.claimable()) == winners


async def test_of_two_whole_batches_with_the_same_keys_one_is_stored(store: Store) -> None:
    """In opposite order and at once: never half of each."""
    other = await store.second()
    for n in range(10):
        keys = [idempotency_key(f"{n}-{i}") for i in range(6)]
        batches = [
            [await store.new_one_shot(n * DAY, idempotency_key=key) for key in keys],
            [await store.new_one_shot(n * DAY, idempotency_key=key) for key in reversed(keys)],
        ]
        await asyncio.gather(store.create(*batches[0], whole=True), other.create(*batches[1], whole=True))

        stored = [[await is_stored(store, one) for one in batch] for batch in batches]
        assert sorted(stored) == [[False] * 6, [True] * 6]


async def is_stored(store: Store, new: NewJob) -> bool:
    return await store.jobs.read(None, new.job.job_id) is not None


async def test_a_new_job_is_active_at_version_one(store: Store) -> None:
    for job_id in (job_of(await store.one_shot(HOUR)), await store.recurring()):
        job = (await store.snapshot(job_id)).job
        assert (job.status, job.version) == (JobStatus.ACTIVE, 1)
