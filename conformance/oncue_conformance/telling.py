"""Notices: inserted by the transaction that settles, under the condition that its decision names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain import attempt
from oncue.domain.ids import NOTICES, JobId, RunId, WorkerId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Instant
from oncue.domain.job import decode_spec
from oncue.domain.lane import Held
from oncue.domain.notices import late_notices, notices, read_told, trial_notice, with_notices
from oncue.domain.notify import NO_DEFAULT, Entry, Event, NotifyDefault, Webhook
from oncue.domain.placement import NOTICE_CLASS
from oncue.domain.planning import plan
from oncue.domain.policy import OnLost
from oncue.domain.run import Claimed, Settled, Settlement, State
from oncue.domain.schedule import Schedule
from oncue.engines.port import Count, Dropped, Generation, JobQuery, Target
from oncue_conformance.store import Store, ids, only

HOOK = Webhook("https://example.org/hook")


def entry(*on: str, **how: Any) -> Entry:
    return Entry(tuple(map(Event, on)), **{"webhook": HOOK} | how)


ALL = (entry("failing", "failed", "recovered"),)


def told(settled: Settlement) -> Settlement:
    spec = decode_spec(settled.run.spec)
    return replace(settled, notices=notices(settled.run, spec, settled))


async def told_of(store: Store) -> list[tuple[str, int | None]]:
    """Return the notices that wait, with the length of the streak that each tells of; in order."""
    found = [read_told((await store.run(run.run_id)).payload or b"") for run in await store.runs(job_id=NOTICES)]
    found.sort(key=lambda one: one.end_time or 0)
    return [(one.event.value, None if one.streak is None else one.streak.runs) for one in found]


async def next_run(store: Store, worker: WorkerId) -> Claimed:
    """Plan and claim the job's next run."""
    store.advance(MINUTE)
    await store.beat(worker)
    await store.plan()
    return only([run for run in await store.claim_due(worker) if run.job_id != NOTICES])


async def failed(store: Store, worker: WorkerId, run: Claimed, *, retry: bool = False) -> Settled:
    return await store.settle(worker, told(store.failure(worker, run, retry=retry)))


async def succeeded(store: Store, worker: WorkerId, run: Claimed) -> Settled:
    return await store.settle(worker, told(attempt.succeeded(run, store.now, store.now, None)))


async def test_a_notice_is_a_run_of_its_user(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot(notify=(entry("failed", text="oh"),), name="backup"))

    assert await failed(store, worker, run) == Settled(notices=1)
    notice = only(await store.runs(job_id=NOTICES))
    whole = await store.run(notice.run_id)
    said = read_told(whole.payload or b"")

    assert (notice.uid, notice.state, notice.wanted, notice.held) == (store.uid, State.WAITING, store.now, Held.RATE)
    assert (await store.jobs.classes())[notice.class_id] == NOTICE_CLASS
    assert (said.event, said.run_id, said.name, said.status) == (Event.FAILED, run.run_id, "backup", "dead")
    assert (said.error_type, said.attempt_number, said.entry.text) == ("Boom", 1, "oh")
    assert (await store.counts())[Count.CREATED] == 2
    await store.check_counts()


async def test_of_too_many_notices_the_further_ones_are_dropped_and_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.engines.telling.MOST_WAITING", 2)
    worker = await store.worker()
    for number in range(5):
        run = await store.claim_one(worker, await store.one_shot(notify=(entry("failed"), entry("dead"))))
        assert await failed(store, worker, run) == (Settled(notices=2) if number == 0 else Settled(dropped=2))
        await store.counts()  # they are counted from sums that may be a second old
    other = await store.claim_one(worker, await store.one_shot(uid=store.stranger, notify=(entry("failed"),)))
    assert (await failed(store, worker, other)).notices == 1

    assert len(await told_of(store)) == 3
    assert await store.notices.dropped(store.uid) == Dropped(8, 0)
    assert await store.notices.dropped(store.stranger) == Dropped()
    for reported in (5, 5, 3):
        await store.notices.dropped_reported(store.uid, reported)
        await store.notices.dropped_reported(store.stranger, reported)
        assert await store.notices.dropped(store.uid) == Dropped(8, 5)
    assert await store.notices.dropped(store.stranger) == Dropped()


async def test_a_notice_is_no_job(store: Store) -> None:
    worker = await store.worker()
    run_id = await store.one_shot(notify=(entry("failed"),))
    await failed(store, worker, await store.claim_one(worker, run_id))

    assert [row.job.job_id for row in (await store.lists.jobs(JobQuery(store.uid))).items] == [run_id]
    assert await store.jobs.read(None, NOTICES) is None


async def test_a_streak_is_told_once_and_when_it_is_over(store: Store) -> None:
    worker = await store.worker()
    await store.recurring(notify=ALL)

    for _ in range(3):
        await failed(store, worker, await next_run(store, worker))
    assert await told_of(store) == [("failed", 1)]
    await succeeded(store, worker, await next_run(store, worker))
    await succeeded(store, worker, await next_run(store, worker))
    assert await told_of(store) == [("failed", 1), ("recovered", 3)]
    await failed(store, worker, await next_run(store, worker))
    assert await told_of(store) == [("failed", 1), ("recovered", 3), ("failed", 1)]


async def test_an_attempt_that_fails_begins_a_streak(store: Store) -> None:
    worker = await store.worker()
    await store.recurring(every=HOUR, notify=ALL)
    store.advance(HOUR - MINUTE)
    run = await next_run(store, worker)

    await failed(store, worker, run, retry=True)
    store.advance(MINUTE)
    await store.beat(worker)
    await failed(store, worker, await store.claim_one(worker, run.run_id), retry=True)
    assert await told_of(store) == [("failing", 0)]
    store.advance(MINUTE)
    await store.beat(worker)
    await succeeded(store, worker, await store.claim_one(worker, run.run_id))
    assert await told_of(store) == [("failing", 0), ("recovered", 0)]


async def test_a_retry_that_helps_is_no_recovery_for_who_was_not_told(store: Store) -> None:
    worker = await store.worker()
    await store.recurring(every=HOUR, notify=(entry("failed", "recovered", "succeeded"),))
    store.advance(HOUR - MINUTE)
    run = await next_run(store, worker)
    await failed(store, worker, run, retry=True)
    store.advance(MINUTE)
    await store.beat(worker)

    await succeeded(store, worker, await store.claim_one(worker, run.run_id))
    assert await told_of(store) == [("succeeded", 0)]


async def test_settlements_of_one_job_in_one_batch_follow_each_other(store: Store) -> None:
    worker = await store.worker()
    await store.recurring(overlap="allow", notify=ALL)
    runs = [await next_run(store, worker) for _ in range(3)]
    dead = [replace(told(store.failure(worker, run, retry=False)), ended_at=store.at(i)) for i, run in enumerate(runs)]

    assert (await store.settle(worker, *reversed(dead[1:]))).notices == 1
    over = replace(told(attempt.succeeded(runs[0], store.now, store.now, None)), ended_at=store.at(9))
    assert (await store.settle(worker, over)).notices == 1
    assert await told_of(store) == [("failed", 1), ("recovered", 2)]


async def test_of_two_workers_one_tells(store: Store) -> None:
    other = await store.second()
    await store.recurring(overlap="allow", notify=ALL)
    mine, theirs = await store.worker(), await store.worker()
    first, second = await next_run(store, mine), await next_run(store, mine)
    await store.hand_back(mine, second)
    await store.beat(theirs)
    second = await store.claim_one(theirs, second.run_id)

    answers = await asyncio.gather(failed(store, mine, first), failed(other, theirs, second))
    assert sorted(answer.notices for answer in answers) == [0, 1]
    await succeeded(store, mine, await next_run(store, mine))
    assert sorted(await told_of(store)) == [("failed", 1), ("recovered", 2)]


async def test_workers_that_settle_runs_of_the_same_jobs_at_once_tell_of_each_job_once(store: Store) -> None:
    stores = [store, await store.second(), await store.second()]
    workers = [await store.worker() for _ in stores]
    for _ in range(4):
        await store.recurring(overlap="allow", notify=ALL)
    batches: list[list[Claimed]] = []
    for worker in workers:
        store.advance(MINUTE)
        for one in workers:
            await store.beat(one)
        await store.plan_all()
        batches.append(await store.claim_due(worker))
    assert [len(batch) for batch in batches] == [4, 4, 4]

    async def settle(place: int) -> Settled:
        runs = batches[place][place:] + batches[place][:place]  # each in an order of its own
        dead = [told(store.failure(workers[place], run, retry=False)) for run in runs]
        return await stores[place].settle(workers[place], *dead)

    answers = await asyncio.gather(*(settle(place) for place in range(3)))
    assert sum(answer.notices for answer in answers) == 4
    assert await told_of(store) == [("failed", 1)] * 4
    await store.check_counts()


async def test_a_cancelled_run_tells_nothing_and_touches_no_streak(store: Store) -> None:
    worker = await store.worker()
    await store.recurring(notify=ALL)
    run = await next_run(store, worker)
    await store.running.cancel(None, run.run_id, store.now)
    assert await failed(store, worker, run) == Settled(cancelled=frozenset({run.run_id}))
    await failed(store, worker, await next_run(store, worker))
    run = await next_run(store, worker)
    await store.running.cancel(None, run.run_id, store.now)
    await succeeded(store, worker, run)

    assert await told_of(store) == [("failed", 1)]
    await failed(store, worker, await next_run(store, worker))
    assert await told_of(store) == [("failed", 1)]


async def test_a_settlement_that_comes_too_late_tells_nothing(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot(notify=(entry("dead"),)))
    await failed(store, worker, run)

    assert await failed(store, worker, run) == Settled(lost=frozenset({run.run_id}))
    assert len(await store.runs(job_id=NOTICES)) == 1


async def test_a_lost_run_that_dies_is_told_of(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot(on_lost=OnLost.DEAD, notify=(entry("failed"),)))
    await store.fleet.leave(worker)
    now = store.now

    settled = await store.running.recover_runs(
        10, now, lambda run, worker, since: told(attempt.lost(run, worker, since, now))
    )
    assert settled.notices == 1
    said = read_told((await store.run(only(await store.runs(job_id=NOTICES)).run_id)).payload or b"")
    assert (said.run_id, said.error_type) == (run.run_id, "WorkerLost")


@pytest.mark.parametrize("recurring", [True, False])
async def test_an_expired_run_is_told_of(store: Store, recurring: bool) -> None:
    how: dict[str, Any] = {"start_within": SECOND, "notify": ALL, "payload": b"{}"}
    if recurring:
        await store.recurring(**how)
        store.advance(MINUTE)
        await store.plan()
    else:
        await store.one_shot(**how)
    store.advance(2 * SECOND)

    def decide(run: Claimed) -> Settlement:
        return told(attempt.expired(run, store.now))

    [expired] = await store.planning.expire(10, store.now, decide)
    said = read_told((await store.run(only(await store.runs(job_id=NOTICES)).run_id)).payload or b"")
    assert (said.event, said.run_id, said.status) == (Event.FAILED, expired.run_id, "expired")
    assert (said.streak is not None) == recurring
    assert await store.planning.expire(10, store.now, decide) == []


async def test_late_notices_wait_with_their_run(store: Store) -> None:
    await store.recurring(notify=(entry("late", late_after=2 * MINUTE),))
    store.advance(MINUTE)

    def decide(job: Any) -> Any:
        return with_notices(plan(job, store.now, store.now), store.now)

    planned = await store.planning.plan(store.now, 10, store.now, decide)
    assert planned.runs == 1
    notice = only(await store.runs(job_id=NOTICES))
    assert notice.wanted == store.at(2 * MINUTE)
    assert await store.planning.plan(store.now, 10, store.now, decide) != planned
    assert len(await store.runs(job_id=NOTICES)) == 1


async def test_missed_occurrences_are_told_of(store: Store) -> None:
    await store.recurring(notify=(entry("late"),), catch_up_window=MINUTE)
    store.advance(HOUR)

    def decide(job: Any) -> Any:
        return with_notices(plan(job, store.now, store.now), store.now)

    await store.planning.plan(store.now, 10, store.now, decide)
    told = [read_told((await store.run(run.run_id)).payload or b"") for run in await store.runs(job_id=NOTICES)]
    assert [one.missed for one in told if one.missed] == [58]


async def test_a_one_shot_is_stored_with_its_late_notices(store: Store) -> None:
    new = await store.new_one_shot(HOUR, notify=(entry("late"),))
    assert new.run is not None
    await store.create(replace(new, notices=late_notices(new.run, new.job.spec)))

    assert only(await store.runs(job_id=NOTICES)).wanted == store.at(HOUR + MINUTE)
    await store.create(replace(new, notices=late_notices(new.run, new.job.spec)))
    assert len(await store.runs(job_id=NOTICES)) == 1


async def test_notices_are_added_once(store: Store) -> None:
    notice = trial_notice(store.uid, entry(), RunId(store.new_id()), store.now)
    await store.notices.add([notice], store.now)
    await store.notices.add([notice], store.now)

    assert ids(await store.runs(job_id=NOTICES)) == [notice.run_id]
    assert (await store.history.gauges(store.at(MINUTE))).notices == (1, MINUTE)
    await store.check_counts()


async def test_defaults_are_read_by_their_change(store: Store) -> None:
    mine = NotifyDefault(ALL, muted_until=store.at(HOUR))
    assert await store.notices.default(store.uid) == NO_DEFAULT
    await store.notices.put_default(store.uid, mine, store.now)
    before = store.now
    later = store.advance(MINUTE)
    await store.notices.put_default(store.stranger, NotifyDefault(), later)

    assert await store.notices.default(store.uid) == mine
    assert await store.notices.defaults(Instant(0)) == {store.uid: mine, store.stranger: NO_DEFAULT}
    assert await store.notices.defaults(Instant(before + 1)) == {store.stranger: NO_DEFAULT}
    await store.notices.put_default(store.uid, NO_DEFAULT, later)
    assert await store.notices.defaults(later) == {store.uid: NO_DEFAULT, store.stranger: NO_DEFAULT}


async def test_a_target_is_muted_after_so_many_in_a_row(store: Store) -> None:
    first = await store.notices.target_failed(store.uid, "t", "https://a", 2, store.now)
    assert first == Target("t", "https://a", 1)
    muted = await store.notices.target_failed(store.uid, "t", "https://a", 2, store.now)
    assert muted == Target("t", "https://a", 2, store.now)
    since = store.now
    store.advance(SECOND)
    assert (await store.notices.target_failed(store.uid, "t", "https://a", 2, store.now)).muted_at == since
    assert (await store.notices.target_failed(store.uid, "gone", "x", 1, store.now)).muted_at == store.now
    assert [one.target for one in await store.notices.targets(store.uid)] == ["gone", "t"]
    assert await store.notices.targets(store.stranger) == []
    await store.notices.target_reached(store.uid, "t")
    assert [one.target for one in await store.notices.targets(store.uid)] == ["gone"]


async def test_a_secret_is_replaced_again_and_again(store: Store) -> None:
    assert await store.notices.generation(store.uid, b"url") == Generation()
    assert await store.notices.rotate(store.uid, b"url", store.now) == Generation(1, store.now)
    store.advance(SECOND)
    assert await store.notices.rotate(store.uid, b"url", store.now) == Generation(2, store.now)
    assert await store.notices.generation(store.uid, b"url") == Generation(2, store.now)
    assert await store.notices.generation(store.stranger, b"url") == Generation()


async def test_a_purged_job_has_no_streak(store: Store) -> None:
    worker = await store.worker()
    job_id: JobId = await store.recurring(Schedule(every=MINUTE, anchor=store.now, max_runs=1), notify=ALL)
    await failed(store, worker, await next_run(store, worker))
    while await store.jobs.purge(job_id, 100):
        pass
    assert await store.jobs.read(None, job_id) is None
    assert await told_of(store) == [("failed", 1)]
