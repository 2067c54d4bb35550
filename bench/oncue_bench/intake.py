"""`intake`: how fast a scheduler turns rows of the outbox into jobs, beside the same jobs in batches of the API; and
whether runs start later meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from oncue.domain.instants import SECOND, Duration
from oncue_bench import measures, procfs
from oncue_bench.measures import Measure, Options, Row, Step
from oncue_bench.measuring_tasks import TASK
from oncue_bench.stand import AHEAD, POLL_INTERVAL, PROGRESS_TIMEOUT, QUEUE, Stand, batches
from oncue_bench.usual_parts import BATCH_CONNECTIONS, spread_noted

GRANT = "insert into db_grants select session_user, min(uid), 'admin', 0 from users"
ENQUEUE = "select count(enqueue($1, '{}', $3)) from generate_series(1, $2::int)"
ELSEWHERE = "unattended"  # a queue that no worker takes runs of


async def intake(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Their queue is paused meanwhile: nothing but creating is measured. Then all of them run, as a proof."""
    session = await asyncpg.connect(stand.store.url)
    try:
        await session.execute(GRANT)
        await stand.client.queues.pause(QUEUE)
        step("enqueuing", 0, None)
        await session.fetchval(ENQUEUE, TASK, options.intake, "{}")
        rows = await _measured(stand, options, "scheduler", _TAKEN, lambda: _taken(stand, session, step))
        step("creating in batches", 0, None)
        requests = batches(stand, options.intake, "now")
        rows += await _measured(stand, options, "api", _BATCHED, lambda: stand.send(requests, BATCH_CONNECTIONS))
        await stand.client.queues.resume(QUEUE)
        await stand.started(2 * options.intake, "running them", step)
        return rows + await _beside(stand, session, options, step)
    finally:
        await session.close()


async def _beside(stand: Stand, session: asyncpg.Connection, options: Options, step: Step) -> list[Row]:
    """Measure how late runs start that are due one by one: alone, and while a scheduler takes in other jobs."""
    alone = await spread_noted(stand, options, step)
    step("enqueuing", 0, None)
    transaction = session.transaction()
    await transaction.start()
    await session.fetchval(ENQUEUE, TASK, options.intake, f'{{"queue": "{ELSEWHERE}"}}')
    running = asyncio.create_task(spread_noted(stand, options, step))
    await stand.clock.sleep(Duration(SECOND + AHEAD))  # then the first of them is due
    await transaction.commit()
    begin = stand.clock.now()
    await _taken(stand, session, step)
    end = stand.clock.now()
    [there] = [queue.depth for queue in await stand.client.queues.list() if queue.name == ELSEWHERE]
    if there != options.intake:
        raise stand.processes.failure(f"{options.intake} rows were in the outbox, and became {there} jobs")
    return [
        Row(measures.INTAKE_BESIDE, options.intake * SECOND / (end - begin), f"{options.spread_rate:,} runs/s"),
        *measures.INTAKE_LAGS.rows(alone, "without an intake"),
        *measures.INTAKE_LAGS.rows((await running).due_within(begin, end), "during it"),
    ]


_TAKEN = (measures.INTAKE, measures.INTAKE_SCHEDULER, measures.INTAKE_STORE)
_BATCHED = (measures.INTAKE_BATCH, measures.INTAKE_BATCH_API, measures.INTAKE_BATCH_STORE)


async def _measured(
    stand: Stand,
    options: Options,
    role: str,
    of: Sequence[Measure],
    work: Callable[[], Awaitable[object]],
) -> list[Row]:
    rate, own, store = of
    before, began = _spent(stand, role), stand.clock.monotonic()
    await work()
    seconds = (stand.clock.monotonic() - began) / SECOND
    rows = [Row(rate, options.intake / seconds, f"{options.intake:,} jobs")]
    if procfs.readable():
        spent = (1e6 * (now - was) / options.intake for was, now in zip(before, _spent(stand, role), strict=True))
        rows += [Row(measure, one) for measure, one in zip((own, store), spent, strict=True)]
    return rows


async def _taken(stand: Stand, session: asyncpg.Connection, step: Step) -> None:
    """Wait until the outbox is empty."""
    first, since = -1, stand.clock.monotonic()
    while now_first := await session.fetchval("select seq from outbox order by seq limit 1"):
        step("taking in", 0, None)
        stand.processes.check()
        if now_first != first:
            first, since = now_first, stand.clock.monotonic()
        elif stand.clock.monotonic() - since > PROGRESS_TIMEOUT:
            raise stand.processes.failure("rows are in the outbox, and none is taken in for a minute")
        await stand.clock.sleep(POLL_INTERVAL)


def _spent(stand: Stand, role: str) -> tuple[float, float]:
    """Return the processor time of the processes of a role, and of the database, in seconds."""
    if not procfs.readable():
        return 0, 0
    own = sum(procfs.busy_seconds(process.pid) for process in stand.processes.of(role))
    return own, procfs.busy_seconds(stand.store.pid) if stand.store.pid else 0.0
