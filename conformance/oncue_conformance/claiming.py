"""Peeking ahead: a read that shows what could be claimed, and reserves nothing.

Claiming: at the due instant, once, by a live worker, and with a token that rises.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain

import msgspec

from oncue.domain.ids import RunId, WorkerId, occurrence_id
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.job import Spec, decode_spec
from oncue.domain.run import State, Trigger
from oncue.domain.schedule import Schedule
from oncue_conformance.dead_letters import requeued
from oncue_conformance.store import LEASE, LONG_AGO, Store, ids, job_of, only

# -------------------------------------------------------------------------------------------------------- peeking ahead


async def test_the_window_is_open_before_and_closed_at_its_end(store: Store) -> None:
    runs = await store.one_shots(5, apart=SECOND)
    classes = await store.class_ids()

    found = await store.running.peek(classes, store.at(SECOND), store.at(3 * SECOND), 100)

    assert [run.run_id for run in found] == runs[2:4]
    assert [run.due for run in found] == [store.at(2 * SECOND), store.at(3 * SECOND)]
    assert {(run.class_id, run.uid) for run in found} == {(classes[0], store.uid)}


async def test_the_earliest_come_first_whatever_their_class(store: Store) -> None:
    order = store.chance.sample(range(30), 30)
    created = {due: await store.one_shot(-due * SECOND, task=f"task{due % 3}") for due in order}

    assert await store.claimable() == [created[due] for due in range(29, -1, -1)]


async def test_the_limit_is_for_each_class(store: Store) -> None:
    a = await store.one_shots(5, apart=1, task="a")
    b = await store.one_shots(3, apart=1, task="b")
    store.advance(SECOND)

    assert set(await store.claimable(limit=2)) == {*a[:2], *b[:2]}


async def test_only_the_classes_asked_for_are_seen(store: Store) -> None:
    a = await store.new_one_shot(task="a")
    await store.create(a, await store.new_one_shot(task="b"))

    found = await store.running.peek([a.class_id], LONG_AGO, store.now, 10)

    assert only(found).run_id == a.job.job_id
    assert await store.running.peek([], LONG_AGO, store.now, 10) == []


async def test_peeking_reserves_nothing(store: Store) -> None:
    run_id = await store.one_shot()
    other = await store.second()

    assert await store.claimable() == [run_id]
    assert await other.claimable() == [run_id]
    assert await store.claim(await store.worker(), run_id) != []


async def test_what_cannot_be_claimed_is_not_seen(store: Store) -> None:
    """Held by a lane, by a gate, by a pause; running; ended."""
    heads = [await store.one_shot(group="g"), await store.one_shot(gate=("c", 1))]
    await store.one_shots(3, group="g", due=1, apart=1)
    await store.one_shots(3, gate=("c", 1), due=1, apart=1)
    paused, running, ended = await store.one_shots(3, due=1)
    store.advance(SECOND)
    await store.pause((await store.run(paused)).job_id)
    worker = await store.worker()
    await store.claim_one(worker, running)
    await store.succeed(worker, await store.claim_one(worker, ended))

    assert set(await store.claimable()) == set(heads)


async def test_a_retry_is_seen_from_its_own_due_time_on(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, run_id))
    due = (await store.run(run_id)).due
    classes = await store.class_ids()

    assert due > store.now
    assert await store.claimable() == []
    [seen] = await store.running.peek(classes, store.now, store.at(HOUR), 10)
    assert (seen.run_id, seen.due) == (run_id, due)


# ------------------------------------------------------------------------------------------------------------- claiming


async def test_nothing_is_claimed_before_its_instant(store: Store) -> None:
    run_id = await store.one_shot(due=SECOND)
    worker = await store.worker()

    store.advance(SECOND - 1)
    assert await store.claim(worker, run_id) == []
    store.advance(1)
    assert ids(await store.claim(worker, run_id)) == [run_id]


async def test_a_claim_brings_all_that_starting_needs(store: Store) -> None:
    run_id = await store.one_shot(due=-SECOND, payload=b"[1]", max_retries=5, group="g", gate=("c", 2))
    spec = (await store.snapshot(job_of(run_id))).job.spec

    run = await store.claim_one(await store.worker(), run_id)

    assert (run.run_id, run.job_id, run.uid, run.class_id) == (
        run_id,
        job_of(run_id),
        store.uid,
        await store.class_of(spec),
    )
    assert (run.due, run.wanted, run.nominal) == (store.at(-SECOND),) * 3
    assert (run.token, run.failures, run.losses, run.attempt) == (1, 0, 0, 1)
    assert (run.attempts, run.checkpoint, run.parent, run.trigger) == (None, None, None, Trigger.SCHEDULE)
    lanes = spec.lanes(store.uid, job_of(run_id))
    assert (run.lane, run.gate) == (lanes.lane, lanes.gate)
    assert (decode_spec(run.spec), run.payload, run.inline, run.job_version) == (spec, b"[1]", True, 1)


async def test_a_run_of_a_recurring_job_brings_its_jobs_definition(store: Store) -> None:
    schedule = store.every(MINUTE)
    job_id = await store.recurring(schedule, payload=b"[1]")
    store.advance(MINUTE)
    await store.plan()

    [run] = await store.claim_due(await store.worker())

    assert (run.job_id, run.nominal, run.due) == (job_id, store.now, store.now)
    assert decode_spec(run.spec) == Spec(task="noop", schedule=schedule)
    assert (run.payload, run.inline, run.job_version) == (b"[1]", False, 1)


async def test_the_claimed_run_is_running_for_its_worker(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.claim_one(worker, run_id)

    run = await store.run(run_id)

    assert (run.state, run.worker_id, run.token, run.ended_at) == (State.RUNNING, worker, 1, None)


async def test_a_run_is_claimed_once(store: Store) -> None:
    run_id = await store.one_shot()
    one, two = await store.worker(), await store.worker()

    assert ids(await store.claim(one, run_id, run_id)) == [run_id]
    assert await store.claim(one, run_id) == []
    assert await store.claim(two, run_id) == []


async def test_of_many_claimers_at_once_one_gets_each_run(store: Store) -> None:
    """P4: two processes, four workers, each tries to claim all of the runs."""
    stores = [store, await store.second()]
    runs = await store.one_shots(200)
    workers = [await store.worker() for _ in range(4)]

    async def greedy(n: int) -> list[RunId]:
        wanted, got = store.chance.sample(runs, len(runs)), []
        for i in range(0, len(wanted), 9):
            got += ids(await stores[n % 2].claim(workers[n], *wanted[i : i + 9]))
        return got

    claimed = await asyncio.gather(*(greedy(n) for n in range(4)))

    twice = [run_id for run_id, n in Counter(chain(*claimed)).items() if n > 1]
    assert twice == []
    assert await store.claimable() == []  # a run that one claim skipped because of another was claimed by the other
    for worker, got in zip(workers, claimed, strict=True):
        assert set(ids(await store.running.held_by(worker, runs))) == set(got)


async def test_the_token_rises_with_every_claim(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()

    first = await store.claim_one(worker, run_id)
    await store.hand_back(worker, first)
    second = await store.claim_one(worker, run_id)
    await store.fail(worker, second)
    store.advance(MINUTE)
    await store.beat(worker)
    third = await store.claim_one(worker, run_id)
    await store.lose(worker)
    await store.recover_runs()
    fourth = await store.claim_one(await store.worker(), run_id)

    assert [run.token for run in (first, second, third, fourth)] == [1, 2, 3, 4]


async def test_whoever_was_never_registered_gets_nothing(store: Store) -> None:
    run_id = await store.one_shot()

    assert await store.claim(WorkerId(store.new_id()), run_id) == []
    assert await store.claimable() == [run_id]


async def test_a_buried_worker_gets_nothing(store: Store) -> None:
    """P4: the worker has not noticed, and its run may belong to another one soon."""
    worker = await store.worker()
    await store.lose(worker)
    run_id = await store.one_shot()

    assert await store.claim(worker, run_id) == []
    assert await store.claimable() == [run_id]


async def test_a_worker_that_left_gets_nothing(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.fleet.leave(worker)

    assert await store.claim(worker, run_id) == []


async def test_a_late_worker_that_nobody_buried_still_claims(store: Store) -> None:
    """Only `expire_workers` declares a worker dead: lateness alone must not, or clocks would decide."""
    worker = await store.worker()
    run_id = await store.one_shot(due=10 * LEASE)
    store.advance(10 * LEASE)

    assert ids(await store.claim(worker, run_id)) == [run_id]


async def test_nothing_of_a_paused_queue_is_claimed(store: Store) -> None:
    slow, fast = await store.one_shot(queue="slow"), await store.one_shot(queue="fast")
    worker = await store.worker()

    await store.fleet.pause_queue("slow", store.now)
    assert ids(await store.claim(worker, slow, fast)) == [fast]
    await store.fleet.resume_queue("slow", store.now)
    assert ids(await store.claim(worker, slow)) == [slow]


async def test_what_has_expired_is_not_claimed(store: Store) -> None:
    """Whether or not another caller has already ended it."""
    in_time, too_late = await store.one_shots(2, start_within=MINUTE)
    worker = await store.worker()

    store.advance(MINUTE)
    assert ids(await store.claim(worker, in_time)) == [in_time]
    store.advance(1)
    assert await store.claim(worker, too_late) == []


async def test_what_was_tried_in_time_may_be_retried_later(store: Store) -> None:
    run_id = await store.one_shot(start_within=SECOND)
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, run_id))
    store.advance(HOUR)

    assert ids(await store.claim(worker, run_id)) == [run_id]


async def test_what_is_held_cancelled_or_unknown_is_left_out(store: Store) -> None:
    head, held = await store.one_shots(2, group="g", due=-SECOND, apart=1)
    cancelled, paused, fine = await store.one_shots(3)
    await store.running.cancel(None, cancelled, store.now)
    await store.pause(job_of(paused))
    worker = await store.worker()

    got = await store.claim(worker, RunId(store.new_id()), cancelled, held, paused, fine, head)

    assert set(ids(got)) == {head, fine}
    assert await store.claim(worker) == []


async def test_a_worker_is_told_what_it_holds(store: Store) -> None:
    """After a claim whose answer was lost, a repeat gets nothing: `held_by` finds the runs."""
    mine, also, theirs, waiting, unasked = await store.one_shots(5)
    one, two = await store.worker(), await store.worker()
    claimed = await store.claim(one, mine, also, unasked)
    await store.claim(two, theirs)
    await store.hand_back(one, await store.claim_one(one, waiting))
    done = await store.one_shot()
    await store.succeed(one, await store.claim_one(one, done))

    held = await store.running.held_by(one, [mine, also, theirs, waiting, done])

    assert sorted(ids(held)) == sorted([mine, also])
    assert all(run in claimed for run in held)
    assert await store.running.held_by(one, []) == []


async def test_what_is_held_is_shown_as_the_claim_gave_it(store: Store) -> None:
    """With all that a start or a return to the queue needs: retried, edited, in lanes, requeued, of any kind of job."""
    worker = await store.worker()
    retried = await store.one_shot(payload=b"[1]", group="g", gate=("c", 2), name="one")
    await store.fail(worker, await store.claim_one(worker, retried))
    dead = await store.one_shot(payload=b"[2]", max_retries=0)
    await store.fail(worker, await store.claim_one(worker, dead))
    again = await requeued(store, dead)
    await store.history.requeue([again], store.now)
    job_id = await store.recurring(every=MINUTE, payload=b"[3]", max_retries=7)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    await store.beat(worker)
    claimed = await store.claim_due(worker)
    assert {run.run_id for run in claimed} == {retried, again.run_id, occurrence_id(job_id, store.now)}

    await store.edit(job_id, payload=b"[4]", max_retries=1)  # a run that has started continues as it was planned

    held = await store.running.held_by(worker, ids(claimed))
    assert sorted(held, key=lambda run: run.run_id) == sorted(claimed, key=lambda run: run.run_id)


async def test_what_is_held_carries_its_newest_checkpoint(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    await store.running.save(worker, run, checkpoint=b"half")

    assert await store.running.held_by(worker, [run.run_id]) == [msgspec.structs.replace(run, checkpoint=b"half")]


async def test_a_buried_worker_holds_nothing(store: Store) -> None:
    """Although its runs were not recovered yet: it must not start a run that soon belongs to another worker."""
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    await store.lose(worker)

    assert await store.running.held_by(worker, [run.run_id]) == []


async def test_far_dates_are_only_large_numbers(store: Store) -> None:
    """Nothing overflows, nothing starts at once: 2³¹ ms are only 24 days."""
    far = await store.one_shot(due=3_000 * 24 * HOUR)
    worker = await store.worker()

    assert await store.claim(worker, far) == []
    store.advance(3_000 * 24 * HOUR)
    assert ids(await store.claim(worker, far)) == [far]
    assert (await store.snapshot(job_of(far))).job.spec.schedule == Schedule(at=store.now)


async def test_a_run_starts_when_it_is_claimed_whoever_tells_it(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    claimed_at = store.now
    store.advance(SECOND)

    [held] = await store.running.held_by(worker, [run_id])

    assert (run.claimed_at, held.claimed_at, (await store.run(run_id)).started_at) == (claimed_at,) * 3
