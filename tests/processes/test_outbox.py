"""Schedulers and applications are killed while jobs are enqueued: what was committed comes once, the rest never."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random

import asyncpg
import pytest
from tests.processes.fleet import DEADLINE, LONG, Fleet

from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Role, Task
from oncue.settings import Settings

pytestmark = [pytest.mark.kills, pytest.mark.anyio]

KILLS = 2  # of each kind, at least
SECONDS = 60 if LONG else 0
BACKLOG = 5_000  # rows that are there before: whoever is killed has two passes in hand
SELLING = "select count(*) from pg_stat_activity where application_name = 'shop' and datname = current_database()"
SHOP = Path(__file__).with_name("shop.py")


@asynccontextmanager
async def store(fleet: Fleet, folder: Path) -> AsyncIterator[Engine]:
    engine = await open_engine(Settings(engine=fleet.engine, data_dir=str(folder)))
    now = await engine.now()
    await engine.fleet.announce([Task("ship", b"{}")], now)
    await engine.outbox.grant("postgres", await engine.accounts.user("shop", now), Role.MEMBER, now)
    try:
        yield engine
    finally:
        await engine.close()


class Shops:
    """Two applications; one that is killed is replaced."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._count = 0
        self.open: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._count += 1
        self.open.append(subprocess.Popen([sys.executable, SHOP, self._url, str(self._count)]))

    def kill(self) -> None:
        shop = self.open.pop(0)
        assert shop.poll() is None, "it ended by itself"
        shop.kill()
        shop.wait()


@contextmanager
def shops(url: str, count: int) -> Iterator[Shops]:
    found = Shops(url)
    try:
        for _ in range(count):
            found.start()
        yield found
    finally:
        while found.open:
            found.kill()


async def test_what_was_committed_comes_once_and_what_was_rolled_back_never_whoever_is_killed(
    postgres_fleet: Fleet, postgres_url: str, tmp_path: Path
) -> None:
    fleet, chance = postgres_fleet, Random(1)
    fleet.engine = f"{postgres_url}?schema=oncue"
    session = await asyncpg.connect(postgres_url)
    await session.execute("create table orders (job_id uuid primary key)")
    async with store(fleet, tmp_path) as engine:
        backlog = "insert into orders select oncue.enqueue('ship') from generate_series(1, $1::int)"
        await session.execute(backlog, BACKLOG)
        schedulers = [fleet.start("scheduler") for _ in range(2)]
        until = time.monotonic() + SECONDS
        with shops(postgres_url, 2) as sellers:
            kills = 0
            while kills < KILLS or time.monotonic() < until:
                await more(session, "orders")
                await more(session, "oncue.waiting")  # whoever was killed has been replaced
                await asyncio.sleep(chance.random() * 0.1)
                schedulers.pop(0).kill()
                sellers.kill()
                schedulers.append(fleet.start("scheduler"))
                sellers.start()
                kills += 1
        async with asyncio.timeout(DEADLINE):
            while await session.fetchval(SELLING):  # the server may still commit what a killed one has sent
                await asyncio.sleep(0.02)
            while (await engine.outbox.state()).waiting:
                await asyncio.sleep(0.02)

        orders = {row[0] for row in await session.fetch("select job_id from orders")}
        created = "select object_id from oncue.audit where action = 'job.create'"
        assert {row[0] for row in await session.fetch("select run_id from oncue.waiting")} == orders
        assert sorted(row[0] for row in await session.fetch(created)) == sorted(orders)
        assert (await engine.outbox.state()).refused == 0
        assert len(orders) >= BACKLOG + kills  # somebody bought something before each of them
    await session.close()


async def more(session: asyncpg.Connection, table: str) -> None:
    """Wait until a table has more rows."""
    count = f"select count(*) from {table}"
    before = await session.fetchval(count)
    async with asyncio.timeout(DEADLINE):
        while await session.fetchval(count) == before:
            await asyncio.sleep(0.02)
