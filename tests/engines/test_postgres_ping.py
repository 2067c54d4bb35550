"""Whether the server is there: asked on a connection that no listing can occupy."""

import asyncio
from uuid import uuid4

import pytest
from tests.engines.test_postgres_outside import PATIENCE, SHORT, Place, eventually, place
from tests.engines.test_postgres_settings import as_user, role

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import SECOND, Duration
from oncue.engines.open import open_engine
from oncue.engines.postgres.store import HOT_CONNECTIONS
from oncue.settings import Settings

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


async def test_it_answers_while_every_connection_of_the_hot_path_waits(place: Place) -> None:
    """Catches a server that is called away because large batches are being stored on all of them."""
    store = await place.store(pool_size=2)
    worker, batch = await store.worker(), [await store.new_one_shot() for _ in range(2 * HOT_CONNECTIONS)]
    async with asyncio.timeout(PATIENCE), place.locked("waiting", "workers"):
        calls = [asyncio.create_task(store.create(one)) for one in batch]
        calls += [asyncio.create_task(store.beat(worker)) for _ in range(2 * HOT_CONNECTIONS)]

        async def all_wait() -> bool:
            return bool(await place.session.fetchval(WAITING) >= HOT_CONNECTIONS)

        await eventually(all_wait)
        await store.engine.ping(SHORT)
        await store.engine.probe()
        assert not any(call.done() for call in calls)
    await asyncio.gather(*calls)


async def test_where_the_server_has_no_connection_left_it_is_asked_on_another(postgres_url: str) -> None:
    async with role(postgres_url, f"connection limit {HOT_CONNECTIONS}") as (name, _):
        engine = await open_engine(Settings(engine=as_user(name, postgres_url), pool_size=2))
        try:
            await asyncio.gather(*(engine.accounts.keys() for _ in range(10)))
            await asyncio.gather(*(engine.fleet.cancel_requests(WorkerId(uuid4())) for _ in range(10)))
            await engine.ping(Duration(5 * SECOND))
            await engine.probe()
        finally:
            await engine.close()


async def test_a_server_that_says_nothing_is_away_in_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await place.store()
    monkeypatch.setattr(store.engine._store, "ask", lambda *_, **__: asyncio.Event().wait())

    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(PATIENCE):
            await store.engine.ping(SHORT)
