"""Bulks worked through: on all that fit, once on each, whoever dies on the way."""

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId, KeyId, RunId
from oncue.domain.instants import MINUTE, SECOND
from oncue.domain.job import JobStatus
from oncue.domain.quota import Quota
from oncue.domain.run import NewRun, State, Status
from oncue.engines.bulk_values import Action, Bulk, BulkState, Kind, LetterQuery, Order
from oncue.engines.port import JobQuery, Key, Role, RunQuery
from oncue.services import bulk_work
from oncue.services.bulk_work import LEASE, BulkWork
from oncue_conformance.store import Store


@pytest.fixture(autouse=True)
def small_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_work, "PASS", 2)


async def ordered(store: Store, action: Action, of: Kind = Kind.JOBS, role: Role = Role.MEMBER, **how: Any) -> Bulk:
    key = Key(KeyId(store.new_id()), store.chance.randbytes(32), store.uid, "ada", role, store.now)
    await store.accounts.add_key(key)
    bulk = Bulk(store.new_id(), store.uid, key.key_id, role, store.now, Order(action, of, **how))
    assert await store.engine.bulks.add(bulk)
    return bulk


async def nothing_changes(*_: object) -> NewRun:
    raise AssertionError("no bulk here changes payloads")


async def worked(store: Store, bulk: Bulk, passes: int = 50) -> Bulk:
    work = BulkWork(store.engine, store.clock, nothing_changes)
    for _ in range(passes):
        await work.run_once()
        found = await store.engine.bulks.read(None, bulk.bulk_id)
        assert found is not None
        if found.state is not BulkState.RUNNING:
            return found
    raise AssertionError("it does not end")


def of_jobs(store: Store, *statuses: JobStatus, **how: Any) -> JobQuery:
    return JobQuery(store.uid, frozenset(statuses), **how)


async def statuses(store: Store, *job_ids: JobId) -> list[JobStatus]:
    return [(await store.snapshot(job_id)).job.status for job_id in job_ids]


async def test_all_jobs_that_fit_are_paused_and_no_others(store: Store) -> None:
    jobs = [await store.recurring(every=MINUTE, task="a") for _ in range(5)]
    other = await store.recurring(every=MINUTE, task="b")
    theirs = await store.recurring(every=MINUTE, task="a", uid=store.stranger)
    bulk = await ordered(store, Action.PAUSE, jobs=of_jobs(store, JobStatus.ACTIVE, task="a"))
    store.advance(SECOND)
    later = await store.recurring(every=MINUTE, task="a")

    ended = await worked(store, bulk)

    assert (ended.state, ended.progress.done, ended.progress.refused) == (BulkState.FINISHED, 5, 0)
    assert set(await statuses(store, *jobs)) == {JobStatus.PAUSED}
    assert set(await statuses(store, other, theirs, later)) == {JobStatus.ACTIVE}
    again = await worked(store, await ordered(store, Action.RESUME, jobs=of_jobs(store, JobStatus.PAUSED)))
    assert (again.progress.done, set(await statuses(store, *jobs))) == (5, {JobStatus.ACTIVE})


async def test_an_administrators_bulk_reaches_all_users_and_a_members_only_its_own(store: Store) -> None:
    theirs = await store.recurring(every=MINUTE, uid=store.stranger)

    member = await worked(store, await ordered(store, Action.PAUSE, ids=(theirs, store.new_id())))
    assert (member.progress.done, member.progress.refused) == (0, 2)
    assert [one.reason for one in member.progress.reasons] == ["not found"] * 2
    admin = await worked(store, await ordered(store, Action.PAUSE, role=Role.ADMIN, ids=(theirs,)))
    assert (admin.progress.done, await statuses(store, theirs)) == (1, [JobStatus.PAUSED])


async def test_jobs_and_their_runs_are_cancelled(store: Store) -> None:
    jobs = [JobId(one) for one in await store.one_shots(5)]
    bulk = await ordered(store, Action.CANCEL, jobs=of_jobs(store, JobStatus.ACTIVE, JobStatus.PAUSED))

    ended = await worked(store, bulk)

    assert (ended.progress.done, set(await statuses(store, *jobs))) == (5, {JobStatus.CANCELLED})
    assert await store.claimable() == []


async def test_each_job_runs_once_though_passes_are_cut_off_everywhere(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every write of every pass a process dies; another takes over when the lease is over."""
    jobs = [await store.recurring(every=MINUTE, overlap="skip") for _ in range(5)]
    bulk = await ordered(store, Action.RUN, jobs=of_jobs(store, JobStatus.ACTIVE))
    advance, apply, calls, fails_at = store.engine.bulks.advance, store.engine.jobs.apply, 0, 1
    cut = set[int]()

    def dying(verb: Any) -> Any:
        async def call(*given: Any, **named: Any) -> Any:
            nonlocal calls, fails_at
            calls += 1
            before = calls == fails_at
            if not before:
                answer = await verb(*given, **named)
            if calls >= fails_at:
                cut.add(fails_at)
                calls, fails_at = 0, fails_at % 9 + 1
                raise StoreUnavailable("the process dies, before or after the write")
            return answer

        return call

    monkeypatch.setattr(store.engine.bulks, "advance", dying(advance))
    monkeypatch.setattr(store.engine.jobs, "apply", dying(apply))
    work, deaths, found = BulkWork(store.engine, store.clock, nothing_changes), 0, bulk
    while found.state is BulkState.RUNNING:
        try:
            await work.run_once()
        except StoreUnavailable:
            deaths += 1
            store.advance(LEASE)
        found = await store.engine.bulks.read(None, bulk.bulk_id) or bulk
        assert deaths < 100

    assert cut >= {1, 2, 3, 4, 5}, "it was cut off early and late"
    assert (found.progress.done, found.progress.refused) == (5, 0)
    assert sorted(run.job_id for run in await store.runs()) == sorted(jobs)


async def test_runs_are_retried_and_letters_requeued_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fine, dead, other = await store.one_shots(3), await store.one_shots(3), await store.one_shot()
    for run_id in fine:
        await store.end(run_id, State.SUCCEEDED)
    for run_id in (*dead, other):
        await store.end(run_id, State.DEAD)
    await store.history.discard(None, [other])
    query = RunQuery(store.uid, states=frozenset({State.SUCCEEDED}))

    again = await ordered(store, Action.RETRY, Kind.RUNS, runs=query, statuses=frozenset({Status.SUCCEEDED}))
    assert (await worked(store, again)).progress.done == 3
    letters = await worked(store, await ordered(store, Action.REQUEUE, Kind.LETTERS, letters=LetterQuery()))

    assert (letters.progress.done, letters.progress.refused) == (3, 0)
    parents = [(await store.run(run_id)).parent for run_id in await store.claimable()]
    assert sorted(map(str, parents)) == sorted(map(str, [*fine, *dead]))
    refused = await worked(store, await ordered(store, Action.RETRY, Kind.RUNS, ids=(other, *dead)))
    assert (refused.progress.done, refused.progress.refused) == (0, 4)
    await store.check_counts()


async def test_letters_are_discarded_by_what_they_are(store: Store) -> None:
    one, two = await store.one_shot(task="a"), await store.one_shot(task="b")
    for run_id in (one, two):
        await store.end(run_id, State.DEAD)

    ended = await worked(store, await ordered(store, Action.DISCARD, Kind.LETTERS, letters=LetterQuery(task="a")))

    assert ended.progress.done == 1
    assert [run.run_id for run in (await store.lists.dead_letters(None)).items] == [two]


async def test_waiting_and_running_runs_are_cancelled(store: Store) -> None:
    worker, runs = await store.worker(), await store.one_shots(4)
    running, other = await store.claim(worker, runs[0], runs[1])
    await store.succeed(worker, other)
    live = frozenset({State.WAITING, State.RUNNING})
    bulk = await ordered(store, Action.CANCEL, Kind.RUNS, runs=RunQuery(store.uid, states=live))

    ended = await worked(store, bulk)

    assert (ended.progress.done, ended.progress.refused) == (3, 0)
    assert (await store.run(running.run_id)).cancel_at is not None
    assert {await store.state(one) for one in runs[2:]} == {State.CANCELLED}
    assert await store.state(other.run_id) is State.SUCCEEDED


async def test_a_run_that_a_worker_takes_meanwhile_is_cancelled_all_the_same(store: Store) -> None:
    runs, live = await store.one_shots(4), frozenset({State.WAITING, State.RUNNING})
    bulk = await ordered(store, Action.CANCEL, Kind.RUNS, runs=RunQuery(store.uid, states=live))
    await BulkWork(store.engine, store.clock, nothing_changes).run_once()
    worker = await store.worker()
    taken = await store.claim_due(worker)

    ended = await worked(store, bulk)

    assert (len(taken), ended.progress.done, ended.progress.refused) == (2, 4, 0)
    assert [(await store.run(run.run_id)).cancel_at for run in taken] == [store.now] * 2
    assert len(runs) == 4


async def test_what_cannot_be_done_is_told_of_the_first_twenty(store: Store) -> None:
    started = await store.one_shots(25)
    worker = await store.worker()
    await store.claim(worker, *started)

    ended = await worked(store, await ordered(store, Action.PAUSE, ids=tuple(started)))

    assert (ended.progress.done, ended.progress.refused, len(ended.progress.reasons)) == (0, 25, 20)
    assert "already started" in ended.progress.reasons[0].reason


async def test_a_quota_refuses_the_rest(store: Store) -> None:
    jobs = [await store.recurring(every=MINUTE) for _ in range(3)]
    ids = tuple(UUID(int=one.int) for one in jobs)

    ended = await worked(store, await ordered(store, Action.RUN, ids=ids, quota=Quota(runs=2)))

    assert (ended.progress.done, ended.progress.refused) == (2, 1)


async def test_a_bulk_ends_with_its_key(store: Store) -> None:
    jobs = [await store.recurring(every=MINUTE) for _ in range(5)]
    bulk = await ordered(store, Action.PAUSE, jobs=of_jobs(store, JobStatus.ACTIVE))
    await BulkWork(store.engine, store.clock, nothing_changes).run_once()
    await store.accounts.revoke(bulk.key_id, store.now)

    ended = await worked(store, bulk)

    assert (ended.state, ended.progress.done) == (BulkState.FAILED, 2)
    assert "key" in (ended.why or "")
    assert (await statuses(store, *jobs)).count(JobStatus.ACTIVE) == 3


async def test_a_bulk_that_is_stopped_during_a_pass_says_what_that_pass_did(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [await store.recurring(every=MINUTE) for _ in range(5)]
    bulk = await ordered(store, Action.PAUSE, jobs=of_jobs(store, JobStatus.ACTIVE))
    apply = store.engine.jobs.apply

    async def stopping(*given: Any) -> bool:
        await store.engine.bulks.stop(store.uid, bulk.bulk_id, store.now)
        return await apply(*given)

    monkeypatch.setattr(store.engine.jobs, "apply", stopping)

    ended = await worked(store, bulk)

    assert (ended.state, ended.progress.done) == (BulkState.STOPPED, 2)
    assert (await statuses(store, *jobs)).count(JobStatus.PAUSED) == 2


async def test_one_object_that_cannot_be_processed_stops_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [await store.recurring(every=MINUTE) for _ in range(3)]
    read = store.engine.jobs.read

    async def broken(uid: Any, job_id: JobId) -> Any:
        if job_id == jobs[1]:
            raise ValueError("damaged")
        return await read(uid, job_id)

    monkeypatch.setattr(store.engine.jobs, "read", broken)

    ended = await worked(store, await ordered(store, Action.PAUSE, jobs=of_jobs(store, JobStatus.ACTIVE)))

    assert (ended.progress.done, ended.progress.refused) == (2, 1)
    assert ended.progress.reasons[0].id == jobs[1]
    assert replace(ended, why=None) == ended
    assert RunId(jobs[0]) not in await store.claimable()
