"""Declared jobs: found by their keys, rehearsed without a trace, and stamped so that older ones never win."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.errors import QuotaExceeded, Superseded, TooManyClasses
from oncue.domain.ids import NO_CLASS
from oncue.domain.instants import HOUR, MINUTE
from oncue.engines.port import MOST_SETS, Created, Creation, KeyHolder, NewJob, Quota, SetStamp, StampGuard, Usage
from oncue.settings import Settings
from oncue.testing.conformance.store import Store, job_of, only

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
