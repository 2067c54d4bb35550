"""`full` and `snapshot`: the same again, with millions of runs in the database, or during a long read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import apsw
import msgspec

from oncue.domain.ids import ClassId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import Spec
from oncue.engines.open import open_engine
from oncue.engines.sql import statements
from oncue.settings import Settings
from oncue_bench import measures
from oncue_bench.measures import Measure, Options, Row, Step
from oncue_bench.measuring_tasks import TASK
from oncue_bench.stand import Stand
from oncue_bench.usual_parts import burst_noted, drained, spread_noted

ROWS_AT_ONCE = 50_000  # in one transaction: a second of SQLite's one writer, for which others wait

Wanted = Iterable[tuple[str, int]]

_SQL = statements("oncue_bench")


class Owner(msgspec.Struct, frozen=True):
    """The user and class of the rows, and the worker of those that are finished."""

    uid: UserNumber
    class_id: ClassId
    worker_id: WorkerId


class Pace(msgspec.Struct, frozen=True):
    drain: float
    burst: float
    spread: float


async def snapshot(stand: Stand, options: Options, step: Step) -> list[Row]:
    without = (await drained(stand, options.runs, step)).rate
    async with old_snapshot(stand.store.url):
        found = await drained(stand, options.runs, step)
    note = f"{found.rate:,.0f} and {without:,.0f} runs/s"
    return [Row(measures.SNAPSHOT, 100 * found.rate / without, note)]


async def full(stand: Stand, options: Options, step: Step) -> list[Row]:
    empty = await _pace(stand, options, step)
    await fill(stand.store.url, await _owner(stand), stand.clock.now(), options.future, options.finished, step)
    filled = await _pace(stand, options, step)
    there = f"{options.future:,} future and {options.finished:,} finished runs"

    def row(measure: Measure, ratio: float, a: float, b: float) -> Row:
        return Row(measure, 100 * ratio, f"{there}: {a:,.1f}, empty {b:,.1f}")

    return [
        row(measures.FULL_DRAIN, filled.drain / empty.drain, filled.drain, empty.drain),
        row(measures.FULL_BURST, empty.burst / filled.burst, filled.burst, empty.burst),
        row(measures.FULL_SPREAD, empty.spread / filled.spread, filled.spread, empty.spread),
    ]


async def _pace(stand: Stand, options: Options, step: Step) -> Pace:
    rate = (await drained(stand, options.runs, step)).rate
    burst = await burst_noted(stand, options, step)
    spread = await spread_noted(stand, options, step)
    return Pace(rate, burst.lag(0.99), spread.lag(0.99))


@asynccontextmanager
async def old_snapshot(url: str) -> AsyncIterator[None]:
    """Open another session that has begun to read and does not end: what it sees cannot be vacuumed."""
    if url.startswith("sqlite"):
        db = _sqlite(url)
        try:
            db.execute("begin")
            list(db.execute("select count(*) from runs"))
            yield
        finally:
            db.close()
        return
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("select count(*) from waiting")
            yield
    finally:
        await connection.close()


async def _owner(stand: Stand) -> Owner:
    """Return the administrator, with the task that is measured."""
    engine = await open_engine(Settings(engine=stand.store.url))
    try:
        uid = await engine.accounts.user("admin", stand.clock.now())
        [class_id] = await engine.jobs.intern([Spec(TASK).class_key])
        return Owner(uid, class_id, (await engine.fleet.workers())[0].worker_id)
    finally:
        await engine.close()


async def fill(url: str, owner: Owner, now: Instant, future: int, finished: int, step: Step) -> None:
    """Insert rows as the engine would have written them, faster than the engine would."""
    run = _fill_sqlite if url.startswith("sqlite") else _fill_postgres
    await run(url, owner, now, (("future", future), ("finished", finished)), step)


async def _fill_postgres(url: str, owner: Owner, now: Instant, wanted: Wanted, step: Step) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        for what, count in wanted:
            worker = (owner.worker_id,) if what == "finished" else ()
            for start in range(0, count, ROWS_AT_ONCE):
                step(f"{what} runs put into the store", start, count)
                span = (start + 1, min(start + ROWS_AT_ONCE, count), now)
                await connection.execute(_SQL[f"postgres_{what}"], *span, owner.uid, owner.class_id, *worker)
        step("tidying the store", 0, None)
        for statement in ("vacuum analyze waiting", "vacuum analyze history", "checkpoint"):
            await connection.execute(statement)
    finally:
        await connection.close()


async def _fill_sqlite(url: str, owner: Owner, now: Instant, wanted: Wanted, step: Step) -> None:
    db = _sqlite(url)
    try:
        db.set_busy_timeout(60_000)
        [(piece,)] = db.execute("select name from pieces where from_at <= ?1 and until_at > ?1", (now,))
        for what, count in wanted:
            statement = _SQL[f"sqlite_{what}"].format(piece=piece)
            for start in range(0, count, ROWS_AT_ONCE):
                step(f"{what} runs put into the store", start, count)
                span = (start + 1, min(start + ROWS_AT_ONCE, count), now)
                await asyncio.to_thread(db.execute, statement, (*span, owner.uid, owner.class_id))
        step("tidying the store", 0, None)
        await asyncio.to_thread(db.execute, "pragma wal_checkpoint(truncate)")
    finally:
        db.close()


def _sqlite(url: str) -> apsw.Connection:
    return apsw.Connection(url.removeprefix("sqlite:///"))
