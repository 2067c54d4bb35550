"""The processes of oncue that run on a store."""

from __future__ import annotations

from msgspec.structs import replace

from oncue.domain.instants import DAY, HOUR, SECOND, Duration
from oncue.engines.port import Member
from oncue.testing.conformance.store import Store


def member(store: Store, role: str = "api") -> Member:
    return Member(store.new_id(), role, "1.2.3", store.engine.schema, "host", started_at=store.now, beat_at=store.now)


async def test_a_process_is_a_member_from_its_first_heartbeat_until_it_leaves(store: Store) -> None:
    first = member(store)
    await store.members.beat(first, store.now)
    store.advance(SECOND)
    second = member(store, "worker")
    await store.members.beat(second, store.now)
    await store.members.beat(first, store.now)

    assert await store.members.known() == [replace(first, beat_at=store.now), replace(second, beat_at=store.now)]

    await store.members.leave(first.member_id)
    await store.members.leave(first.member_id)
    assert [one.member_id for one in await store.members.known()] == [second.member_id]


async def test_a_member_without_a_heartbeat_is_forgotten_after_an_hour_and_comes_back_with_one(store: Store) -> None:
    killed, stopped, alive = member(store), member(store), member(store)
    for one in (killed, stopped, alive):
        await store.members.beat(one, store.now)
    store.advance(HOUR)
    await store.members.beat(alive, store.now)
    await store.maintenance.maintain(store.now, Duration(365 * DAY))
    assert len(await store.members.known()) == 3

    store.advance(1)
    await store.maintenance.maintain(store.now, Duration(365 * DAY))
    assert [one.member_id for one in await store.members.known()] == [alive.member_id]

    await store.members.beat(stopped, store.now)
    assert {one.member_id for one in await store.members.known()} == {alive.member_id, stopped.member_id}
