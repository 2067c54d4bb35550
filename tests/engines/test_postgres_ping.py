"""Whether the server is there: asked on a connection that no listing can occupy."""

import asyncio

import pytest
from tests.engines.test_postgres_outside import PATIENCE, SHORT, Place, eventually, place

from oncue.domain.errors import StoreUnavailable

__all__ = ["place"]

WAITING = "select count(*) from pg_stat_activity where application_name = 'oncue' and wait_event_type = 'Lock'"


async def test_it_answers_while_every_connection_for_listings_waits(place: Place) -> None:
    store = await place.store(pool_size=2)
    async with asyncio.timeout(PATIENCE), place.locked("users", "keys"):
        looks = [asyncio.create_task(store.accounts.keys()) for _ in range(4)]

        async def both_wait() -> bool:
            return bool(await place.session.fetchval(WAITING) == 2)

        await eventually(both_wait)
        await store.engine.ping(SHORT)
        assert not any(look.done() for look in looks)
    await asyncio.gather(*looks)


async def test_a_server_that_says_nothing_is_away_in_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await place.store()
    monkeypatch.setattr(store.engine._store, "fetch", lambda *_, **__: asyncio.Event().wait())

    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(PATIENCE):
            await store.engine.ping(SHORT)
