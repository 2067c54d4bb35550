"""`intake`: how fast a scheduler turns rows of the outbox into jobs, beside the same jobs in batches of the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from oncue.bench import measures, procfs
from oncue.bench.creating import BATCH_CONNECTIONS
from oncue.bench.measures import Measure, Row, Step
from oncue.bench.measuring_tasks import TASK
from oncue.bench.options import Options
from oncue.bench.stand import POLL_INTERVAL, PROGRESS_TIMEOUT, QUEUE, Stand
from oncue.bench.writing import batches
from oncue.domain.instants import SECOND

GRANT = "insert into db_grants select session_user, min(uid), 'admin', 0 from users"
ENQUEUE = "select count(enqueue($1, '{}')) from generate_series(1, $2::int)"


async def intake(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Their queue is paused meanwhile: nothing but creating is measured. Then all of them run, as a proof."""
    session = await asyncpg.connect(stand.store.url)
    try:
        await session.execute(GRANT)
        await stand.client.queues.pause(QUEUE)
        step("enqueuing", 0, None)
        await session.fetchval(ENQUEUE, TASK, options.intake)
        rows = await _measured(stand, options, "scheduler", _TAKEN, lambda: _taken(stand, session, step))
        step("creating in batches", 0, None)
        requests = batches(stand, options.intake, "now")
        rows += await _measured(stand, options, "api", _BATCHED, lambda: stand.send(requests, BATCH_CONNECTIONS))
    finally:
        await session.close()
    await stand.client.queues.resume(QUEUE)
    await stand.started(2 * options.intake, "running them", step)
    return rows


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
