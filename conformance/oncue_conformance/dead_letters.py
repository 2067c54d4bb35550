"""Dead letters: kept with all their details until a user requeues or discards them.

Failures of one kind, counted together, and the dead letters of one kind.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncue.domain import attempt, error_groups
from oncue.domain.attempt import Failure
from oncue.domain.error_groups import KEPT, MOST_GROUPS, ErrorGroup
from oncue.domain.errors import Invalid
from oncue.domain.fingerprint import OTHER
from oncue.domain.ids import RunId, UserNumber, WorkerId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import decode_spec
from oncue.domain.run import Claimed, NewRun, RunView, Settlement, State, Trigger, read_attempts
from oncue.domain.schedule import Schedule
from oncue.engines.port import DeadRuns, OpenLetters
from oncue_conformance.store import Store, everything, ids, job_of, only


async def dead(store: Store, **how: Any) -> RunId:
    run_id = await store.one_shot(**how)
    await store.end(run_id, State.DEAD)
    return run_id


async def letters(store: Store, uid: UserNumber | None = None, limit: int = 100) -> list[RunView]:
    return await everything(lambda after: store.lists.dead_letters(uid, limit, after))


async def requeued(store: Store, run_id: RunId) -> NewRun:
    """Return the run that a user's requeue creates from a dead letter: with its definition and payload."""
    view = await store.run(run_id)
    assert view.spec is not None
    return NewRun(
        run_id=RunId(store.new_id()),
        job_id=view.job_id,
        uid=view.uid,
        class_id=view.class_id,
        wanted=store.now,
        nominal=view.nominal,
        job_version=view.job_version,
        origin=store.new_id(),
        trigger=Trigger.REQUEUE,
        lanes=decode_spec(view.spec).lanes(view.uid, view.job_id),
        spec=view.spec,
        payload=view.payload,
        parent=run_id,
    )


async def test_a_dead_letter_has_its_payload_and_every_attempt(store: Store) -> None:
    worker = await store.worker()
    run_id = await store.one_shot(max_retries=2, payload=b"[1]")
    for _ in range(3):
        await store.fail(worker, await store.claim_one(worker, run_id))
        store.advance(MINUTE)
        await store.beat(worker)

    letter = only(await letters(store, store.uid))

    assert (letter.run_id, letter.state, letter.payload, letter.failures) == (run_id, State.DEAD, b"[1]", 3)
    assert letter.spec is not None
    assert decode_spec(letter.spec).max_retries == 2
    assert [one.number for one in read_attempts(letter.attempts)] == [1, 2, 3]
    assert letter.error is not None


async def test_a_recurring_jobs_dead_letter_has_its_definition(store: Store) -> None:
    """Also when its job was edited since, or is gone."""
    job_id = await store.recurring(every=MINUTE, payload=b"1")
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    [run_id] = await store.claimable()
    await store.end(run_id, State.DEAD)
    await store.edit(job_id, payload=b"2")

    letter = only(await letters(store))

    assert (letter.job_id, letter.payload, letter.job_version) == (job_id, b"1", 1)
    assert letter.spec is not None


async def test_the_newest_come_first_page_by_page(store: Store) -> None:
    runs = []
    for _ in range(7):
        runs.append(await dead(store))
        store.advance(SECOND)
    theirs = await dead(store, uid=store.stranger)

    assert ids(await letters(store, store.uid, limit=3)) == runs[::-1]
    assert ids(await letters(store, limit=2)) == [theirs, *runs[::-1]]
    with pytest.raises(Invalid):
        await store.lists.dead_letters(None, after="nonsense")


async def test_many_that_died_in_one_instant_are_listed_once_each(store: Store) -> None:
    worker = await store.worker()
    runs = await store.one_shots(9)
    await store.fail(worker, *await store.claim(worker, *runs), retry=False)

    assert sorted(ids(await letters(store, limit=2))) == sorted(runs)


async def test_requeueing_makes_a_new_run_of_it(store: Store) -> None:
    run_id = await dead(store, payload=b"[1]")
    new = await requeued(store, run_id)
    worker = await store.worker()

    assert await store.history.requeue([new], store.now) == {new.run_id}

    assert await letters(store) == []
    assert (await store.run(run_id)).state is State.DEAD  # final is final; its history stays
    again = only(await store.claim_due(worker))
    assert (again.run_id, again.parent, again.trigger) == (new.run_id, run_id, Trigger.REQUEUE)
    assert (again.payload, again.inline, again.attempt) == (b"[1]", True, 1)
    await store.succeed(worker, again)
    assert (await store.run(new.run_id)).parent == run_id
    assert len(await store.runs(job_id=job_of(run_id))) == 2
    await store.check_counts()


async def test_a_letter_is_requeued_once(store: Store) -> None:
    """A repeat, or two users at once: the letter is gone, so nothing is added."""
    other = await store.second()
    run_id, discarded = await dead(store), await dead(store)
    await store.history.discard(None, [discarded])
    new = [await requeued(store, run_id) for _ in range(6)]

    answers = await asyncio.gather(
        *((store, other)[i % 2].history.requeue([one], store.now) for i, one in enumerate(new))
    )

    assert sorted(map(len, answers)) == [0, 0, 0, 0, 0, 1]
    assert await store.history.requeue([await requeued(store, discarded)], store.now) == frozenset()
    assert len(await store.claimable()) == 1
    await store.check_counts()


async def test_of_two_for_one_letter_in_one_call_the_first_is_made(store: Store) -> None:
    run_id = await dead(store)
    first, second = await requeued(store, run_id), await requeued(store, run_id)

    assert await store.history.requeue([first, second], store.now) == {first.run_id}


async def test_a_requeued_run_joins_its_lane(store: Store) -> None:
    run_id = await dead(store, group="g")
    worker = await store.worker()
    going = await store.claim_one(worker, await store.one_shot(group="g"))
    new = await requeued(store, run_id)

    await store.history.requeue([new], store.now)

    assert await store.claimable() == []
    await store.succeed(worker, going)
    assert await store.claimable() == [new.run_id]


async def test_a_discarded_letter_stays_in_history(store: Store) -> None:
    one, two = await dead(store), await dead(store)

    assert await store.history.discard(store.uid, [one, RunId(store.new_id())]) == {one}
    assert await store.history.discard(store.uid, [one]) == frozenset()

    assert ids(await letters(store)) == [two]
    assert (await store.run(one)).state is State.DEAD
    assert set(ids(await store.runs(states=frozenset({State.DEAD})))) == {one, two}


async def test_open_letters_outlive_their_stretch_of_history(store: Store) -> None:
    kept, discarded = await dead(store, payload=b"[1]"), await dead(store)
    await store.history.discard(None, [discarded])
    store.advance(100 * DAY)

    await store.maintenance.maintain(store.now, Duration(30 * DAY))

    assert only(await letters(store)).payload == b"[1]"
    assert (await store.run(kept)).payload == b"[1]"
    assert await store.history.run(None, discarded) is None
    new = await requeued(store, kept)
    assert await store.history.requeue([new], store.now) == {new.run_id}
    store.advance(HOUR)
    assert await store.claimable() == [new.run_id]


async def test_who_has_many_open_dead_letters_is_known_and_when_the_oldest_died(store: Store) -> None:
    assert await store.history.open_letters(1) == OpenLetters(None, {})
    first = store.now
    letters = []
    for uid in (store.uid, store.uid, store.uid, store.stranger):
        letters.append(await store.one_shot(uid=uid))
        await store.end(letters[-1], State.DEAD)
        store.advance(MINUTE)
    await store.end(await store.one_shot(), State.SUCCEEDED)
    await store.maintenance.roll_up()

    assert await store.history.open_letters(2) == OpenLetters(first, {store.uid: 3})
    await store.history.discard(None, letters[:2])
    await store.maintenance.roll_up()
    assert await store.history.open_letters(2) == OpenLetters(Instant(first + 2 * MINUTE), {})
    assert (await store.history.open_letters(1)).users == {store.uid: 1, store.stranger: 1}


async def test_dead_letters_are_told_by_job(store: Store) -> None:
    """Those of the newest that were looked at, of jobs that have several runs."""
    worker = await store.worker()
    died: dict[str, list[Instant]] = {"a": [], "b": []}
    jobs = {
        "a": await store.recurring(Schedule(every=MINUTE, anchor=store.now), task="a"),
        "b": await store.recurring(Schedule(every=MINUTE, anchor=store.now), task="b", uid=store.stranger),
    }
    for failing in ("ab", "b", "b"):
        store.advance(MINUTE)
        await store.beat(worker)
        await store.plan()
        for run in await store.claim_due(worker):
            store.advance(SECOND)
            task = decode_spec(run.spec).task
            if task in failing:
                await store.fail(worker, run, retry=False)
                died[task].append(store.now)
            else:
                await store.succeed(worker, run)

    by_job = {name: DeadRuns(jobs[name], len(at), at[0], at[-1]) for name, at in died.items()}
    assert await store.lists.dead_by_job(None, 100) == [by_job["b"], by_job["a"]]
    assert await store.lists.dead_by_job(store.uid, 100) == [by_job["a"]]
    assert await store.lists.dead_by_job(store.stranger, 2) == [DeadRuns(jobs["b"], 2, *died["b"][1:])]
    store.advance(SECOND)
    await dead(store)
    assert await store.lists.dead_by_job(None, 1) == []  # a one-shot


# ------------------------------------------------------------------------------------------------- failures of one kind


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


async def letters_of_kind(store: Store, uid: UserNumber | None, fingerprint: int, limit: int = 100) -> list[RunId]:
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
    assert sorted(await letters_of_kind(store, store.uid, user.fingerprint, 1)) == first
    assert sorted(await letters_of_kind(store, store.uid, disk.fingerprint)) == second
    assert sorted(await letters_of_kind(store, None, user.fingerprint, 1)) == sorted([*first, *theirs])
    assert await letters_of_kind(store, store.stranger, disk.fingerprint) == []
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
