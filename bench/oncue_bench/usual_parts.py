"""`drain`, `burst`, `spread` and `sustained`: due one-shots, and how late they start.

`create`: how many jobs a second the API creates.

`recurring`: jobs that run every second, spread over it.

`idle`: what `oncue up` and all the processes it started use while there is nothing to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from oncue.domain.instants import DAY, MILLISECOND, SECOND, Duration, Instant, rfc3339, whole_millisecond
from oncue_bench import measures, procfs
from oncue_bench.http_load import CONNECTIONS, Load
from oncue_bench.measures import CREATE_BATCH, CREATE_SINGLE, Measure, Options, Row, Step
from oncue_bench.measuring_tasks import TASK
from oncue_bench.notes import Noted, Series
from oncue_bench.processes import BenchFailed
from oncue_bench.stand import AHEAD, BATCH, QUEUE, Stand, batch, batch_due, batches, single, sizes, steady

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


# --------------------------------------------------------------------------------------------------------------- create

BATCH_CONNECTIONS = 2
CREATE_WARM_UP = 1_000


async def create(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Create jobs for tomorrow, so that only their creation is measured."""
    tomorrow = Instant(stand.clock.now() + DAY)
    step("creating one by one", 0, None)
    await stand.send([single(stand, tomorrow) for _ in range(CREATE_WARM_UP)], CONNECTIONS)
    singles = await stand.send([single(stand, tomorrow) for _ in range(options.singles)], CONNECTIONS)
    step("creating in batches", 0, None)
    batched = await stand.send(batches(stand, options.batched, rfc3339(tomorrow)), BATCH_CONNECTIONS)
    stand.later += CREATE_WARM_UP + options.singles + options.batched
    return [
        Row(CREATE_SINGLE, singles.rate, _answered(singles)),
        Row(CREATE_BATCH, options.batched / batched.seconds, _answered(batched)),
    ]


def _answered(load: Load) -> str:
    return f"answered in p50 {load.percentile(0.5):.1f}, p99 {load.percentile(0.99):.1f} ms"


# ------------------------------------------------------------------------------------------------------------ recurring

RECURRING_AT_LEAST = 2_000  # jobs a second
RECURRING_WARM_UP = Duration(2 * SECOND)  # before measuring


async def recurring(stand: Stand, options: Options, step: Step) -> list[Row]:
    rows: list[Row] = []
    for count in options.recurring:
        rows += await _round(stand, count, options.recurring_seconds, step)
    return rows


async def _round(stand: Stand, count: int, seconds: int, step: Step) -> list[Row]:
    first = Instant(stand.clock.now() + SECOND + count * SECOND // RECURRING_AT_LEAST)
    begin = Instant(first + SECOND + RECURRING_WARM_UP)
    end = Instant(begin + seconds * SECOND)
    await _create(stand, count, first, end, step)
    await stand.until(end, f"{count:,} jobs every second", step)
    await stand.settled(step)
    noted, note = stand.take(), f"{count:,} jobs, every 1s"
    rate = noted.started_within(begin, end) / seconds
    inside = noted.due_within(begin, end)
    if not inside:
        raise stand.processes.failure("no occurrence has run")
    return [Row(measures.RECURRING, rate, note), *measures.RECURRING_LAGS.rows(inside, note, noted.by_time(first))]


async def _create(stand: Stand, count: int, first: Instant, end: Instant, step: Step) -> None:
    """Create jobs that count their seconds each from its own instant, and finish by themselves."""
    for start in range(0, count, BATCH):
        step("creating recurring jobs", start, count)
        anchors = [Instant(first + n * SECOND // count) for n in range(start, min(start + BATCH, count))]
        jobs = [_job(rfc3339(anchor), rfc3339(end)) for anchor in anchors]
        await stand.send([batch(stand, jobs)], 1)


def _job(start_at: str, end_at: str) -> bytes:
    schedule = {"every": "1s", "start_at": start_at, "end_at": end_at}
    return msgspec.json.encode({"task": TASK, "schedule": schedule})


# ----------------------------------------------------------------------------------------------------------------- idle

SETTLE_TIME = Duration(2 * SECOND)  # after a start, or after work, before measuring


async def idle(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Measure a fresh process the first time; later, compare with that, and whether more runs leave it unchanged."""
    if not procfs.readable():
        return []
    pid, when = stand.door.pid, "fresh" if stand.fresh_memory is None else f"after {stand.noted:,} runs"
    await stand.until(Instant(stand.clock.now() + SETTLE_TIME), "idle", step)
    before, began = procfs.busy_seconds(pid), stand.clock.monotonic()
    await stand.until(Instant(stand.clock.now() + options.idle_seconds * SECOND), "idle", step)
    busy, ended = procfs.busy_seconds(pid) - before, stand.clock.monotonic()
    share, memory = 100 * busy * SECOND / (ended - began), procfs.megabytes(pid)
    rows = [Row(measures.IDLE_PROCESSOR, share, when), Row(measures.IDLE_MEMORY, memory, when)]
    if stand.fresh_memory is None:
        stand.fresh_memory = memory
        return rows
    rows.append(_grown(measures.IDLE_GROWTH, stand.fresh_memory, memory, when))
    await drained(stand, options.more, step)
    await stand.until(Instant(stand.clock.now() + SETTLE_TIME), "idle", step)
    more = f"after {options.more:,} runs more"
    return [*rows, _grown(measures.IDLE_GOING_ON, memory, procfs.megabytes(pid), more)]


def _grown(measure: Measure, before: float, after: float, when: str) -> Row:
    return Row(measure, 100 * (after / before - 1), f"{when}; 5 % is none")
