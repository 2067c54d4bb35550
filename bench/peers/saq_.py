"""SAQ on Redis: 100 jobs at a time in one loop (uvloop), ended jobs forgotten at once, due ones looked for each second.

From its docs: a worker's `concurrency` (the default is 10) and a job's `ttl=-1`, which keeps nothing of it. Instants
are whole seconds, so in a spread a hundred jobs are due together, none early.
"""

from __future__ import annotations

import asyncio
from math import ceil

import uvloop
from protocol import Asked, Stopwatch, asked, mark, tell, tell_ahead
from saq import Queue, Worker


async def mark_task(_: object, *, number: int) -> None:
    mark(number)


async def send(queue: Queue, ask: Asked, dues: list[float] | None = None) -> None:
    for number in range(ask.count):
        await queue.enqueue("mark_task", number=number, ttl=-1, scheduled=ceil(dues[number]) if dues else 0)


async def main() -> None:
    ask = asked()
    queue = Queue.from_url(ask.store)
    await queue.connect()
    if ask.measure == "one_by_one":
        with Stopwatch() as watch:
            await send(queue, ask)
        tell(per_second=ask.count / watch.seconds)
        return
    if ask.measure == "drain":
        await send(queue, ask)
    running = asyncio.create_task(Worker(queue, [mark_task], concurrency=100, timers={"schedule": 1}).start())
    if ask.measure == "drain":
        tell()
    else:
        dues = ask.dues(5 + ask.count / 500)
        await send(queue, ask, dues)
        tell_ahead(dues)
    await running


if __name__ == "__main__":
    uvloop.run(main())
