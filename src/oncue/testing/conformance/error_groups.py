"""Failures of one kind, counted together, and the dead letters of one kind."""

from __future__ import annotations

import pytest

from oncue.domain import attempt, error_groups
from oncue.domain.attempt import Failure
from oncue.domain.error_groups import KEPT, MOST_GROUPS, ErrorGroup
from oncue.domain.fingerprint import OTHER
from oncue.domain.ids import RunId, UserNumber, WorkerId
from oncue.domain.instants import DAY, MINUTE
from oncue.domain.job import decode_spec
from oncue.domain.run import Claimed, Settlement, State
from oncue.testing.conformance.store import Store, everything, only


def failed(store: Store, worker: WorkerId, run: Claimed, error: str, *, retry: bool = False) -> Settlement:
    failure = Failure(error_type="ValueError", error=error, retry=retry)
    return attempt.failed(run, decode_spec(run.spec), worker, store.now, store.now, failure, luck=0.0)


async def die(store: Store, error: str, n: int = 1, uid: UserNumber | None = None) -> list[RunId]:
    worker = await store.worker()
    run_ids = await store.one_shots(n, uid=uid)
    runs = await store.claim(worker, *run_ids)
    await store.settle(worker, *(failed(store, worker, run, f"{error} {place}") for place, run in enumerate(runs)))
    await store.fleet.leave(worker)
    return sorted(run_ids)


async def groups(store: Store, uid: UserNumber | None = None, limit: int = 100) -> list[ErrorGroup]:
    while await store.engine.errors.roll_up(2):
        pass
    return await everything(lambda after: store.engine.errors.groups(uid, limit, after))


async def letters(store: Store, uid: UserNumber | None, fingerprint: int, limit: int = 100) -> list[RunId]:
    found = await everything(lambda after: store.lists.dead_letters(uid, limit, after, fingerprint=fingerprint))
    return [run.run_id for run in found]


async def test_failures_that_are_alike_are_one_group(store: Store) -> None:
    first = await die(store, "no user", 3)
    store.advance(MINUTE)
    second = await die(store, "no disk", 2)
    theirs = await die(store, "no user", 1, store.stranger)

    disk, user = await groups(store, store.uid, limit=1)

    assert (user.count, disk.count, user.uid, user.error_type) == (3, 2, store.uid, "ValueError")
    assert (user.sample[:7], user.last_seen, disk.last_seen) == ("no user", store.now - MINUTE, store.now)
    assert sum(disk.trend(store.now)) == 2
    everybody = {(one.uid, one.count) for one in await groups(store, limit=1)}
    assert everybody == {(store.uid, 2), (store.uid, 3), (store.stranger, 1)}
    assert sorted(await letters(store, store.uid, user.fingerprint, 1)) == first
    assert sorted(await letters(store, store.uid, disk.fingerprint)) == second
    assert sorted(await letters(store, None, user.fingerprint, 1)) == sorted([*first, *theirs])
    assert await letters(store, store.stranger, disk.fingerprint) == []
    ours, theirs_ = (store.uid, user.fingerprint), (store.stranger, user.fingerprint)
    assert await store.engine.errors.open_letters([ours, theirs_, (store.stranger, 5)], most=2) == {ours: 2, theirs_: 1}
    known = await store.engine.errors.fingerprints([first[0], second[0], RunId(store.new_id())])
    assert known == {first[0]: user.fingerprint, second[0]: disk.fingerprint}


async def test_an_attempt_that_is_tried_again_or_lost_counts_and_a_cancelled_one_does_not(store: Store) -> None:
    worker = await store.worker()
    again, lost, cancelled, fine = await store.one_shots(4)
    runs = {run.run_id: run for run in await store.claim(worker, again, lost, cancelled, fine)}
    await store.running.cancel(None, cancelled, store.now)
    await store.settle(
        worker,
        failed(store, worker, runs[again], "no user", retry=True),
        failed(store, worker, runs[cancelled], "no user", retry=True),
        attempt.succeeded(runs[fine], store.now, store.now, None),
    )
    await store.settle(worker, failed(store, worker, runs[again], "no user", retry=True))  # no longer its own
    await store.lose(worker)
    await store.recover_runs()

    found = {one.error_type: one.count for one in await groups(store)}

    assert found == {"ValueError": 1, "WorkerLost": 1}
    assert await store.state(cancelled) is State.CANCELLED


async def test_what_was_added_up_is_not_added_again(store: Store) -> None:
    await die(store, "no user", 3)

    assert only(await groups(store)).count == 3
    assert await store.engine.errors.roll_up() == 0
    await die(store, "no user", 2)
    assert only(await groups(store)).count == 5


async def test_a_group_is_dropped_long_after_its_last_failure(store: Store) -> None:
    await die(store, "old")
    store.advance(KEPT - DAY)
    await die(store, "new")
    await groups(store)
    store.advance(2 * DAY)

    await store.maintenance.maintain(store.now, KEPT)

    assert only(await groups(store)).sample == "new 0"


async def test_a_user_has_so_many_groups_and_one_of_the_rest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_groups, "MOST_GROUPS", 2)
    for error in ("a", "b", "c", "d", "a"):
        await die(store, error)
        await groups(store)

    found = {one.fingerprint == OTHER: one for one in await groups(store)}

    assert len(await groups(store)) == 3
    assert (found[True].count, found[True].error_type) == (2, "other")
    assert MOST_GROUPS == 1_000
