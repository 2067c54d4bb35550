"""Procrastinate: psycopg pool, 50 jobs at a time, a poll every 100 ms, done jobs deleted.

From its docs: `concurrency`, `fetch_job_polling_interval` (5 s by default) and `delete_jobs` of a worker; `batch_defer`
for jobs of one instant, while jobs of different instants are deferred one by one.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import procrastinate
import uvloop
from protocol import BATCH, Asked, Stopwatch, asked, mark, tell, tell_ahead

ask = asked()
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=ask.store, min_size=4, max_size=20))


@app.task(name="mark")
async def mark_task(number: int) -> None:
    mark(number)


async def defer(ask: Asked, due: float | None = None) -> None:
    at = None if due is None else datetime.fromtimestamp(due, UTC)
    for start in range(0, ask.count, BATCH):
        numbers = range(start, min(start + BATCH, ask.count))
        await mark_task.configure(schedule_at=at).batch_defer_async(*({"number": number} for number in numbers))


async def one_by_one(dues: list[float] | None) -> None:
    for number in range(ask.count):
        at = datetime.fromtimestamp(dues[number], UTC) if dues else None
        await mark_task.configure(schedule_at=at).defer_async(number=number)


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        if ask.measure in ("one_by_one", "batch"):
            with Stopwatch() as watch:
                await (one_by_one(None) if ask.measure == "one_by_one" else defer(ask))
            tell(per_second=ask.count / watch.seconds)
            return
        if ask.measure == "drain":
            await defer(ask)
        worker = app.run_worker_async(concurrency=50, fetch_job_polling_interval=0.1, delete_jobs="successful")
        running = asyncio.create_task(worker)
        if ask.measure == "drain":
            tell()
        else:
            dues = ask.dues(5 + ask.count / (200 if ask.measure == "spread" else 2_000))
            await (one_by_one(dues) if ask.measure == "spread" else defer(ask, dues[0]))
            tell_ahead(dues)
        await running


if __name__ == "__main__":
    uvloop.run(main())
