"""`drain`, `burst`, `spread` and `sustained`: due one-shots, and how late they start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from oncue.bench import measures
from oncue.bench.creating import BATCH_CONNECTIONS
from oncue.bench.measures import Row, Step
from oncue.bench.notes import Noted, Series
from oncue.bench.options import Options
from oncue.bench.processes import BenchFailed
from oncue.bench.stand import QUEUE, Stand
from oncue.bench.writing import AHEAD, batch_due, batches, single, sizes, steady
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant, whole_millisecond

SPREAD_CONNECTIONS = 4
DRAIN_STEP = Duration(100 * MILLISECOND)
CREATED_AT_LEAST = 4_000  # jobs a second, in batches: decides how long before a burst its creation begins
WRITE_TIME = Duration(10)  # most that encoding a job's request takes
CREATED_BEFORE = Duration(500 * MILLISECOND)  # a burst must exist this long before, or its creation is measured


class Drained(msgspec.Struct, frozen=True):
    rate: float
    started: Series


async def drain(stand: Stand, options: Options, step: Step) -> list[Row]:
    found = await drained(stand, options.runs, step)
    return [Row(measures.DRAIN, found.rate, f"{options.runs:,} runs", started=found.started)]


async def drained(stand: Stand, count: int, step: Step, resumes: Callable[[], None] = lambda: None) -> Drained:
    """Measure runs a second, from the call that resumes their queue to the last start; calls `resumes` right before."""
    await stand.client.queues.pause(QUEUE)
    step(f"creating {count:,} that are due", 0, None)
    await stand.send(batches(stand, count, "now"), BATCH_CONNECTIONS)
    resumes()
    begin = stand.clock.now()
    await stand.client.queues.resume(QUEUE)
    noted = await stand.started(count, "draining", step)
    return Drained(count * SECOND / (noted.last - begin), noted.by_time(begin, DRAIN_STEP))


async def burst(stand: Stand, options: Options, step: Step) -> list[Row]:
    return measures.BURST.rows(await burst_noted(stand, options, step), f"{options.burst:,} due in one instant")


async def burst_noted(stand: Stand, options: Options, step: Step) -> Noted:
    count = options.burst
    due = whole_millisecond(Instant(stand.clock.now() + AHEAD + count * SECOND // CREATED_AT_LEAST))
    step(f"creating {count:,} that are due at once", 0, None)
    await stand.send([batch_due(stand, [due] * size) for size in sizes(count)], BATCH_CONNECTIONS)
    if stand.clock.now() > due - CREATED_BEFORE:
        raise BenchFailed(f"creating {count:,} jobs took so long that they would be late from the start: try it again")
    return await stand.started(count, "a burst", step)


async def spread(stand: Stand, options: Options, step: Step) -> list[Row]:
    note = f"{options.spread_rate:,}/s for {options.spread_seconds} s"
    return measures.SPREAD.rows(await spread_noted(stand, options, step), note)


async def spread_noted(stand: Stand, options: Options, step: Step) -> Noted:
    count = options.spread_rate * options.spread_seconds
    begin = stand.clock.now() + SECOND
    sent_at = [Instant(begin + n * SECOND // options.spread_rate) for n in range(count)]
    requests = [(at, single(stand, Instant(at + AHEAD))) for at in sent_at]
    _, noted = await asyncio.gather(
        stand.send_on_time(requests, SPREAD_CONNECTIONS), stand.started(count, "one by one", step)
    )
    return noted


async def sustained(stand: Stand, options: Options, step: Step) -> list[Row]:
    rate, count = options.rate, options.rate * options.seconds
    step("writing requests", 0, None)
    begin = Instant(stand.clock.now() + SECOND + count * WRITE_TIME)
    dues = steady(Instant(begin + AHEAD), rate, options.seconds)
    requests = [(at, batch_due(stand, due)) for at, due in dues]
    _, noted = await asyncio.gather(
        stand.send_on_time(requests, BATCH_CONNECTIONS), stand.started(count, "creating and running together", step)
    )
    first = Instant(begin + AHEAD)
    achieved = count * SECOND / max(noted.last - first, options.seconds * SECOND)
    return [
        Row(measures.SUSTAINED_RATE, achieved, f"{rate:,}/s asked for"),
        *measures.SUSTAINED.rows(noted, f"for {options.seconds} s", noted.by_time(first)),
    ]
