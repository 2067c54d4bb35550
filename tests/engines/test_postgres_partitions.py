"""Pieces of history: made by anybody, dropped by anybody, also half-way, while everybody writes."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random

import asyncpg
import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import SHORT, Place, answered, eventually, postgres_of, refused

from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import State
from oncue.engines.port import AuditEntry
from oncue.engines.postgres.partitions import TABLES, Partitions, Table
from oncue_conformance.overlapping import busy_job
from oncue_conformance.store import Store

place = outside.place

EVERYTHING = Instant(2**61)
WEEK = 7 * DAY


def pieces_of(store: Store) -> Partitions:
    return postgres_of(store)._pieces


async def bounds(place: Place, table: str) -> list[tuple[int, int]]:
    """The pieces there are, as PostgreSQL sees them; our own list has to say the same."""
    found = await place.session.fetch(
        "select c.relname, pg_get_expr(c.relpartbound, c.oid) as bound from pg_inherits i"
        " join pg_class c on c.oid = i.inhrelid where i.inhparent = to_regclass($1)",
        table,
    )
    seen = {(row["relname"], *map(int, row["bound"].split("'")[1:4:2])) for row in found}
    listed = await place.session.fetch("select name, from_at, until_at from pieces where parent = $1", table)
    assert seen == {tuple(row) for row in listed}
    return sorted((start, end) for _, start, end in seen)


# --------------------------------------------------------------------------------------------------------------- making


async def test_several_engines_make_the_same_pieces_at_once(place: Place) -> None:
    """Catches two tables for one stretch, and an error for the one who came second."""
    stores = [await place.store() for _ in range(4)]
    instants = [stores[0].at(WEEK + n * DAY) for n in range(3)]

    await asyncio.gather(*(pieces_of(store).ensure(table, instants) for store in stores for table in TABLES))

    for table in TABLES:
        assert [start for start, _ in await bounds(place, table) if start >= instants[0]] == instants


@pytest.mark.parametrize("seed", range(3))
async def test_a_changed_width_leaves_neither_overlap_nor_hole(place: Place, seed: int) -> None:
    """Catches a new piece that runs into its neighbours, or stops short of them."""
    chance = Random(seed)
    widths = [3 * DAY, DAY, 7 * HOUR, HOUR]
    stores = [await place.store(partition_span=Duration(width)) for width in chance.sample(widths, 3)]
    first, last = stores[0].at(WEEK), stores[0].at(2 * WEEK)
    for _ in range(15):
        await pieces_of(chance.choice(stores)).ensure("audit", [Instant(chance.randrange(first, last))])
    for at in range(first, last, HOUR):
        await pieces_of(stores[0]).ensure("audit", [Instant(at)])

    found = [(start, end) for start, end in await bounds(place, "audit") if end > first]
    assert found[0][0] <= first
    assert found[-1][1] >= last
    assert all(end == start for (_, end), (start, _) in pairwise(found))


# ------------------------------------------------------------------------------------------------------------- dropping


async def test_dropping_disturbs_nobody_who_writes(place: Place) -> None:
    """Two tend at once while others settle and record. Catches a drop that waits for writers while they wait for it."""
    stores = [await place.store(pool_size=3) for _ in range(3)]
    old = [stores[0].at(-n * DAY) for n in range(20, 25)]
    for table in TABLES:
        await pieces_of(stores[0]).ensure(table, old)
    ending = asyncio.Event()
    writing = [asyncio.create_task(write_until(ending, store)) for store in stores for _ in range(2)]
    dropped = await asyncio.gather(*(store.maintenance.maintain(store.now, Duration(10 * DAY)) for store in stores[:2]))
    ending.set()
    written = sum(await asyncio.gather(*writing))

    left = [store.maintenance.maintain(store.now, Duration(10 * DAY)) for store in stores[2:]]
    tables = set(TABLES) - {"audit"}  # which is kept longer
    assert sum(dropped) + sum(await asyncio.gather(*left)) == len(tables) * len(old)
    for table in tables:
        assert min(start for start, _ in await bounds(place, table)) >= stores[0].at(-10 * DAY)
    assert await place.value("select count(*) from history where state = 2") == written > 0
    assert await place.value("select count(*) from audit") == written


async def write_until(ending: asyncio.Event, store: Store) -> int:
    written = 0
    while not ending.is_set():
        worker = await store.worker()
        run = await store.claim_one(worker, await store.one_shot())
        assert (await store.succeed(worker, run)).lost == frozenset()
        await store.audit.record([AuditEntry(store.now, store.uid, None, "wrote")])
        written += 1
    return written


async def leave_pending(place: Place, name: str) -> None:
    """What is left when a process dies while its detach waits for a reader."""
    async with place.holding("select from history"):
        await place.session.execute("set statement_timeout = '100 ms'")
        with pytest.raises(asyncpg.QueryCanceledError):
            await place.session.execute(f"alter table history detach partition {name} concurrently")
        await place.session.execute("reset statement_timeout")
    assert await place.value("select inhdetachpending from pg_inherits where inhrelid = to_regclass($1)", name)


async def leave_detached(place: Place, name: str) -> None:
    await place.session.execute(f"alter table history detach partition {name}")


async def leave_only_in_the_list(place: Place, name: str) -> None:
    await place.session.execute(f"drop table {name}")


HALF_WAY = [leave_pending, leave_detached, leave_only_in_the_list]


@pytest.mark.parametrize("leave", HALF_WAY)
@pytest.mark.parametrize("keep", [DAY, 30 * DAY], ids=["still to go", "to be kept by now"])
async def test_a_drop_left_half_done_is_finished_by_whoever_tends_next(
    place: Place, leave: Callable[[Place, str], Awaitable[None]], keep: Duration
) -> None:
    """Catches a piece that nobody finishes, and one that is in the way of all drops that follow."""
    store = await place.store()
    for days in (10, 9):
        await pieces_of(store).ensure("history", [store.at(-days * DAY)])
    name = f"history_{store.at(-10 * DAY)}"
    await leave(place, name)

    dropped = await store.maintenance.maintain(store.now, keep)

    assert dropped == (2 if keep == DAY else 1)
    assert await place.value("select to_regclass($1)", name) is None
    assert (store.at(-9 * DAY) in dict(await bounds(place, "history"))) == (keep != DAY)


@pytest.mark.parametrize("leave", HALF_WAY)
async def test_a_piece_half_dropped_is_in_nobodys_way(
    place: Place, leave: Callable[[Place, str], Awaitable[None]]
) -> None:
    """Catches a settle that believes the list of pieces although nothing can be written there any more."""
    store = await place.store()
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    await leave(place, f"history_{store.now}")

    assert (await store.succeed(worker, run)).lost == frozenset()
    assert await store.state(run.run_id) is State.SUCCEEDED
    assert store.now in dict(await bounds(place, "history"))


async def test_a_drop_that_waits_for_a_reader_is_not_waited_for_longer_than_a_call_may_take(place: Place) -> None:
    """Catches a settle that takes the minutes that tending may take."""
    store = await place.store(store_timeout=SHORT)
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    async with place.holding("set transaction isolation level repeatable read; select from history"):
        dropping = asyncio.create_task(pieces_of(store).drop_before(EVERYTHING, Duration(10 * SECOND)))
        await eventually(lambda: pending(place))
        assert await refused(lambda: store.succeed(worker, run)) < 2

    await dropping
    await answered(lambda: store.succeed(worker, run))
    assert await store.state(run.run_id) is State.SUCCEEDED


async def pending(place: Place) -> bool:
    found: bool = await place.value("select exists (select from pg_inherits where inhdetachpending)")
    return found


async def test_a_slow_dropper_leaves_alone_what_was_made_anew(place: Place) -> None:
    """Catches a drop decided before the piece was dropped by another, made again, and written to."""
    slow, quick = await place.store(), await place.store()
    name = f"history_{slow.now}"
    await pieces_of(quick).drop_before(EVERYTHING)
    await end_one(quick)

    assert not await postgres_of(slow)._store.write(lambda c: pieces_of(slow)._remove(name, c))
    assert await place.value("select count(*) from history") == 1


# -------------------------------------------------------------------------------- written to, though another dropped it


async def end_one(store: Store) -> None:
    worker = await store.worker()
    await store.succeed(worker, await store.claim_one(worker, await store.one_shot()))


async def hand_back_a_cancelled_run(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    await store.running.cancel(None, run.run_id, store.now)
    assert await store.hand_back(worker, run) == {run.run_id}


async def reap_a_cancelled_run(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    await store.running.cancel(None, run.run_id, store.now)
    await store.fleet.leave(worker)
    assert (await store.recover_runs()).cancelled == {run.run_id}


async def cancel_a_run(store: Store) -> None:
    assert (await store.running.cancel(None, await store.one_shot(), store.now)) is not None


async def cancel_a_job(store: Store) -> None:
    assert (await store.jobs.cancel(None, await store.one_shot(), store.now)) is not None


async def expire_one(store: Store) -> None:
    await store.one_shot(start_within=MINUTE)
    store.advance(HOUR)
    assert len(await store.planning.expire(10, store.now)) == 1


async def plan_what_was_missed(store: Store) -> None:
    await store.recurring(every=MINUTE, catch_up=CatchUp.SKIP)
    store.advance(10 * MINUTE)
    await store.plan()


async def withdraw_what_overlaps(store: Store) -> None:
    await busy_job(store, Overlap.SKIP)
    await store.decide_overlaps()


async def edit_what_was_planned(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=10 * MINUTE)
    assert await store.edit(job_id, schedule=store.every(HOUR))


async def write_a_log(store: Store) -> None:
    await store.history.append_log(await store.one_shot(), 1, b"a line", store.now)


async def record_a_deed(store: Store) -> None:
    await store.audit.record([AuditEntry(store.now, store.uid, None, "did")])


WRITERS: list[tuple[Callable[[Store], Awaitable[None]], Table]] = [
    (end_one, "history"),
    (hand_back_a_cancelled_run, "history"),
    (reap_a_cancelled_run, "history"),
    (cancel_a_run, "history"),
    (cancel_a_job, "history"),
    (expire_one, "history"),
    (plan_what_was_missed, "ledger"),
    (withdraw_what_overlaps, "ledger"),
    (edit_what_was_planned, "ledger"),
    (write_a_log, "run_logs"),
    (record_a_deed, "audit"),
]


@pytest.mark.parametrize(("write", "table"), WRITERS, ids=lambda value: getattr(value, "__name__", None))
async def test_whoever_writes_survives_that_another_dropped_the_piece(
    place: Place, write: Callable[[Store], Awaitable[None]], table: Table
) -> None:
    """Catches a verb that trusts what it knows of the pieces: "no partition of relation found for row"."""
    store, other = await place.store(), await place.store()
    await pieces_of(other).drop_before(EVERYTHING)
    assert pieces_of(store)._covers(table, store.now, store.now)

    await write(store)

    assert await place.value(f"select count(*) from {table}") > 0
