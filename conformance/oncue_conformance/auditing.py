"""What the self-audit reads of a store in which all is well, and of what is late or left.

What the self-audit found wrong: one finding for each check and object, open until it was cleared.
"""

from __future__ import annotations

import asyncio

import pytest

from oncue.domain.errors import Invalid
from oncue.domain.ids import RunId, occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, NEVER, SECOND, Instant
from oncue.domain.job import JobStatus, decode_spec
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue.engines.audited import MOST_FINDINGS
from oncue.engines.port import AuditedCursor, Finding, LongHeld, LongRunning, Orphan, Sums, Unexpired
from oncue_conformance.store import LONG_AGO, Store, everything, meanwhile


async def test_cursors_are_walked_by_job_with_what_they_are_compared_with(store: Store) -> None:
    jobs = [await store.recurring(every=MINUTE) for _ in range(5)]
    await store.one_shot()  # has none
    made_at = store.now
    store.advance(MINUTE)
    await store.plan_all()
    await store.pause(jobs[1])
    await store.jobs.cancel(None, jobs[2], store.now)

    found: list[AuditedCursor] = []
    while page := await store.auditing.cursors(found[-1].job_id if found else None, 2):
        found += page

    assert [one.job_id for one in found if one.job_id != jobs[2]] == sorted({*jobs} - {jobs[2]})
    by_job = {one.job_id: one for one in found}
    if ended := by_job.pop(jobs[2], None):  # it may have no cursor any more
        assert (ended.status, ended.cursor.next_at) == (JobStatus.CANCELLED, NEVER)
    assert {one.status for one in by_job.values() if one.job_id != jobs[1]} == {JobStatus.ACTIVE}
    active, paused = by_job[jobs[0]], by_job[jobs[1]]
    assert decode_spec(active.spec).schedule.every == MINUTE
    assert (active.created_at, active.updated_at, paused.updated_at) == (made_at, made_at, store.now)
    assert (active.cursor.floor, active.cursor.next_at, active.cursor.planned) == (store.now, store.at(MINUTE), 1)
    assert (paused.status, paused.cursor.next_at) == (JobStatus.PAUSED, NEVER)


async def test_runs_are_found_whatever_their_state_if_they_ended_since(store: Store) -> None:
    waiting, running, succeeded, dead, cancelled = await store.one_shots(5)
    worker = await store.worker()
    await store.claim_one(worker, running)
    for run_id, state in ((succeeded, State.SUCCEEDED), (dead, State.DEAD), (cancelled, State.CANCELLED)):
        await store.end(run_id, state)
    runs = [waiting, running, succeeded, dead, cancelled]
    unknown = RunId(store.new_id())

    assert await store.auditing.existing_runs([*runs, unknown], store.now) == set(runs)
    assert await store.auditing.existing_runs(runs[:1], LONG_AGO) == {waiting}
    assert await store.auditing.existing_runs([], store.now) == set()
    later = await store.auditing.existing_runs(runs, store.at(400 * DAY))
    assert later >= {waiting, running, dead}  # of history only what ended since


async def test_a_planned_run_is_found_by_its_occurrence(store: Store) -> None:
    job = await store.recurring(every=MINUTE)
    first = store.at(MINUTE)
    store.advance(MINUTE)
    await store.plan_all()
    wanted = [occurrence_id(job, Instant(first + n * MINUTE)) for n in range(2)]

    assert await store.auditing.existing_runs(wanted, store.now) == {wanted[0]}


async def test_stretches_of_the_ledger_are_found_by_what_they_overlap(store: Store) -> None:
    job, other = [await store.recurring(every=MINUTE, catch_up=CatchUp.SKIP) for _ in range(2)]
    start = store.now
    for _ in range(3):
        store.advance(10 * MINUTE + 10 * SECOND)
        await store.plan_all()

    def window(first: int, last: int) -> tuple[Instant, Instant]:
        return Instant(start + first * MINUTE), Instant(start + last * MINUTE)

    entries = sorted((await store.lists.ledger(None, job)).items, key=lambda entry: entry.last)
    assert [(entry.first, entry.last) for entry in entries] == [window(1, 10), window(11, 20), window(21, 30)]
    assert await store.auditing.stretches(job, *window(0, 40)) == entries
    assert await store.auditing.stretches(job, *window(10, 11)) == entries[:2]
    assert await store.auditing.stretches(job, *window(12, 13)) == entries[1:2]
    assert await store.auditing.stretches(job, *window(31, 40)) == []
    assert await store.auditing.stretches(job, *window(0, 40), limit=1) == entries[:1]
    assert {entry.job_id for entry in await store.auditing.stretches(other, *window(0, 40))} == {other}


async def test_runs_that_are_held_past_their_instant_are_told_longest_first(store: Store) -> None:
    """Not those that are let in, paused, wait for their rate, or whose instant is to come."""
    worker = await store.worker()
    first, *in_line = await store.one_shots(3, apart=SECOND, group="g")
    behind_gate = await store.one_shots(2, due=5 * SECOND, apart=SECOND, gate=("k", 1))
    both = await store.one_shots(2, due=7 * SECOND, apart=SECOND, group="h", gate=("k", 1))
    paused = await store.one_shot(2 * SECOND, group="g")
    later = await store.one_shot(HOUR, group="g")
    store.advance(MINUTE)
    await store.pause(paused)  # type: ignore[arg-type]  # a one-shot's job and run have one id
    await store.claim_one(worker, first)  # the lane stays busy, whether it waits or runs

    found = await store.auditing.longest_held(store.now)

    wanted = [*in_line, behind_gate[1], *both]
    assert [one.run_id for one in found] == wanted
    assert [one.by_lane for one in found] == [True, True, False, False, True]
    assert all(one.admitted for one in found)
    assert found == [
        LongHeld(run_id, run_id, (await store.run(run_id)).wanted, one.by_lane, admitted=True)  # type: ignore[arg-type]
        for run_id, one in zip(wanted, found, strict=True)
    ]
    assert await store.auditing.longest_held(store.now, limit=2) == found[:2]
    assert later not in [one.run_id for one in found]


async def test_only_who_runs_long_without_a_registered_worker_is_an_orphan(store: Store) -> None:
    lost, alive = await store.worker(), await store.worker()
    first = await store.claim_one(lost, await store.one_shot())
    await store.claim_one(alive, await store.one_shot())
    store.advance(MINUTE)
    await store.claim_one(lost, await store.one_shot())
    assert await store.auditing.orphans(store.at(1)) == []
    await store.fleet.leave(lost)

    assert await store.auditing.orphans(store.now) == [Orphan(first.run_id, lost, first.claimed_at)]
    assert len(await store.auditing.orphans(store.at(1))) == 2
    assert len(await store.auditing.orphans(store.at(1), limit=1)) == 1


async def test_what_runs_long_is_walked_by_run_with_the_definition_it_started_with(store: Store) -> None:
    """Not what is younger, nor what waits, nor what has no registered worker."""
    worker, gone = await store.worker(), await store.worker()
    once = await store.claim_one(worker, await store.one_shot())
    job_id = await store.recurring(every=SECOND, max_retries=7)
    store.advance(SECOND)
    await store.plan_all()
    [again] = await store.claim_due(worker)
    await store.edit(job_id, max_retries=1)
    cancelled = await store.claim_one(worker, await store.one_shot())
    await store.running.cancel(None, cancelled.run_id, store.now)
    await store.claim_one(gone, await store.one_shot())
    await store.fleet.leave(gone)
    await store.one_shot()
    store.advance(MINUTE)
    before = store.now
    await store.claim_one(worker, await store.one_shot())

    found: list[LongRunning] = []
    while page := await store.auditing.long_running(found[-1].run_id if found else None, before, 1):
        found += page

    asked_at = {cancelled.run_id: cancelled.claimed_at}
    assert found == [
        LongRunning(run.run_id, worker, run.claimed_at, asked_at.get(run.run_id), run.spec)
        for run in sorted((once, again, cancelled), key=lambda run: run.run_id)
    ]


async def test_the_first_run_that_should_have_expired_is_told(store: Store) -> None:
    await store.one_shot(start_within=HOUR)
    tried, second, first = [await store.one_shot(start_within=length * MINUTE) for length in (1, 3, 2)]
    worker = await store.worker()
    await store.fail(worker, await store.claim_one(worker, tried))
    await store.claim_one(worker, await store.one_shot(start_within=MINUTE))
    expires_at = store.at(2 * MINUTE)

    assert await store.auditing.unexpired(expires_at) is None
    assert await store.auditing.unexpired(Instant(expires_at + 1)) == Unexpired(first, expires_at)
    store.advance(10 * MINUTE)
    assert len(await store.planning.expire(1, store.now)) == 1
    assert await store.auditing.unexpired(store.now) == Unexpired(second, Instant(expires_at + MINUTE))
    await store.planning.expire(10, store.now)
    assert await store.auditing.unexpired(store.now) is None


async def test_counters_and_rows_agree_also_while_runs_come_and_go(store: Store) -> None:
    """Read at one moment, or a run that is moved meanwhile is counted twice or not at all."""
    other = await store.second()
    if not store.engine.capabilities.exact_counters:
        return
    await store.recurring(every=SECOND)
    store.advance(20 * SECOND)
    await store.plan_all()
    worker = await store.worker()

    async def busy() -> None:
        for _ in range(10):
            runs = await other.one_shots(5)
            await other.succeed(worker, *await other.claim(worker, *runs))
            await other.maintenance.roll_up()

    async with meanwhile(busy()) as [work]:
        looks = []
        while not work.done():
            looks.append(await store.auditing.sums())
            await asyncio.sleep(0)

    assert [one for one in looks if one is None or one.counted != one.stored] == []
    rows = len(await store.runs(states=frozenset({State.WAITING, State.RUNNING})))
    assert await store.auditing.sums() == Sums(rows, rows)
    assert await store.auditing.sums(most=rows) == Sums(rows, rows)
    assert await store.auditing.sums(most=rows - 1) is None


async def test_sums_of_an_empty_store_are_zero(store: Store) -> None:
    assert await store.auditing.sums() == Sums(0, 0)


# ------------------------------------------------------------------------------------------------------------- findings


def finding(store: Store, object_id: str = "a", words: str = "wrong", check: str = "cursor") -> Finding:
    return Finding(check, object_id, words, first_seen=store.now, seen_at=store.now)


async def all_findings(store: Store) -> list[Finding]:
    return await everything(lambda after: store.auditing.findings(limit=2, after=after))


async def test_a_finding_is_reported_once_and_keeps_when_it_was_first_seen(store: Store) -> None:
    first = finding(store)
    assert await store.auditing.record_findings([first], store.now) == [first]
    assert await store.auditing.record_findings([first], store.now) == [first]  # a repeat, its answer was lost
    store.advance(SECOND)
    other = finding(store, "b")

    assert await store.auditing.record_findings([finding(store, words="still wrong"), other], store.now) == [other]

    still = Finding("cursor", "a", "still wrong", first.first_seen, store.now)
    assert await all_findings(store) == [other, still]


async def test_of_two_findings_of_one_object_in_one_call_the_last_stays(store: Store) -> None:
    two = [finding(store, words="one"), finding(store, words="two")]

    assert await store.auditing.record_findings(two, store.now) == [two[1]]
    assert await all_findings(store) == [two[1]]


async def test_what_holds_again_is_cleared_once_and_open_again_when_it_is_found_again(store: Store) -> None:
    of_lane = finding(store, check="lane")
    await store.auditing.record_findings([finding(store), finding(store, "b"), of_lane], store.now)
    seen_at = store.now
    store.advance(SECOND)
    cleared = Finding("cursor", "a", "wrong", seen_at, seen_at, cleared_at=store.now)

    assert await store.auditing.clear_findings("cursor", ["a", "never found"], store.now) == [cleared]
    assert await store.auditing.clear_findings("cursor", ["a"], store.at(SECOND)) == []
    assert await store.auditing.clear_findings("cursor", [], store.now) == []
    assert (await all_findings(store))[-1] == cleared  # open ones come first

    again = finding(store)
    assert await store.auditing.record_findings([again], store.now) == [again]
    assert {one.key for one in await all_findings(store) if one.cleared_at is None} == {
        ("cursor", "a"),
        ("cursor", "b"),
        ("lane", "a"),
    }


async def test_the_newest_thousand_findings_stay_open_ones_before_others(store: Store) -> None:
    await store.auditing.record_findings([finding(store, "old and cleared")], store.now)
    await store.auditing.clear_findings("cursor", ["old and cleared"], store.now)
    await store.auditing.record_findings([finding(store, "old and open")], store.now)
    store.advance(SECOND)
    await store.auditing.record_findings([finding(store, f"{i:04}") for i in range(MOST_FINDINGS - 1)], store.now)

    found = (await store.auditing.findings(limit=2 * MOST_FINDINGS)).items
    assert len(found) == MOST_FINDINGS
    assert found[-1].object_id == "old and open"

    store.advance(SECOND)
    await store.auditing.record_findings([finding(store, "newest")], store.now)
    found = (await store.auditing.findings(limit=2 * MOST_FINDINGS)).items
    assert (len(found), found[0].object_id, found[-1].object_id) == (MOST_FINDINGS, "newest", "0998")


async def test_several_who_record_at_once_leave_no_more_than_a_thousand(store: Store) -> None:
    stores = [store, await store.second()]
    half = MOST_FINDINGS * 3 // 4
    parts = [[finding(store, f"{n} {i}") for i in range(half)] for n in range(4)]

    await asyncio.gather(*(stores[n % 2].auditing.record_findings(parts[n], store.now) for n in range(4)))

    assert len((await store.auditing.findings(limit=4 * half)).items) == MOST_FINDINGS


async def test_a_page_token_of_findings_is_checked(store: Store) -> None:
    with pytest.raises(Invalid):
        await store.auditing.findings(after="nonsense")
