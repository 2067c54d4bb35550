"""PgQueuer: batches of 500, asyncpg, uvloop, its autovacuum settings, durable tables (the default).

From its docs, "Performance tuning": a larger `batch_size` for short jobs (the default is 10), a pool for producers and
a single connection for the worker, `pgq autovac`. `dequeue_timeout` stays at 30 s: idle, it sleeps until the next
deferred job is due, at least 100 ms.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from protocol import BATCH, Asked, Stopwatch, asked, mark, tell, tell_ahead


async def enqueue(queries: Queries, ask: Asked, dues: list[float] | None = None) -> None:
    for start in range(0, ask.count, BATCH):
        numbers = range(start, min(start + BATCH, ask.count))
        now = time.time()
        after = [timedelta(seconds=dues[number] - now) for number in numbers] if dues else None
        payloads = [b"%d" % number for number in numbers]
        await queries.enqueue(["mark"] * len(numbers), payloads, [0] * len(numbers), after)


async def main() -> None:
    ask = asked()
    async with asyncpg.create_pool(ask.store, min_size=4, max_size=10) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        await queries.optimize_autovacuum()
        if ask.measure in ("one_by_one", "batch"):
            with Stopwatch() as watch:
                if ask.measure == "batch":
                    await enqueue(queries, ask)
                else:
                    for number in range(ask.count):
                        await queries.enqueue("mark", b"%d" % number)
            tell(per_second=ask.count / watch.seconds)
            return

        worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(ask.store)))

        @worker.entrypoint("mark")
        async def mark_task(job: Job) -> None:
            mark(int(job.payload or b""))

        if ask.measure == "drain":
            await enqueue(queries, ask)
        running = asyncio.create_task(worker.run(batch_size=500))
        if ask.measure == "drain":
            tell()
        else:
            dues = ask.dues(4)
            await enqueue(queries, ask, dues)
            tell_ahead(dues)
        await running


if __name__ == "__main__":
    uvloop.run(main())
