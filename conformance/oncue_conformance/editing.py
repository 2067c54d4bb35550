"""Editing: changes every run that has not started, all at once, and only if no other caller was faster."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from oncue.domain.ids import RunId, occurrence_id
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Cursor, JobStatus, decode_spec
from oncue.domain.ledger import Outcome
from oncue.domain.policy import Overlap
from oncue.domain.run import State
from oncue.domain.schedule import Schedule
from oncue.engines.port import Planned
from oncue_conformance.store import Store, ids, job_of, only


async def test_a_planned_run_starts_with_the_new_definition(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, payload=b"1")
    await store.plan(ahead=3 * MINUTE)
    store.advance(MINUTE)  # one of them is due already

    assert await store.edit(job_id, payload=b"2", max_retries=9)
    snap = await store.snapshot(job_id)

    assert (snap.job.version, snap.job.payload, snap.job.spec.max_retries) == (2, b"2", 9)
    assert snap.job.updated_at == store.now
    assert len(snap.waiting) == 3
    worker = await store.worker()
    for _ in range(3):
        run = only(await store.claim_due(worker))
        assert (run.job_version, run.payload, decode_spec(run.spec).max_retries) == (2, b"2", 9)
        await store.succeed(worker, run)
        store.advance(MINUTE)
    await store.check_counts()


async def test_another_queue_is_another_class(store: Store) -> None:
    recurring, one_shot = await store.recurring(every=MINUTE), await store.one_shot(MINUTE)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)

    assert await store.edit(recurring, queue="fast")
    assert await store.edit(job_of(one_shot), queue="fast")
    fast = await store.class_of((await store.snapshot(recurring)).job.spec)

    assert {run.class_id for run in await store.running.peek([fast], Instant(0), store.now, 10)} == {fast}
    assert len(await store.claimable()) == 2


async def test_another_schedule_replans_what_was_planned(store: Store) -> None:
    job_id = await store.recurring(store.every(MINUTE))
    began = store.now
    await store.plan(ahead=4 * MINUTE)

    assert await store.edit(job_id, schedule=Schedule(every=Duration(2 * MINUTE), anchor=began))

    runs = await store.runs(job_id=job_id)
    assert sorted(run.nominal or 0 for run in runs) == [began + 2 * MINUTE, began + 4 * MINUTE]
    assert [(entry.first, entry.outcome, entry.reason) for entry in reversed(await store.ledger(job_id))] == [
        (began + MINUTE, Outcome.SKIPPED, "edited"),
        (began + 3 * MINUTE, Outcome.SKIPPED, "edited"),
    ]
    assert (await store.snapshot(job_id)).cursor == Cursor(
        Instant(began + 6 * MINUTE), Instant(began + 4 * MINUTE), planned=2
    )
    await store.check_counts()


async def test_what_runs_or_is_between_attempts_keeps_its_definition(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, payload=b"1", overlap=Overlap.ALLOW)
    worker = await store.worker()
    await store.plan(ahead=2 * MINUTE)
    store.advance(2 * MINUTE)
    await store.beat(worker)
    running, retrying = await store.claim_due(worker)
    await store.fail(worker, retrying)

    assert await store.edit(job_id, payload=b"2")
    assert await store.edit(job_id, payload=b"3")
    await store.fail(worker, running)
    store.advance(MINUTE)

    again = await store.claim_due(worker)
    assert {run.run_id: (run.job_version, run.payload) for run in again} == {
        running.run_id: (1, b"1"),
        retrying.run_id: (1, b"1"),
    }
    await store.succeed(worker, *again)
    assert (await store.run(running.run_id)).payload == b"1"
    assert (await store.snapshot(job_id)).job.payload == b"3"


async def test_of_two_edits_on_one_snapshot_the_first_counts(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    snap = await store.snapshot(job_id)
    one, two = await store.edited(snap, payload=b"1"), await store.edited(snap, payload=b"2")

    assert await store.jobs.apply(one, store.now)
    assert not await store.jobs.apply(two, store.now)
    assert not await store.jobs.apply(one, store.now)  # nor again

    assert ((await store.snapshot(job_id)).job.version, (await store.snapshot(job_id)).job.payload) == (2, b"1")


async def test_of_many_edits_at_once_each_counts_or_is_refused(store: Store) -> None:
    other = await store.second()
    job_id = await store.recurring(every=SECOND)
    await store.plan(ahead=10 * SECOND)

    done = await asyncio.gather(*((store, other)[i % 2].edit(job_id, payload=str(i).encode()) for i in range(20)))

    assert any(done)
    snap = await store.snapshot(job_id)
    assert snap.job.version == 1 + sum(done)
    assert len(snap.waiting) == 10
    await store.check_counts()


async def test_planning_meanwhile_refuses_an_edit(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    change = await store.edited(await store.snapshot(job_id), schedule=store.every(HOUR))
    await store.plan(ahead=MINUTE)
    before = await store.snapshot(job_id)

    assert not await store.jobs.apply(change, store.now)

    assert await store.snapshot(job_id) == before
    assert await store.ledger(job_id) == []


async def test_a_start_meanwhile_refuses_an_edit_whole(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    await store.plan(ahead=2 * MINUTE)
    store.advance(MINUTE)
    change = await store.edited(await store.snapshot(job_id), payload=b"2", schedule=store.every(HOUR))
    [running] = await store.claim_due(await store.worker())
    before = await store.snapshot(job_id)

    assert not await store.jobs.apply(change, store.now)

    assert await store.snapshot(job_id) == before
    assert (await store.run(running.run_id)).state is State.RUNNING
    await store.check_counts()


async def test_a_pause_or_cancel_meanwhile_refuses_an_edit(store: Store) -> None:
    paused, cancelled = await store.recurring(), await store.recurring()
    changes = [await store.edited(await store.snapshot(job_id), payload=b"2") for job_id in (paused, cancelled)]
    await store.pause(paused)
    await store.jobs.cancel(None, cancelled, store.now)

    assert [await store.jobs.apply(change, store.now) for change in changes] == [False, False]

    assert (await store.snapshot(paused)).job.status is JobStatus.PAUSED
    assert (await store.snapshot(cancelled)).job.status is JobStatus.CANCELLED


async def test_planning_does_not_make_a_definition_stale(store: Store) -> None:
    """The ETag is the version: raised by edits, never by planning."""
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=HOUR)

    assert (await store.snapshot(job_id)).job.version == 1


async def test_a_cancelled_tick_does_not_come_back_by_an_edit(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=2 * MINUTE)
    first = occurrence_id(job_id, store.at(MINUTE))
    await store.running.cancel(None, first, store.now)

    assert await store.edit(job_id, payload=b"2")

    assert await store.state(first) is State.CANCELLED
    assert len((await store.snapshot(job_id)).waiting) == 1
    await store.check_counts()


async def test_a_one_shot_moves_to_its_new_instant(store: Store) -> None:
    run_id = await store.one_shot(payload=b"1", group="g")

    assert await store.edit(job_of(run_id), payload=b"2", schedule=Schedule(at=store.at(HOUR)))
    assert await store.claimable() == []
    store.advance(HOUR)

    snap = await store.snapshot(job_of(run_id))
    assert (snap.job.version, snap.job.payload, snap.job.status) == (2, b"2", JobStatus.ACTIVE)
    run = await store.claim_one(await store.worker(), run_id)
    assert (run.payload, run.due, run.job_version) == (b"2", store.now, 2)
    await store.check_counts()


async def test_a_one_shot_that_started_meanwhile_is_not_edited(store: Store) -> None:
    run_id = await store.one_shot(payload=b"1")
    change = await store.edited(await store.snapshot(job_of(run_id)), payload=b"2")
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)

    assert not await store.jobs.apply(change, store.now)
    await store.fail(worker, run)
    assert not await store.jobs.apply(change, store.now)

    assert (await store.snapshot(job_of(run_id))).job.payload == b"1"


async def test_a_one_shot_edited_meanwhile_is_not_edited_on_top(store: Store) -> None:
    run_id = await store.one_shot(HOUR, payload=b"1")
    snap = await store.snapshot(job_of(run_id))
    one, two = await store.edited(snap, payload=b"2"), await store.edited(snap, payload=b"3")

    assert await store.jobs.apply(one, store.now)
    assert not await store.jobs.apply(two, store.now)

    assert (await store.snapshot(job_of(run_id))).job.payload == b"2"


async def test_a_recurring_job_becomes_a_one_shot(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, payload=b"1")
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    worker = await store.worker()
    going = only(await store.claim_due(worker))

    assert await store.edit(job_id, schedule=Schedule(at=store.at(HOUR)), payload=b"2")

    snap = await store.snapshot(job_id)
    assert (snap.cursor, snap.job.version, snap.job.payload) == (None, 2, b"2")
    assert await store.plan(ahead=2 * HOUR) == Planned()
    await store.fail(worker, going)
    store.advance(MINUTE)
    await store.beat(worker)
    again = await store.claim_one(worker, going.run_id)
    assert (again.payload, again.job_version) == (b"1", 1)  # a run that had started continues as it was
    await store.succeed(worker, again)
    store.advance(HOUR)
    only_run = await store.claim_one(worker, RunId(job_id))
    assert only_run.payload == b"2"
    await store.succeed(worker, only_run)
    assert (await store.snapshot(job_id)).job.status is JobStatus.FINISHED
    await store.check_counts()


async def test_a_one_shot_becomes_recurring(store: Store) -> None:
    run_id = await store.one_shot(HOUR, payload=b"1")

    assert await store.edit(job_of(run_id), schedule=store.every(MINUTE))

    snap = await store.snapshot(job_of(run_id))
    assert (snap.cursor, snap.job.version) == (Cursor(store.at(MINUTE), floor=store.now), 2)
    await store.plan(ahead=2 * MINUTE)
    runs = await store.runs(job_id=job_of(run_id))
    assert run_id not in ids(runs)
    assert len(runs) == 2
    await store.check_counts()


async def test_a_planned_runs_lane_moves_with_it(store: Store) -> None:
    """Edited out of a group, the run neither waits for the group nor blocks it."""
    worker = await store.worker()
    busy = await store.claim_one(worker, await store.one_shot(-SECOND, group="g"))
    job_id = await store.recurring(every=MINUTE, group="g")
    await store.plan(ahead=MINUTE)
    follower = await store.one_shot(2 * MINUTE, group="g")
    store.advance(2 * MINUTE)
    await store.beat(worker)

    assert await store.edit(job_id, group=None)

    planned = occurrence_id(job_id, store.at(-MINUTE))
    assert await store.claimable() == [planned]
    await store.succeed(worker, busy)
    assert await store.claimable() == [planned, follower]


async def test_an_edit_is_guarded_by_the_status_it_was_decided_on(store: Store) -> None:
    job_id = await store.recurring()
    change = await store.edited(await store.snapshot(job_id), payload=b"2")

    assert not await store.jobs.apply(replace(change, expect_status=JobStatus.PAUSED), store.now)
    assert not await store.jobs.apply(replace(change, expect_version=7), store.now)
    assert not await store.jobs.apply(replace(change, expect_floor=store.at(-1)), store.now)
    assert await store.jobs.apply(replace(change, expect_floor=None), store.now)


async def test_a_change_to_a_job_that_does_not_exist_is_refused(store: Store) -> None:
    new = await store.new_recurring()
    await store.create(new)
    change = await store.edited(await store.snapshot(new.job.job_id), payload=b"2")
    nobody = (await store.new_recurring()).job.job_id

    assert not await store.jobs.apply(replace(change, job_id=nobody), store.now)


async def test_past_definitions_are_listed_newest_first(store: Store) -> None:
    job_id = await store.recurring(store.every(HOUR), name="n1", payload=b"1")
    times = []
    for n in range(2, 6):
        times.append(store.advance(MINUTE))
        assert await store.edit(job_id, name=f"n{n}", payload=b"%d" % n)

    found = await store.lists.versions(store.uid, job_id, below=5)

    assert [(one.version, one.spec.name, one.payload) for one in found] == [
        (4, "n4", b"4"),
        (3, "n3", b"3"),
        (2, "n2", b"2"),
        (1, "n1", b"1"),
    ]
    assert [one.until for one in found] == times[::-1]
    assert [one.version for one in await store.lists.versions(None, job_id, below=4, limit=2)] == [3, 2]
    assert await store.lists.versions(store.stranger, job_id, below=5) == []
    assert await store.lists.versions(None, job_id, below=1) == []
