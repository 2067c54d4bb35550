"""Where engines wait, the clock they were given waits: no time passes here but that of a FakeClock."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.engines.port import Hint, Topic, Worker
from oncue.engines.postgres import signals as postgres_signals
from oncue.engines.postgres.connecting import Place, read_address
from oncue.engines.postgres.dialling import Dialling
from oncue.engines.postgres.store import CONNECTION_RETRY_DELAY, Store
from oncue.engines.sqlite.signals import SEND_INTERVAL, SqliteSignals
from oncue.testing.clock import FakeClock
from oncue.testing.logs import capture_logs


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Pool:
    """Has a connection to give, once it was asked often enough."""

    def __init__(self, refusals: int) -> None:
        self.asked: list[Instant] = []
        self._refusals = refusals
        self.clock = FakeClock()

    async def acquire(self) -> str:
        self.asked.append(self.clock.monotonic())
        if len(self.asked) <= self._refusals:
            raise asyncpg.TooManyConnectionsError("sorry")
        return "a connection"


async def test_a_server_without_connections_is_asked_ten_times_a_second() -> None:
    pool: Any = Pool(refusals=2)
    pools: Any = (pool, pool, SimpleNamespace())
    address = read_address("postgresql://127.0.0.1/oncue")
    store = Store(address, Dialling(), Place(None), pools, Duration(SECOND), pool.clock, "oncue")
    with capture_logs():
        acquiring = asyncio.create_task(store._acquire(pool))
        await settled()
        for _ in range(3):
            await pool.clock.advance(CONNECTION_RETRY_DELAY)
            await settled()

        assert await acquiring == (pool, "a connection")
    assert pool.asked == [0, CONNECTION_RETRY_DELAY, 2 * CONNECTION_RETRY_DELAY]


class Written:
    """A store that notes when it was written to, and to which nobody can listen."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.place = Place("public")
        self.at: list[Instant] = []
        self.listened_at: list[Instant] = []

    async def fetch(self, *given: Any) -> None:
        self.at.append(self.clock.monotonic())

    async def connect_listener(self) -> None:
        self.listened_at.append(self.clock.monotonic())
        raise StoreUnavailable("away")


async def no_workers() -> Sequence[Worker]:
    return ()


async def test_hints_by_postgres_linger_and_travel_together() -> None:
    store: Any = Written()
    signals = postgres_signals.PostgresSignals(store, no_workers)
    await signals.send([Hint(Topic.RUNS)])
    await settled()
    await signals.send([Hint(Topic.JOBS)])
    assert store.at == []
    await store.clock.advance(postgres_signals.GATHER_TIME)
    await settled()

    assert store.at == [postgres_signals.GATHER_TIME]
    await signals.close()


async def test_who_cannot_listen_tries_again_every_second() -> None:
    store: Any = Written()
    signals = postgres_signals.PostgresSignals(store, no_workers)
    listening = asyncio.ensure_future(anext(signals.listen()))
    for _ in range(3):
        await settled()
        await store.clock.advance(postgres_signals.RECONNECT_DELAY)
    await settled()

    assert store.listened_at == [n * SECOND for n in range(4)]
    await signals.close()
    await asyncio.gather(listening, return_exceptions=True)


async def heard(hints: Any, n: int) -> Sequence[Hint]:
    async with asyncio.timeout(60):
        return [await anext(hints) for _ in range(n)]


async def test_the_first_hint_by_sqlite_leaves_at_once_and_the_next_together(tmp_path: Path) -> None:
    clock = FakeClock()
    signals = SqliteSignals(tmp_path / "oncue.db", clock)
    hints = signals.listen()
    await heard(hints, len(Topic))

    await signals.send([Hint(Topic.RUNS, due=Instant(9))])
    assert await heard(hints, 1) == [Hint(Topic.RUNS, due=Instant(9))]
    for due in (8, 7):
        await signals.send([Hint(Topic.RUNS, due=Instant(due))])
    waiting = asyncio.ensure_future(heard(hints, 1))
    await clock.advance(Duration(SEND_INTERVAL - 1))
    await settled()
    assert not waiting.done()
    await clock.advance(Duration(1))

    assert await waiting == [Hint(Topic.RUNS, due=Instant(7))]
    await signals.close()
