"""Schedulers are killed while applications enqueue: what was committed comes once, and what was rolled back never."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import asyncpg
import pytest
from tests.processes.fleet import DEADLINE, LONG, Fleet

from oncue import Outbox
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Role, Task
from oncue.settings import Settings

pytestmark = [pytest.mark.kills, pytest.mark.anyio]

KILLS = 60 if LONG else 4
WRITERS = 8
SCHEDULERS = 2

outbox = Outbox()


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


async def write(url: str, chance: Random, until: asyncio.Event) -> None:
    """Each order is stored with its job. Sometimes the transaction is rolled back, or its connection breaks."""
    while not until.is_set():
        connection = await asyncpg.connect(url)
        try:
            for _ in range(50):
                await _one(connection, chance)
                if connection.is_closed() or until.is_set():
                    break
        finally:
            connection.terminate()


async def _one(connection: asyncpg.Connection, chance: Random) -> None:
    transaction = connection.transaction()
    await transaction.start()
    key = f"order {chance.randrange(200)}" if chance.random() < 0.2 else None
    job_id = await outbox.enqueue(connection, "ship", idempotency_key=key)
    await connection.execute("insert into orders values ($1) on conflict do nothing", job_id)
    match chance.randrange(10):
        case 0 | 1 | 2:
            await transaction.rollback()
        case 3:  # nobody is told whether it was committed
            ending = asyncio.create_task(transaction.commit())
            await asyncio.sleep(chance.random() * 0.002)
            connection.terminate()
            with suppress(Exception):
                await ending
        case _:
            await transaction.commit()


async def test_killed_schedulers_create_what_was_committed_once_and_what_was_rolled_back_never(
    postgres_fleet: Fleet, postgres_url: str, tmp_path: Path
) -> None:
    fleet = postgres_fleet
    fleet.engine = f"{postgres_url}?schema=oncue"
    session = await asyncpg.connect(postgres_url)
    await session.execute("create table orders (job_id uuid primary key)")
    async with store(fleet, tmp_path) as engine:
        enough, chance = asyncio.Event(), Random(1)
        writers = [asyncio.create_task(write(postgres_url, Random(seed), enough)) for seed in range(WRITERS)]
        schedulers = [fleet.start("scheduler") for _ in range(SCHEDULERS)]
        created = "select count(*) from oncue.waiting"
        for _ in range(KILLS):
            before = await session.fetchval(created)
            async with asyncio.timeout(DEADLINE):
                while await session.fetchval(created) == before:  # a killed one has been replaced, and takes in
                    await asyncio.sleep(0.01)
            await asyncio.sleep(chance.random() * 0.1)
            schedulers.pop(0).kill()
            schedulers.append(fleet.start("scheduler"))
        enough.set()
        await asyncio.gather(*writers)
        async with asyncio.timeout(DEADLINE):
            while (await engine.outbox.state()).waiting:
                await asyncio.sleep(0.02)
        for one in schedulers:
            one.send(signal.SIGTERM)

        orders = {row[0] for row in await session.fetch("select job_id from orders")}
        jobs = [row[0] for row in await session.fetch("select run_id from oncue.waiting")]
        assert len(jobs) == len(set(jobs))
        assert set(jobs) == orders
        assert (await engine.outbox.state()).refused == 0
        assert len(orders) > KILLS * 10
    await session.close()
