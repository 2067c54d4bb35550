"""APScheduler 3 on PostgreSQL (SQLAlchemyJobStore, psycopg), in an asyncio loop; no job is ever too late to run.

From its user guide: a persistent job store as soon as jobs must survive a restart, `misfire_grace_time=None` against
dropped runs, the executor of asyncio for coroutines. It has no queue: due jobs are found and deleted one by one.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import uvloop
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from protocol import Stopwatch, asked, mark, tell, tell_ahead

ask = asked()


async def mark_task(number: int) -> None:
    mark(number)


def add(scheduler: AsyncIOScheduler, number: int, due: float) -> None:
    at = datetime.fromtimestamp(due, UTC)
    scheduler.add_job("apscheduler_:mark_task", "date", run_date=at, args=[number], misfire_grace_time=None)


async def main() -> None:
    store = SQLAlchemyJobStore(url=ask.store.replace("postgresql://", "postgresql+psycopg://"))
    scheduler = AsyncIOScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=True)  # else it goes through the store at each job that is added
    if ask.measure == "one_by_one":
        tomorrow = time.time() + 86_400
        with Stopwatch() as watch:
            for number in range(ask.count):
                add(scheduler, number, tomorrow)
        tell(per_second=ask.count / watch.seconds)
        return
    dues = [time.time()] * ask.count if ask.measure == "drain" else ask.dues(5 + ask.count / 250)
    for number, due in enumerate(dues):
        add(scheduler, number, due)
    if ask.measure == "drain":
        tell(began=time.time())  # it starts nothing before it has been through all that are due
    else:
        tell_ahead(dues)
    scheduler.resume()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
