"""Measure the outbox: calls of `enqueue` per second, and rows that become jobs per second, with durable commits.

python bench/outbox.py                 # 50,000 rows by 8 writers
python bench/outbox.py --rows 5000
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time

import asyncpg
import uvloop

from oncue import Outbox
from oncue.clock import SystemClock
from oncue.domain.instants import DAY, Duration
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Role, Task
from oncue.intake.context import Intake
from oncue.intake.large_values import LargeValues
from oncue.services.outbox import OutboxIntake
from oncue.settings import Settings
from oncue.storage.open import open_storage
from oncue.testing.postgres import PrivatePostgres

GOAL = 20_000  # rows per second
SCHEMA = b'{"type":"object","properties":{"user":{"type":"integer"}},"required":["user"],"additionalProperties":false}'
IN_ONE = 100  # calls in a transaction


async def main(rows: int, writers: int) -> None:
    with PrivatePostgres() as server, tempfile.TemporaryDirectory() as folder:
        url = server.create_database("bench")
        settings = Settings(engine=f"{url}?schema=oncue", data_dir=folder)
        engine = await open_engine(settings)
        now = await engine.now()
        await engine.maintenance.maintain(now, Duration(30 * DAY))
        await engine.fleet.announce([Task("welcome", SCHEMA)], now)
        await engine.outbox.grant("postgres", await engine.accounts.user("shop", now), Role.MEMBER, now)
        print(server.kind)
        began = time.perf_counter()
        await asyncio.gather(*(write(url, rows // writers) for _ in range(writers)))
        took = time.perf_counter() - began
        print(f"enqueue: {rows / took:,.0f} calls/s by {writers} writers, {IN_ONE} in a transaction")
        await take_in(engine, settings, rows // writers * writers)
        await engine.close()


async def write(url: str, rows: int) -> None:
    connection, outbox = await asyncpg.connect(url), Outbox()
    for start in range(0, rows, IN_ONE):
        async with connection.transaction():
            for user in range(start, min(rows, start + IN_ONE)):
                await outbox.enqueue(connection, "welcome", payload={"user": user})
    await connection.close()


async def take_in(engine: Engine, settings: Settings, rows: int) -> None:
    clock = SystemClock()
    large = LargeValues(engine, open_storage(settings, clock), clock, settings.inline_cap)
    service = OutboxIntake(engine, clock, Intake(engine, clock, settings, large), Duration(DAY))
    began = time.perf_counter()
    while await service.run_once() == 0:
        pass
    took = time.perf_counter() - began
    left = await engine.outbox.listed(1)
    assert not left, left
    print(f"taken in: {rows / took:,.0f} jobs/s by one scheduler (goal: {GOAL:,})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--writers", type=int, default=8)
    given = parser.parse_args()
    uvloop.run(main(given.rows, given.writers))
