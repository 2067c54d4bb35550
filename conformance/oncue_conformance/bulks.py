"""Actions on many objects: who works on one, and how far it is.

Turns: whoever comes first does the next step of recurring work, and there is no leader.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import msgspec

from oncue.domain.ids import JobId, KeyId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.domain.job import JobStatus
from oncue.domain.run import State, Status
from oncue.engines.bulk_values import Action, Bulk, BulkState, Kind, LetterQuery, Order, Progress, Reason
from oncue.engines.port import BULKS_STAY, JobQuery, Key, Role, RunQuery
from oncue_conformance.store import Store, everything, only

LEASE = Duration(MINUTE)


async def key_of(store: Store, **how: Any) -> KeyId:
    key_id, hashed = KeyId(store.new_id()), store.chance.randbytes(32)
    await store.accounts.add_key(Key(key_id, hashed, store.uid, "ada", Role.MEMBER, store.now, **how))
    return key_id


async def new(store: Store, key_id: KeyId | None = None, **how: Any) -> Bulk:
    order = Order(Action.PAUSE, Kind.JOBS, jobs=JobQuery(store.uid, task="t"), asked={"task": "t"})
    fields: dict[str, Any] = {"uid": store.uid, "role": Role.MEMBER, "created_at": store.now, "order": order} | how
    bulk = Bulk(bulk_id=store.new_id(), key_id=key_id or await key_of(store), **fields)
    assert await store.engine.bulks.add(bulk)
    return bulk


async def test_a_bulk_is_read_as_it_was_stored_by_its_user_alone(store: Store) -> None:
    order = Order(
        action=Action.RETRY,
        of=Kind.RUNS,
        ids=(store.new_id(),),
        jobs=JobQuery(store.uid, frozenset({JobStatus.ACTIVE}), name="ü\x1f"),
        runs=RunQuery(store.uid, states=frozenset({State.DEAD}), job_id=JobId(store.new_id())),
        statuses=frozenset({Status.DEAD}),
        letters=LetterQuery(fingerprint=-5),
    )
    bulk = await new(store, order=order, total=7)

    assert await store.engine.bulks.read(store.uid, bulk.bulk_id) == bulk
    assert await store.engine.bulks.read(None, bulk.bulk_id) == bulk
    assert await store.engine.bulks.read(store.stranger, bulk.bulk_id) is None
    assert await store.engine.bulks.read(None, store.new_id()) is None
    assert not await store.engine.bulks.stop(store.stranger, bulk.bulk_id, store.now)


async def test_bulks_are_listed_newest_first(store: Store) -> None:
    bulks, key_id = [], await key_of(store)
    for _ in range(3):
        bulks.append((await new(store, key_id)).bulk_id)
        store.advance(SECOND)
    theirs = (await new(store, key_id, uid=store.stranger)).bulk_id

    async def listed(uid: Any) -> list[UUID]:
        found = await everything(lambda after: store.engine.bulks.page(uid, 2, after))
        return [one.bulk_id for one in found]

    assert await listed(store.uid) == bulks[::-1]
    assert await listed(None) == [theirs, *bulks[::-1]]
    assert await listed(store.stranger) == [theirs]


async def test_a_user_has_only_so_many_open_ones_however_many_are_added_at_once(store: Store) -> None:
    first, key_id = await new(store), await key_of(store)
    others = [
        Bulk(store.new_id(), store.uid, key_id, Role.MEMBER, store.now, Order(Action.RUN, Kind.JOBS, ids=()))
        for _ in range(6)
    ]

    stored = await asyncio.gather(*(store.engine.bulks.add(one, most_open=3) for one in others))

    assert stored.count(True) == 2
    assert await store.engine.bulks.add(first, most_open=3), "a repeat"
    await new(store, key_id, uid=store.stranger)
    assert await store.engine.bulks.stop(store.uid, first.bulk_id, store.now)
    assert await store.engine.bulks.add(others[stored.index(False)], most_open=3)


async def test_one_caller_at_a_time_works_on_a_bulk_and_its_successor_goes_on(store: Store) -> None:
    await new(store)
    takes = await asyncio.gather(*(store.engine.bulks.take(store.now, LEASE) for _ in range(3)))
    taken = only([one for one in takes if one is not None])
    reached = Progress(1, "x", True, (store.new_id(),), 5, 2, (Reason(store.new_id(), "wäre"),))

    assert await store.engine.bulks.advance(taken.bulk, reached, store.now, LEASE)
    store.advance(LEASE - SECOND)
    assert await store.engine.bulks.take(store.now, LEASE) is None
    store.advance(SECOND)
    successor = await store.engine.bulks.take(store.now, LEASE)

    assert successor is not None
    assert (successor.allowed, successor.bulk.progress, successor.bulk.turn) == (True, reached, taken.bulk.turn + 1)
    assert not await store.engine.bulks.advance(taken.bulk, Progress(done=99), store.now), "it is another's by now"
    assert await store.engine.bulks.advance(successor.bulk, Progress(done=8), store.now, state=BulkState.FINISHED)
    ended = await store.engine.bulks.read(None, taken.bulk.bulk_id)
    assert ended is not None
    assert (ended.progress.done, ended.state, ended.ended_at) == (8, BulkState.FINISHED, store.now)
    store.advance(LEASE)
    assert await store.engine.bulks.take(store.now, LEASE) is None


async def test_bulks_take_turns(store: Store) -> None:
    one, key_id = await new(store), await key_of(store)
    store.advance(SECOND)
    other, order = await new(store, key_id), []
    for _ in range(4):
        store.advance(SECOND)
        taken = await store.engine.bulks.take(store.now, LEASE)
        assert taken is not None
        order.append(taken.bulk.bulk_id)
        await store.engine.bulks.advance(taken.bulk, taken.bulk.progress, store.now)

    assert order == [one.bulk_id, other.bulk_id, one.bulk_id, other.bulk_id]


async def test_a_stopped_bulk_is_not_worked_on(store: Store) -> None:
    bulk = await new(store)
    taken = await store.engine.bulks.take(store.now, LEASE)
    assert taken is not None

    assert await store.engine.bulks.stop(store.uid, bulk.bulk_id, store.now)

    assert not await store.engine.bulks.stop(store.uid, bulk.bulk_id, store.now)
    assert not await store.engine.bulks.advance(taken.bulk, Progress(done=1), store.now, LEASE)
    found = await store.engine.bulks.read(None, bulk.bulk_id)
    assert found is not None
    assert (found.state, found.progress) == (BulkState.STOPPED, Progress())


async def test_what_a_pass_did_is_recorded_though_its_bulk_was_stopped(store: Store) -> None:
    bulk = await new(store)
    taken = await store.engine.bulks.take(store.now, LEASE)
    assert taken is not None
    assert not await store.engine.bulks.record(taken.bulk, Progress(done=1)), "it is not stopped"
    await store.engine.bulks.stop(store.uid, bulk.bulk_id, store.now)

    earlier = msgspec.structs.replace(taken.bulk, turn=taken.bulk.turn - 1)
    assert not await store.engine.bulks.record(earlier, Progress(done=2)), "another caller has taken it since"
    for _ in range(2):
        assert await store.engine.bulks.record(taken.bulk, Progress(done=3))
    found = await store.engine.bulks.read(None, bulk.bulk_id)
    assert found is not None
    assert (found.state, found.progress) == (BulkState.STOPPED, Progress(done=3))


async def test_a_bulk_knows_whether_its_key_still_counts(store: Store) -> None:
    for how, at in (({"expires_at": store.at(MINUTE)}, 2 * MINUTE), ({}, 0)):
        bulk = await new(store, await key_of(store, **how))
        store.advance(at)
        if not how:
            await store.accounts.revoke(bulk.key_id, store.now)
        taken = await store.engine.bulks.take(store.now, LEASE)
        assert taken is not None
        assert not taken.allowed
        await store.engine.bulks.advance(taken.bulk, Progress(), store.now, state=BulkState.FAILED, why="no")


async def test_what_a_newer_version_asks_for_is_left_to_it(store: Store) -> None:
    class NewerQuery(JobQuery, frozen=True):
        owner: str | None = "me"

    newer = await new(store, order=Order(Action.CANCEL, Kind.JOBS, jobs=NewerQuery(store.uid)))
    older = await new(store)

    found = [taken for _ in range(3) if (taken := await store.engine.bulks.take(store.now, LEASE)) is not None]

    assert [taken.bulk.bulk_id for taken in found] == [older.bulk_id]
    assert newer.bulk_id != older.bulk_id


async def test_an_ended_bulk_is_dropped_after_a_while(store: Store) -> None:
    ended, key_id = await new(store), await key_of(store)
    await store.engine.bulks.stop(None, ended.bulk_id, store.now)
    store.advance(BULKS_STAY - DAY)
    await store.maintenance.maintain(store.now, BULKS_STAY)
    assert await store.engine.bulks.read(None, ended.bulk_id) is not None
    kept = await new(store, key_id)
    store.advance(2 * DAY)

    await store.maintenance.maintain(store.now, BULKS_STAY)

    assert await store.engine.bulks.read(None, ended.bulk_id) is None
    assert await store.engine.bulks.read(None, kept.bulk_id) == msgspec.structs.replace(kept)


# ---------------------------------------------------------------------------------------------------------------- turns

EVERY = Duration(5 * SECOND)


async def take(store: Store, name: str = "audit") -> bytes | None:
    return await store.maintenance.take_turn(name, store.now, EVERY)


async def test_of_many_who_come_at_once_one_gets_the_turn(store: Store) -> None:
    stores = [store, await store.second(), await store.second()]

    for turn in (b"", b"next"):  # one that nobody has had, and one that somebody finished
        taken = await asyncio.gather(*(take(one) for one in stores * 5))
        assert [one for one in taken if one is not None] == [turn]
        assert await store.maintenance.finish_turn("audit", turn, b"next")
        store.advance(EVERY)


async def test_a_turn_is_due_so_long_after_it_was_taken_finished_or_not(store: Store) -> None:
    """Whoever dies with it only delays it: the next one begins where that one did."""
    assert await take(store) == b""
    store.advance(EVERY - 1)
    assert await take(store) is None

    store.advance(1)
    assert await take(store) == b""


async def test_turns_of_one_name_are_not_those_of_another(store: Store) -> None:
    assert await take(store, "audit") == b""
    assert await take(store, "archive") == b""
    await store.maintenance.finish_turn("archive", b"", b"7")
    store.advance(EVERY)

    assert await take(store, "audit") == b""
    assert await take(store, "archive") == b"7"


async def test_who_comes_too_late_with_a_turn_moves_nothing(store: Store) -> None:
    """It took so long that another had the same turn, and finished it."""
    assert await take(store) == b""
    store.advance(EVERY)
    assert await take(store) == b""
    assert await store.maintenance.finish_turn("audit", b"", b"2")

    assert not await store.maintenance.finish_turn("audit", b"", b"1")
    assert not await store.maintenance.finish_turn("never taken", b"", b"1")
    store.advance(EVERY)
    assert await take(store) == b"2"


async def test_turns_go_on_when_the_clock_was_set_back(store: Store) -> None:
    assert await take(store) == b""
    store.advance(-HOUR)

    assert await take(store) == b""
    assert await take(store) is None
