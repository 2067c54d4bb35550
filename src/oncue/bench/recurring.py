"""`recurring`: jobs that run every second, spread over it."""

from __future__ import annotations

import msgspec

from oncue.bench import measures
from oncue.bench.measures import Row, Step
from oncue.bench.measuring_tasks import TASK
from oncue.bench.options import Options
from oncue.bench.stand import Stand
from oncue.bench.writing import BATCH, batch
from oncue.domain.instants import SECOND, Duration, Instant, rfc3339

CREATED_AT_LEAST = 2_000  # jobs a second
WARM_UP = Duration(2 * SECOND)  # before measuring


async def recurring(stand: Stand, options: Options, step: Step) -> list[Row]:
    rows: list[Row] = []
    for count in options.recurring:
        rows += await _round(stand, count, options.recurring_seconds, step)
    return rows


async def _round(stand: Stand, count: int, seconds: int, step: Step) -> list[Row]:
    first = Instant(stand.clock.now() + SECOND + count * SECOND // CREATED_AT_LEAST)
    begin = Instant(first + SECOND + WARM_UP)
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
