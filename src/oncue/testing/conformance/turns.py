"""Turns: whoever comes first does the next step of recurring work, and there is no leader."""

from __future__ import annotations

import asyncio

from oncue.domain.instants import HOUR, SECOND, Duration
from oncue.testing.conformance.store import Store

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
