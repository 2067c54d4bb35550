"""Pings: whether the database is available, in parallel with any other calls."""

from __future__ import annotations

import asyncio

from oncue.domain.instants import SECOND
from oncue.testing.conformance.store import Store


async def test_a_store_that_is_there_says_so(store: Store) -> None:
    await store.engine.ping(SECOND)


async def test_it_says_so_beside_many_calls(store: Store) -> None:
    many = [store.jobs.create([await store.new_one_shot()], store.now) for _ in range(50)]
    looks = [store.accounts.keys() for _ in range(50)]

    await asyncio.gather(*many, *looks, *(store.engine.ping(SECOND) for _ in range(50)))


async def test_a_store_that_keeps_what_is_written_says_so(store: Store) -> None:
    await asyncio.gather(*(store.engine.probe() for _ in range(10)))
