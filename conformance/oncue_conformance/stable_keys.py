"""Stable keys: of a user's active or paused jobs at most one has a given key.

Declared jobs: found by their keys, rehearsed without a trace, and stamped so that older ones never win.
"""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.errors import QuotaExceeded, Superseded, TooManyClasses
from oncue.domain.ids import NO_CLASS, JobId, RunId
from oncue.domain.instants import DAY, HOUR, MINUTE, Duration
from oncue.domain.job import JobStatus, definition_of
from oncue.domain.run import Settled, State
from oncue.domain.schedule import Schedule
from oncue.engines.port import (
    MOST_SETS,
    Created,
    Creation,
    IdempotencyKey,
    KeyHolder,
    NewJob,
    Quota,
    SetStamp,
    StampGuard,
    Usage,
)
from oncue.settings import Settings
from oncue_conformance.store import Store, job_of, only

MONTH = Duration(30 * DAY)


async def new_of(store: Store, kind: str, **how: Any) -> NewJob:
    return await (store.new_recurring(**how) if kind == "recurring" else store.new_one_shot(HOUR, **how))


@pytest.mark.parametrize("kind", ["recurring", "one-shot"])
async def test_a_key_belongs_to_one_job_of_a_user_until_that_ends(store: Store, kind: str) -> None:
    first, second = [await new_of(store, kind, key="k") for _ in range(2)]
    other_key, no_key = await new_of(store, kind, key="K"), await new_of(store, kind)
    theirs = await new_of(store, kind, key="k", uid=store.stranger)
    assert await store.keyed("k") is None

    assert only(await store.create(first)) == Creation(Created.NEW, first.job.job_id)
    answers = await store.create(second, other_key, no_key, theirs)

    assert answers[0] == Creation(Created.KEY_TAKEN, first.job.job_id)
    assert [one.outcome for one in answers[1:]] == [Created.NEW] * 3
    assert await store.jobs.read(None, second.job.job_id) is None
    assert await store.keyed("k") == first.job.job_id
    assert await store.keyed("k", store.stranger) == theirs.job.job_id
    assert only(await store.create(first)).outcome is Created.REPEATED  # a retry after a lost answer
    await store.pause(first.job.job_id)
    assert only(await store.create(second)).outcome is Created.KEY_TAKEN
    await store.jobs.cancel(None, first.job.job_id, store.now)
    assert await store.keyed("k") == first.job.job_id
    assert only(await store.create(second)).outcome is Created.NEW
    assert await store.keyed("k") == second.job.job_id


async def test_a_one_shot_has_its_key_while_it_runs_and_until_it_is_over(store: Store) -> None:
    run_id, worker = await store.one_shot(key="k"), await store.worker()
    run = await store.claim_one(worker, run_id)
    again = await store.new_one_shot(key="k")
    assert only(await store.create(again)) == Creation(Created.KEY_TAKEN, job_of(run_id))
    await store.fail(worker, run)
    assert only(await store.create(again)).outcome is Created.KEY_TAKEN
    store.advance(MINUTE)
    await store.beat(worker)
    await store.fail(worker, only(await store.claim_due(worker)), retry=False)

    assert only(await store.create(again)).outcome is Created.NEW


async def test_a_job_keeps_its_key_when_an_edit_makes_it_a_one_shot(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, key="k")
    assert await store.edit(job_id, schedule=Schedule(at=store.at(HOUR)))

    assert only(await store.create(await store.new_one_shot(key="k"))) == Creation(Created.KEY_TAKEN, job_id)


async def test_of_one_batch_the_first_gets_the_key(store: Store) -> None:
    new = [await store.new_one_shot(key=key) for key in ("a", "b", "a", "b")]

    assert {one.outcome for one in await store.create(*new, whole=True)} == {Created.NEW, Created.KEY_TAKEN}
    assert await store.keyed("a") is None  # all or nothing

    assert await store.create(*new) == [
        Creation(Created.NEW, new[0].job.job_id),
        Creation(Created.NEW, new[1].job.job_id),
        Creation(Created.KEY_TAKEN, new[0].job.job_id),
        Creation(Created.KEY_TAKEN, new[1].job.job_id),
    ]


async def test_of_many_at_once_one_gets_the_key(store: Store) -> None:
    """Also of two keys in opposite order, and where the job that had them has ended."""
    stores = [store, await store.second()]
    for _ in range(3):
        new = [[await store.new_one_shot(HOUR, key=key) for key in ("ab", "ba")[i % 2]] for i in range(8)]
        answers = await asyncio.gather(
            *(one.create(*batch) for one, batch in zip(cycle(stores), new, strict=False)),
        )
        won: dict[str, list[JobId]] = {"a": [], "b": []}
        for batch, answer in zip(new, answers, strict=True):
            for job, one in zip(batch, answer, strict=True):
                if one.outcome is Created.NEW:
                    won[str(job.job.spec.key)].append(one.job_id)
        for key, jobs in won.items():
            assert await store.keyed(key) == only(jobs)
            await store.jobs.cancel(None, only(jobs), store.now)
        assert len(await store.runs(states=frozenset({State.WAITING}))) == 0


async def test_who_is_refused_leaves_no_idempotency_key_behind(store: Store) -> None:
    first, idempotency_key = await store.recurring(every=MINUTE, key="k"), IdempotencyKey(b"r" * 16, b"b" * 16)
    new = [await store.new_one_shot(key="k", idempotency_key=idempotency_key) for _ in range(3)]

    assert await store.create(*new[:2]) == [Creation(Created.KEY_TAKEN, first)] * 2
    await store.jobs.cancel(None, first, store.now)

    assert only(await store.create(new[2])) == Creation(Created.NEW, new[2].job.job_id)
    again = await store.new_one_shot(key="k", idempotency_key=idempotency_key)
    assert only(await store.create(again)) == Creation(Created.REPEATED, new[2].job.job_id)


async def test_a_one_shot_that_is_being_stopped_has_ended_as_far_as_its_key_is_concerned(store: Store) -> None:
    run_id, worker = await store.one_shot(key="k"), await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.jobs.cancel(None, job_of(run_id), store.now)
    snap = await store.jobs.read(None, job_of(run_id))
    assert snap is not None
    assert (snap.job.status, snap.going) == (JobStatus.CANCELLED, (run_id,))

    again = await store.new_one_shot(key="k")
    assert only(await store.create(again)) == Creation(Created.NEW, again.job.job_id)

    assert await store.succeed(worker, run) == Settled(cancelled=frozenset({run_id}))
    assert await store.keyed("k") == again.job.job_id
    assert only(await store.create(await store.new_one_shot(key="k"))) == Creation(Created.KEY_TAKEN, again.job.job_id)


async def applied(store: Store, **how: Any) -> RunId:
    new = replace(await store.new_one_shot(**how), applied=True)
    await store.create(new)
    return RunId(new.job.job_id)


async def test_who_had_a_key_is_known_after_its_history_was_dropped_unless_it_was_cancelled(store: Store) -> None:
    """A client that puts the same job again must not run it twice."""
    ends = {State.SUCCEEDED: "done", State.DEAD: "dead", State.CANCELLED: "cancelled"}
    runs = {key: await applied(store, key=key, payload=b'{"b":[1],"a":true}') for key in ends.values()}
    made = await store.one_shot(key="made")
    await store.end(made, State.SUCCEEDED)
    lives = await store.recurring(every=HOUR, key="lives")
    for state, key in ends.items():
        await store.end(runs[key], state)
    await store.history.discard(None, [runs["dead"]])
    snap = await store.jobs.read(None, job_of(runs["done"]))
    assert snap is not None
    store.advance(20 * DAY)
    await store.maintenance.maintain(store.now, MONTH)
    assert [await store.keyed(key) for key in runs] == [job_of(run_id) for run_id in runs.values()]
    store.advance(12 * DAY)
    assert await store.maintenance.maintain(store.now, MONTH) >= 1

    assert await store.jobs.read(None, job_of(runs["done"])) is None
    assert await store.jobs.keyed(store.uid, "done") == KeyHolder(
        job_of(runs["done"]), definition_of(snap.job.spec, b' {"a": true, "b": [1]}')
    )
    assert [await store.keyed(key) for key in ("dead", "cancelled", "lives")] == [job_of(runs["dead"]), None, lives]
    assert await store.keyed("made") is None, "whoever makes jobs with keys of their own does not fill the store"
    assert only(await store.create(await store.new_one_shot(key="done"))).outcome is Created.NEW


@pytest.mark.parametrize("kind", ["recurring", "one-shot"])
async def test_what_is_known_of_a_one_shot_is_what_it_was_last(store: Store, kind: str) -> None:
    new = replace(await new_of(store, kind, key="k", payload=b'{"a": 1}'), applied=True)
    await store.create(new)
    assert await store.edit(new.job.job_id, schedule=Schedule(at=store.now), name="other")
    snap = await store.jobs.read(None, new.job.job_id)
    assert snap is not None

    assert await store.jobs.keyed(store.uid, "k") == KeyHolder(new.job.job_id, definition_of(snap.job.spec, b'{"a":1}'))
    assert definition_of(snap.job.spec, b'{"a":1}') != definition_of(new.job.spec, b'{"a":1}')


async def test_who_is_refused_leaves_what_is_known_of_the_other(store: Store) -> None:
    first, second = [replace(await store.new_one_shot(HOUR, key="k", name=name), applied=True) for name in "ab"]
    await store.create(first)
    holder = await store.jobs.keyed(store.uid, "k")

    assert only(await store.create(second)).outcome is Created.KEY_TAKEN
    assert await store.jobs.keyed(store.uid, "k") == holder
    await store.jobs.cancel(None, first.job.job_id, store.now)
    await store.create(second)

    assert await store.jobs.keyed(store.uid, "k") == KeyHolder(second.job.job_id, definition_of(second.job.spec, None))


# -------------------------------------------------------------------------------------------------------- declared jobs

NEW, TAKEN, OVER = Created.NEW, Created.KEY_TAKEN, Created.OVER_QUOTA


async def recurring(store: Store, quota: Quota | None = None, **how: Any) -> NewJob:
    return replace(await store.new_recurring(**how), quota=quota)


async def test_jobs_are_found_by_many_keys_at_once(store: Store) -> None:
    first = await recurring(store, key="a", payload=b'{"n":1}', tags=("x",))
    theirs = await recurring(store, key="b", uid=store.stranger)
    await store.create(first, theirs)
    one_shot = job_of(await store.one_shot(HOUR, key="o"))
    await store.jobs.cancel(None, first.job.job_id, store.now)

    found = await store.engine.declaring.keyed(store.uid, ["o", "b", "a", "nothing"])

    assert found.keys() == {"a", "o"}
    snap = await store.snapshot(first.job.job_id)
    assert (found["a"].holder, found["a"].job) == (KeyHolder(first.job.job_id), snap.job)
    assert (found["o"].holder, found["o"].job) == (KeyHolder(one_shot), None)
    assert await store.engine.declaring.keyed(store.uid, []) == {}


async def test_a_rehearsal_answers_as_creation_does_and_stores_nothing(store: Store) -> None:
    quota = Quota(jobs=3, payload=100)
    held = await recurring(store, quota, key="k", payload=b"x" * 40)
    assert only(await store.create(held)).outcome is NEW
    classes = await store.class_ids()
    new = [
        replace(await recurring(store, quota, key=key, payload=payload), class_id=NO_CLASS)
        for key, payload in (("k", None), ("a", b"x" * 60), ("a", None), ("b", b"x"), ("c", None), ("d", None))
    ]

    for _ in range(2):
        answers = await store.engine.declaring.rehearse(new)
        assert [one.outcome for one in answers] == [TAKEN, NEW, TAKEN, OVER, NEW, OVER]
        assert answers[:2] == [Creation(TAKEN, held.job.job_id), Creation(NEW, new[1].job.job_id)]
        assert answers[3].used == Usage(2, 100, 2**62)
    assert await store.keyed("a") is None
    assert await store.class_ids() == classes
    assert [await store.jobs.read(None, one.job.job_id) for one in new] == [None] * 6
    assert [one.outcome for one in await store.create(*new)] == [TAKEN, NEW, TAKEN, OVER, NEW, OVER]


async def test_a_rehearsal_counts_what_changes_add_together(store: Store) -> None:
    quota = Quota(jobs=9, payload=100)
    jobs = [await recurring(store, quota, payload=b"x" * 30) for _ in range(2)]
    await store.create(*jobs)
    snaps = [await store.snapshot(one.job.job_id) for one in jobs]
    rehearse = store.engine.declaring.rehearse

    async def changes(*sizes: int) -> list[Any]:
        return [await store.edited(snap, payload=b"x" * size) for snap, size in zip(snaps, sizes, strict=True)]

    assert await rehearse([], await changes(50, 50), quota) == []
    assert await rehearse([], await changes(90, 5), quota) == []  # one shrinks
    with pytest.raises(QuotaExceeded, match="adds 41"):
        await rehearse([], await changes(50, 51), quota)
    one_more = await recurring(store, quota, payload=b"x" * 10)
    assert only(await rehearse([one_more], await changes(50, 40), quota)).outcome is NEW
    assert only(await rehearse([one_more], await changes(50, 41), quota)).outcome is OVER
    large = await recurring(store, quota, payload=b"x" * 70)
    assert only(await rehearse([large], await changes(30, 0), quota)).outcome is NEW
    assert only(await rehearse([large], await changes(30, 1), quota)).outcome is OVER
    assert await store.snapshot(jobs[0].job.job_id) == snaps[0]


async def test_a_rehearsal_refuses_too_many_classes(store: Store) -> None:
    store.numbers_classes = False
    most, rehearse = Settings().quota_classes, store.engine.declaring.rehearse
    mine = await store.recurring()  # one of them
    ahead = [await store.new_one_shot(HOUR, queue=f"q{n}") for n in range(most)]
    edit = await store.edited(await store.snapshot(mine), queue="x")

    assert len(await rehearse(ahead[: most - 1])) == most - 1
    with pytest.raises(TooManyClasses):
        await rehearse(ahead)
    with pytest.raises(TooManyClasses):
        await rehearse(ahead[: most - 1], [edit])
    assert len(await store.jobs.classes()) == 1


async def test_a_stamp_only_rises(store: Store) -> None:
    declaring, low, high = store.engine.declaring, SetStamp(5, b"a"), SetStamp(6, b"b")
    assert await declaring.stamp(store.uid, "shop") is None

    assert await declaring.put_stamp(store.uid, "shop", low, store.now)
    assert await declaring.put_stamp(store.uid, "shop", low, store.advance(MINUTE))
    assert await declaring.put_stamp(store.uid, "shop", SetStamp(5, b"other"), store.now)
    assert await declaring.put_stamp(store.uid, "shop", high, store.now)
    assert not await declaring.put_stamp(store.uid, "shop", low, store.now)

    assert await declaring.stamp(store.uid, "shop") == high
    assert await declaring.stamp(store.stranger, "shop") is None
    assert await declaring.put_stamp(store.stranger, "shop", low, store.now)


async def test_under_a_guard_jobs_are_written_only_while_their_set_has_that_stamp(store: Store) -> None:
    """Whoever applies an older declaration writes nothing from when a newer one is stamped."""
    stamp = SetStamp(5, b"a")
    guard = StampGuard(store.uid, "shop", stamp)
    await store.engine.declaring.put_stamp(store.uid, "shop", stamp, store.now)
    kept = [await recurring(store, key=key) for key in ("a", "b")]
    assert [one.outcome for one in await store.jobs.create(kept, store.now, guard=guard)] == [NEW, NEW]
    first, second = (one.job.job_id for one in kept)
    edit = await store.edited(await store.snapshot(first), max_retries=7)
    assert await store.jobs.apply(edit, store.now, guard=guard)
    assert await store.jobs.cancel(store.uid, second, store.now, guard) is not None
    late = [await recurring(store, key="c"), await store.new_one_shot(HOUR)]
    edit = await store.edited(await store.snapshot(first), max_retries=9)
    before = await store.snapshot(first)

    for newer in (SetStamp(5, b"b"), SetStamp(6, b"a")):
        assert await store.engine.declaring.put_stamp(store.uid, "shop", newer, store.now)
        with pytest.raises(Superseded):
            await store.jobs.create(late, store.now, guard=guard)
        with pytest.raises(Superseded):
            await store.jobs.create(late[1:], store.now, guard=guard)
        with pytest.raises(Superseded):
            await store.jobs.apply(edit, store.now, guard=guard)
        with pytest.raises(Superseded):
            await store.jobs.cancel(store.uid, first, store.now, guard)

    assert await store.snapshot(first) == before
    assert [await store.jobs.read(None, one.job.job_id) for one in late] == [None, None]
    theirs = StampGuard(store.stranger, "shop", SetStamp(6, b"a"))
    with pytest.raises(Superseded):
        await store.jobs.create(late, store.now, guard=theirs)


async def test_of_many_stamps_at_once_the_highest_stays(store: Store) -> None:
    declaring = store.engine.declaring
    await asyncio.gather(
        *(declaring.put_stamp(store.uid, "shop", SetStamp(n, b"%d" % n), store.now) for n in (3, 9, 1, 7, 5))
    )
    assert await declaring.stamp(store.uid, "shop") == SetStamp(9, b"9")


async def test_a_user_has_so_many_sets_and_no_more(store: Store) -> None:
    declaring, stamp = store.engine.declaring, SetStamp(1, b"")
    for n in range(MOST_SETS):
        assert await declaring.put_stamp(store.uid, f"set-{n}", stamp, store.now)

    assert not await declaring.put_stamp(store.uid, "one-more", stamp, store.now)
    assert await declaring.put_stamp(store.uid, "set-0", SetStamp(2, b""), store.now)
    assert await declaring.put_stamp(store.stranger, "set-0", stamp, store.now)
