"""An application that is killed: it stores orders, each with its job in one transaction. `python shop.py URL SEED`"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from random import Random

import asyncpg

from oncue import Outbox

outbox = Outbox()


async def sell(url: str, chance: Random) -> None:
    """Sometimes a transaction is rolled back, or its connection breaks."""
    while True:
        connection = await asyncpg.connect(url, server_settings={"application_name": "shop"})
        while not connection.is_closed():
            await _one(connection, chance)


async def _one(connection: asyncpg.Connection, chance: Random) -> None:
    transaction = connection.transaction()
    await transaction.start()
    for _ in range(chance.randrange(1, 4)):
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


if __name__ == "__main__":
    asyncio.run(sell(sys.argv[1], Random(int(sys.argv[2]))))
