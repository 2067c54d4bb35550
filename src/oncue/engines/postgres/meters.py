"""Meters, which space out starts: a transaction that makes a run wait for its rate says so here before it ends.

Such a transaction locks the meter's row last. One that grants starts locks it first, and never waits for a run's lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from operator import itemgetter

import msgspec

from oncue.domain.ids import LaneKey, RunId
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.lane import RateBucket
from oncue.domain.meter import Given
from oncue.engines.bites import BITE
from oncue.engines.granting import (
    UNUSED_AFTER,
    give_starts,
    most_starts,
    next_check,
    remembered_since,
    unchecked_since,
)
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements
from oncue.engines.touched import TouchedLanes

_SQL = statements("oncue.engines.postgres")


async def expect(connection: Connection, touched: TouchedLanes) -> None:
    """Write the newest definitions of meters, and when each has something to grant."""
    if not touched.meters:
        return
    known = [touched.rates.get(key) or RateBucket(LaneKey(key), 0, Duration(0)) for key in sorted(touched.meters)]
    await connection.execute(
        _SQL["put_meters"],
        [meter.key for meter in known],
        [meter.limit for meter in known],
        [meter.per for meter in known],
        [touched.meters[meter.key] for meter in known],
    )


class Taken(msgspec.Struct, frozen=True):
    """A meter that this transaction has locked, and how many of its waiting runs may start in it."""

    meter: RateBucket
    check_at: Instant
    count: int
    most: int


async def permit(connection: Connection, until: Instant, limit: int, now: Instant) -> list[Instant]:
    """Grant starts; return the dues of their runs. Skips meters that another transaction has locked."""
    taken = await _take(connection, until, limit, now)
    if not taken:
        return []
    before = await _given(connection, taken, now)
    waiting = await _waiting(connection, taken, until, limit, now)
    due: dict[RunId, Instant] = {}
    records: list[tuple[int, Instant, RunId, int, Instant]] = []
    advanced: list[tuple[int, Instant, Instant, int]] = []
    for one in taken:
        key = one.meter.key
        given, free_at = give_starts(one.meter, before[key], waiting[key], until, now)
        due.update((start.run_id, start.due) for start in given)
        records += [(key, start.at, start.run_id, start.token, start.was_due) for start in given]
        last = max([before[key].last, *(start.at for start in given)])
        advanced.append((key, free_at, next_check(one.check_at, last, now), before[key].count + len(given)))
    if due:
        run_ids = sorted(due)
        await connection.execute(_SQL["permit"], run_ids, [due[run_id] for run_id in run_ids], now)
        columns = ["meter", "at", "run_id", "token", "due"]
        await connection.copy_records_to_table("grants", records=records, columns=columns)
    await connection.execute(_SQL["advance_meters"], *map(list, zip(*advanced, strict=True)), NEVER)
    return list(due.values())


async def _take(connection: Connection, until: Instant, limit: int, now: Instant) -> list[Taken]:
    ahead = Duration(max(0, until - now))
    taken = []
    for row in await connection.fetch(_SQL["take_meters"], until, limit, now):
        meter = RateBucket(row["meter"], row["starts"], row["per"])
        taken.append(Taken(meter, row["check_at"], row["given"], min(limit, most_starts(meter, ahead))))
    return taken


async def _given(connection: Connection, taken: list[Taken], now: Instant) -> dict[int, Given]:
    """Return the starts that count, per meter."""
    keys, since = [one.meter.key for one in taken], [remembered_since(one.meter, now) for one in taken]
    counts = Counter[int]({one.meter.key: one.count for one in taken})
    counts.subtract(await _take_back(connection, taken, now))
    counts.subtract({row["meter"]: row["n"] for row in await connection.fetch(_SQL["forget_grants"], keys, since)})
    found = await connection.fetch(
        _SQL["granted"],
        keys,
        [max(0, counts[one.meter.key] - one.meter.limit) for one in taken],
        [one.most + 1 for one in taken],
    )
    return {row["meter"]: Given(counts[row["meter"]], row["earliest"], row["last"] or Instant(0)) for row in found}


async def _take_back(connection: Connection, taken: list[Taken], now: Instant) -> Counter[int]:
    """Take back the unused starts of meters whose check is due; return how many per meter."""
    since = {one.meter.key: unchecked_since(one.check_at) for one in taken if one.check_at <= now}
    if since:
        found = await connection.fetch(_SQL["lapsed"], list(since), list(since.values()), now - UNUSED_AFTER)
        since = {row["meter"]: since[row["meter"]] for row in found}
    return await _take_back_since(connection, since)


async def _take_back_since(connection: Connection, since: dict[LaneKey, Instant]) -> Counter[int]:
    if not since:
        return Counter()
    unused = await connection.fetch(_SQL["unused"], list(since), list(since.values()))
    if unused:
        columns = [list(column) for column in zip(*sorted(unused, key=itemgetter("run_id")), strict=True)]
        await connection.execute(_SQL["take_back"], *columns, min(since.values()))
    return Counter(row["meter"] for row in unused)


async def _waiting(
    connection: Connection, taken: list[Taken], until: Instant, limit: int, now: Instant
) -> dict[int, list[tuple[RunId, Instant, int]]]:
    """Return the first waiting runs of each meter, as many as may start, at most `limit` in all. With their tokens."""
    keys, most = [one.meter.key for one in taken], [one.most for one in taken]
    waiting: dict[int, list[tuple[RunId, Instant, int]]] = defaultdict(list)
    for row in await connection.fetch(_SQL["rated"], keys, most, until, now, limit):
        waiting[row["meter"]].append((row["run_id"], row["due"], row["token"]))
    return waiting


async def recall(connection: Connection, until: Instant, now: Instant) -> int:
    """Correct starts granted for later than `until`; return how many."""
    keys = [row["meter"] for row in await connection.fetch(_SQL["recall_take"], until)]
    unused = await _take_back_since(connection, {LaneKey(key): Instant(until + 1) for key in keys})
    counted = await connection.fetchval(_SQL["recall"], keys, until, now, [unused[key] for key in keys])
    return int(counted) + unused.total()


async def forget_empty(now: Instant, after: int, connection: Connection) -> int | None:
    """Delete meters of one bite without a run, once their grants no longer count. Locks them, then checks again."""
    found = await connection.fetch(_SQL["empty_meters"], now, after, BITE)
    empty = [row["meter"] for row in found if row["empty"]]
    if empty:
        locked = await connection.fetch(_SQL["lock_empty_meters"], empty)
        await connection.execute(_SQL["forget_empty_meters"], [row["meter"] for row in locked])
    return found[-1]["meter"] if found else None
