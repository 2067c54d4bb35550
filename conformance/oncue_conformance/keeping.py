"""What is kept and for how long: ledger, logs, and history that is dropped in whole partitions."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncue.domain.errors import Invalid
from oncue.domain.ids import KeyId, RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.job import definition_of
from oncue.domain.policy import CatchUp
from oncue.domain.reference import Reference
from oncue.domain.run import State
from oncue.engines.port import AuditEntry, JobQuery, Key, KeyHolder, LogPart, Role
from oncue_conformance.store import Store, everything, only

MONTH = Duration(30 * DAY)


async def test_the_ledger_is_read_newest_first_page_by_page(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, catch_up=CatchUp.SKIP)
    for _ in range(7):
        store.advance(2 * MINUTE + 30 * SECOND)
        await store.plan_all()

    entries = await everything(lambda after: store.lists.ledger(store.uid, job_id, 2, after))

    assert len(entries) == 7
    assert [entry.first for entry in entries] == sorted((entry.first for entry in entries), reverse=True)
    assert sum(entry.count for entry in entries) == 14  # every fifth tick was planned at its instant
    assert len((await store.lists.ledger(None, job_id, 3)).items) == 3
    with pytest.raises(Invalid):
        await store.lists.ledger(None, job_id, after="nonsense")


async def test_a_log_is_its_parts_in_order(store: Store) -> None:
    run_id = await store.one_shot()

    for number, text in ((2, b"two\n"), (1, b"one\n"), (3, b"three\n")):
        await store.history.append_log(run_id, number, text, store.now)
    await store.history.append_log(run_id, 2, b"two again\n", store.now)

    assert await store.log(run_id) == b"one\ntwo\nthree\n"
    assert await store.log(RunId(store.new_id())) == b""


async def test_a_log_takes_any_bytes(store: Store) -> None:
    run_id = await store.one_shot()
    await store.history.append_log(run_id, 1, bytes(range(256)), store.now)
    await store.history.append_log(run_id, 2, b"", store.now)

    assert await store.log(run_id) == bytes(range(256))


async def test_a_log_has_a_cap(store: Store) -> None:
    """Endless output must not fill the database: the rest goes to object storage, and the parts refer to it."""
    run_id, other = await store.one_shots(2)
    part, reference = b"x" * 10_000, Reference("key", 1, "00").encoded()
    fits = [await store.history.append_log(run_id, number, part, store.now) for number in range(60)]
    assert await store.history.append_log(other, 1, b"mine", store.now)

    assert fits == [True] * 26 + [False] * 34
    assert await store.history.append_log(run_id, 3, b"again", store.now)
    assert await store.history.append_log(run_id, 60, reference, store.now)
    assert not await store.history.append_log(run_id, 61, part, store.now)
    assert await store.history.append_log(run_id, 62, b"", store.now)
    assert await store.log(run_id) == part * 26 + reference
    assert await store.log(other) == b"mine"


async def test_a_log_is_read_from_any_part_on(store: Store) -> None:
    run_id = await store.one_shot()
    for number in range(3):
        await store.history.append_log(run_id, number, b"%d" % number, store.now)
        store.advance(SECOND)

    assert await store.history.read_log(run_id, 1) == [LogPart(2, b"2", store.at(-SECOND))]
    assert len(await store.history.read_log(run_id)) == 3


async def test_old_history_is_dropped_and_young_history_stays(store: Store) -> None:
    old = await store.one_shot()
    await store.end(old, State.SUCCEEDED)
    await store.history.append_log(old, 1, b"old", store.now)
    job_id = await store.recurring(every=MINUTE, catch_up=CatchUp.SKIP)
    store.advance(MINUTE + 30 * SECOND)
    await store.plan_all()
    store.advance(20 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    young = await store.one_shot()
    await store.end(young, State.SUCCEEDED)

    assert await store.state(old) is State.SUCCEEDED
    store.advance(12 * DAY)
    dropped = await store.maintenance.maintain(store.now, MONTH)

    assert dropped >= 1
    assert await store.history.run(None, old) is None
    assert await store.log(old) == b""
    assert await store.ledger(job_id) == []
    assert only(await store.runs()).run_id == young
    assert await store.maintenance.maintain(store.now, MONTH) == 0


async def test_tending_leaves_what_lives(store: Store) -> None:
    """However old it is: waiting, running, recurring, held in a lane."""
    waiting = await store.one_shot(100 * DAY)
    first, second = await store.one_shots(2, apart=1, group="g")
    worker = await store.worker()
    running = await store.claim_one(worker, first)
    job_id = await store.recurring(every=HOUR)
    store.advance(90 * DAY)

    await store.maintenance.maintain(store.now, MONTH)

    assert await store.state(waiting) is State.WAITING
    assert await store.claimable() == []
    assert (await store.snapshot(job_id)).cursor is not None
    assert (await store.succeed(worker, running)).lost == frozenset()
    assert await store.claimable() == [second]


async def test_a_group_that_fell_empty_works_again_after_tending(store: Store) -> None:
    for _ in range(2):
        first, second = await store.one_shots(2, apart=1, group="g", gate=("c", 1))
        store.advance(SECOND)
        assert await store.claimable() == [first]
        await store.end(first, State.SUCCEEDED)
        await store.maintenance.maintain(store.now, MONTH)
        assert await store.claimable() == [second]
        await store.end(second, State.SUCCEEDED)
        await store.maintenance.maintain(store.now, MONTH)


async def test_the_time_to_tend_by_moves_forward_in_steps_and_back_at_once(store: Store) -> None:
    """For any caller, however often it calls: what one wrong reading of a clock drops is bounded."""
    other, began = await store.second(), store.now

    assert await store.maintenance.tended(store.now, DAY) == began
    assert await other.maintenance.tended(store.advance(DAY), DAY) == began + DAY
    store.advance(3650 * DAY)
    assert await store.maintenance.tended(store.now, DAY) == began + 2 * DAY
    assert await other.maintenance.tended(store.now, DAY) == began + 3 * DAY
    store.advance(-3651 * DAY)
    assert await store.maintenance.tended(store.now, DAY) == began
    assert await store.maintenance.tended(store.at(HOUR), DAY) == began + HOUR


async def test_a_dead_letter_is_kept_for_long_and_not_for_ever(store: Store) -> None:
    """Default of the setting: 400 days. Then no list shows it, and the audit log says so."""
    old, young = await store.one_shot(), await store.one_shot(350 * DAY)
    await store.end(old, State.DEAD)
    store.advance(350 * DAY)
    await store.end(young, State.DEAD)
    await store.maintenance.maintain(store.now, MONTH)
    assert len((await store.lists.dead_letters(store.uid)).items) == 2
    store.advance(51 * DAY)

    await store.maintenance.maintain(store.now, MONTH)

    assert [run.run_id for run in (await store.lists.dead_letters(None)).items] == [young]
    assert [run.run_id for run in (await store.lists.dead_letters(store.uid)).items] == [young]
    assert await store.history.run(None, old) is None
    assert await store.history.discard(None, [old]) == frozenset()
    audit_entry = only((await store.audit.entries(store.uid)).items)
    assert (audit_entry.action, audit_entry.key_id, audit_entry.detail) == (
        "dead_letters.drop",
        None,
        b'{"count":1,"why":"too old"}',
    )


@pytest.mark.parametrize("how", ["finished", "cancelled"])
async def test_an_ended_recurring_job_goes_when_its_last_run_has_left_history(store: Store, how: str) -> None:
    schedule = store.every(MINUTE, max_runs=1 if how == "finished" else None)
    job_id = await store.recurring(schedule, key="k", tags=("t",))
    await store.edit(job_id, payload=b"2")
    lives = await store.recurring(every=HOUR, key="lives")
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    [run_id] = await store.claimable()
    await store.end(run_id, State.SUCCEEDED)
    if how == "cancelled":
        await store.jobs.cancel(None, job_id, store.now)
    store.advance(20 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    assert (await store.snapshot(job_id)).job.status.name == how.upper()
    store.advance(12 * DAY)

    assert await store.maintenance.maintain(store.now, MONTH) >= 1

    assert await store.jobs.read(None, job_id) is None
    assert [row.job.job_id for row in (await store.lists.jobs(JobQuery(uid=store.uid))).items] == [lives]
    assert (await store.lists.jobs(JobQuery(uid=store.uid, tag="t"))).items == ()
    assert await store.keyed("lives") == lives


async def test_an_ended_job_with_a_dead_letter_stays(store: Store) -> None:
    job_id = await store.recurring(store.every(MINUTE, max_runs=1))
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    [run_id] = await store.claimable()
    await store.end(run_id, State.DEAD)
    store.advance(40 * DAY)

    assert await store.maintenance.maintain(store.now, MONTH) >= 1

    assert (await store.snapshot(job_id)).job.job_id == job_id


async def test_a_finished_job_that_was_put_is_known_by_its_key_and_not_for_ever(store: Store) -> None:
    """Default of the setting: 400 days."""
    new = [replace(await store.new_one_shot(key="one-shot"), applied=True)]
    new.append(replace(await store.new_recurring(store.every(MINUTE, max_runs=1), key="recurring"), applied=True))
    await store.create(*new)
    await store.edit(new[1].job.job_id, payload=b"2")
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    for run_id in await store.claimable():
        await store.end(run_id, State.SUCCEEDED)
    last = (await store.snapshot(new[1].job.job_id)).job
    while await store.jobs.read(None, new[1].job.job_id) is not None:
        store.advance(32 * DAY)
        await store.maintenance.maintain(store.now, MONTH)

    assert await store.keyed("one-shot") == new[0].job.job_id
    assert await store.jobs.keyed(store.uid, "recurring") == KeyHolder(last.job_id, definition_of(last.spec, b"2"))
    await store.end(await store.one_shot(), State.SUCCEEDED)  # so that there is something to drop
    store.advance(400 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    assert [await store.keyed(key) for key in ("one-shot", "recurring")] == [None, None]


async def test_the_audit_log_and_keys_that_do_not_work_have_times_of_their_own(store: Store) -> None:
    """Defaults of the settings: 400 days each, whatever becomes of history."""
    revoked, expired, works = (
        Key(KeyId(store.new_id()), store.new_id().bytes, store.uid, "ada", Role.ADMIN, store.now, expires_at=expires_at)
        for expires_at in (None, store.at(DAY), None)
    )
    for key in (works, revoked, expired):
        await store.accounts.add_key(key)
    await store.accounts.revoke(revoked.key_id, store.now)
    await store.audit.record([AuditEntry(store.now, store.uid, None, "a.b")])
    store.advance(399 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    assert len((await store.audit.entries()).items) == 1
    assert len(await store.accounts.keys()) == 3
    store.advance(4 * DAY)

    await store.maintenance.maintain(store.now, MONTH)

    assert (await store.audit.entries()).items == ()
    assert [key.key_id for key in await store.accounts.keys()] == [works.key_id]
