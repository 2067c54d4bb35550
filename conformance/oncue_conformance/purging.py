"""Purging: deletes everything of a job that has ended, in small steps, and nothing of other jobs.

Forgetting a user: what the database does of it, in bites, and repeated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from oncue.domain import change
from oncue.domain.ids import NOTICES, JobId, KeyId, RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.keys import number_name
from oncue.domain.notices import trial_notice
from oncue.domain.notify import Entry, Event, NotifyDefault, Webhook
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.reference import Kind
from oncue.domain.run import State
from oncue.engines.port import (
    AuditEntry,
    Cancelled,
    Count,
    Created,
    Forgotten,
    IdempotencyKey,
    JobQuery,
    Key,
    Revoked,
    Role,
    StoredObject,
)
from oncue_conformance.dead_letters import letters, requeued
from oncue_conformance.store import LIVE, Store, everything, ids, job_of, only

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


# ---------------------------------------------------------------------------------------------------- forgetting a user


async def add_key(store: Store, user_id: str, role: Role = Role.MEMBER) -> Key:
    uid = await store.accounts.user(user_id, store.now)
    key = Key(KeyId(store.new_id()), store.new_id().bytes, uid, user_id, role, store.now)
    await store.accounts.add_key(key)
    return key


async def test_a_user_who_is_to_be_forgotten_has_neither_key_nor_name(store: Store) -> None:
    key, other = await add_key(store, "ada"), await add_key(store, "bob", Role.ADMIN)

    assert await store.forgetting.begin("ada", store.now) == store.uid

    found = await store.accounts.key(key.key_hash)
    assert found is not None
    assert (found.revoked_at, found.user_id) == (store.now, number_name(store.uid))
    assert await store.accounts.find("ada") is None
    kept = await store.accounts.key(other.key_hash)
    assert kept is not None
    assert kept.revoked_at is None
    assert only(await store.forgetting.pending()) == Forgotten(store.uid, "ada", store.now)
    began = store.now
    store.advance(SECOND)
    assert await store.forgetting.begin("ada", store.now) == store.uid  # a repeat
    assert only(await store.forgetting.pending()).asked_at == began
    assert await store.accounts.user("ada", store.now) != store.uid  # a namesake is another user


async def test_who_is_unknown_or_has_the_last_admin_key_is_not_forgotten(store: Store) -> None:
    await add_key(store, "ada", Role.ADMIN)
    await add_key(store, "bob")

    assert await store.forgetting.begin("eve", store.now) is Revoked.UNKNOWN
    assert await store.forgetting.begin("ada", store.now) is Revoked.LAST_ADMIN
    assert await store.forgetting.pending() == []
    assert await store.accounts.find("ada") == store.uid
    await add_key(store, "bob", Role.ADMIN)
    assert await store.forgetting.begin("ada", store.now) == store.uid


async def test_the_objects_of_who_is_forgotten_are_looked_at_in_bites(store: Store) -> None:
    """Catches one statement for all of them: one user may have millions."""
    some = [StoredObject(f"v1/payload/1/{n}", store.uid, store.new_id(), Kind.PAYLOAD, 1) for n in range(5)]
    await store.objects.add(some, store.now)
    await store.forgetting.begin("ada", store.now)

    for looked_at in (2, 4, 5):
        assert await store.forgetting.erase(store.uid, 2) == 2
        assert len((await store.objects.look(store.now)).unused) == looked_at


async def test_what_is_left_of_a_user_is_erased_in_bites_and_of_nobody_else(store: Store) -> None:
    keys = [IdempotencyKey(store.new_id().bytes, b"body") for _ in range(5)]
    for uid in (store.uid, store.stranger):
        for key in keys:
            await store.idempotency.reserve(uid, key, store.new_id())
    one = StoredObject("v1/payload/1/x", store.uid, store.new_id(), Kind.PAYLOAD, 1)
    await store.objects.add([one], store.now)
    await store.forgetting.begin("ada", store.now)

    assert await store.forgetting.erase(store.uid, 3) > 0
    assert await store.forgetting.erase(store.uid, 3) > 0
    assert await store.forgetting.erase(store.uid, 3) == 1, "its object is still there"
    assert (await store.objects.look(store.now)).unused == (one.key,)
    await store.objects.forget([one.key])
    assert await store.forgetting.erase(store.uid, 3) == 0
    again = [(await store.idempotency.reserve(store.stranger, key, store.new_id())).outcome for key in keys]
    assert set(again) == {Created.REPEATED}
    again = [(await store.idempotency.reserve(store.uid, key, store.new_id())).outcome for key in keys]
    assert set(again) == {Created.NEW}


async def test_of_a_user_no_notice_and_no_wish_to_be_told_is_left(store: Store) -> None:
    entry, told = Entry((Event.FAILED,), webhook=Webhook("https://example.org/hook")), []
    for uid in (store.uid, store.stranger):
        await store.notices.put_default(uid, NotifyDefault((entry,)), store.now)
        await store.notices.rotate(uid, b"url", store.now)
        await store.notices.target_failed(uid, "target", "shown", 5, store.now)
        notices = [trial_notice(uid, entry, RunId(store.new_id()), store.now) for _ in range(3)]
        await store.notices.add(notices, store.now)
        for notice in notices:
            await store.history.append_log(notice.run_id, 0, b"what the receiver said", store.now)
            told.append((notice.run_id, uid))
            await store.running.cancel(None, notice.run_id, store.now)
    await store.forgetting.begin("ada", store.now)

    while await store.forgetting.erase(store.uid, 2):
        pass

    for uid, left in ((store.uid, False), (store.stranger, True)):
        assert bool((await store.notices.default(uid)).entries) is left
        assert bool(await store.notices.targets(uid)) is left
        assert bool((await store.notices.generation(uid, b"url")).number) is left
        assert len(await store.runs(uid=uid, job_id=NOTICES)) == 3 * left
        logs = [await store.history.read_log(run_id) for run_id, of in told if of == uid]
        assert [len(log) for log in logs] == [left] * 3


async def test_the_audit_log_keeps_what_was_done_and_a_number(store: Store) -> None:
    about = b'{"user_id":"ada","role":"member"}'
    entries = [
        AuditEntry(store.at(1), store.uid, None, "job.create", store.new_id(), None, "10.0.0.1"),
        AuditEntry(store.at(2), store.stranger, None, "key.create", None, about, "10.0.0.2"),
        AuditEntry(store.at(3), store.stranger, None, "queue.pause", None, b'{"queue":"ada"}', "10.0.0.2"),
        AuditEntry(store.at(4), store.uid, None, "job.edit", None, b'{"a":1}', "10.0.0.1"),
        AuditEntry(store.at(5), store.stranger, None, "bulk.start", None, b'{"filter":{"user_id":"ada"}}', "10.0.0.2"),
    ]
    await store.audit.record(entries)
    await store.forgetting.begin("ada", store.now)

    steps, forgotten = 0, await store.forgetting.redact(only(await store.forgetting.pending()), 1)
    while forgotten is not None:
        assert only(await store.forgetting.pending()) == forgotten, "where it goes on is stored"
        steps, forgotten = steps + 1, await store.forgetting.redact(forgotten, 1)

    found = (await everything(lambda after: store.audit.entries(None, 10, after)))[::-1]
    assert steps == len(entries)
    assert [one.action for one in found] == [one.action for one in entries]
    assert [one.address for one in found] == [None, "10.0.0.2", "10.0.0.2", None, "10.0.0.2"]
    name = number_name(store.uid).encode()
    number, filtered = b'{"user_id":"%s","role":"member"}' % name, b'{"filter":{"user_id":"%s"}}' % name
    assert [one.detail for one in found] == [None, number, b'{"queue":"ada"}', b'{"a":1}', filtered]
    assert [one.uid for one in found] == [one.uid for one in entries]


async def test_at_the_end_nothing_but_a_number_is_left(store: Store) -> None:
    key = await add_key(store, "ada")
    await store.forgetting.begin("ada", store.now)

    for _ in range(2):
        await store.forgetting.finish(store.uid)

    assert await store.forgetting.pending() == []
    assert await store.accounts.key(key.key_hash) is None
    assert await store.accounts.names([store.uid]) == {store.uid: number_name(store.uid)}
