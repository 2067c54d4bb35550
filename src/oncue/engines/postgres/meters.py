"""Meters, which space out starts: whoever lets a run wait for its rate says so before its transaction ends.

A meter's row is the last lock of whoever says so. Whoever grants has it first, and never waits for a run's.
"""

from __future__ import annotations

from collections import defaultdict

from oncue.domain.ids import LaneKey, RunId
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.lane import Meter
from oncue.engines.granting import UNUSED_AFTER, give_starts, most_starts, next_check, remembered_since
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements
from oncue.engines.touched import Touched

_SQL = statements("oncue.engines.postgres")


async def expect(connection: Connection, touched: Touched) -> None:
    """The newest definitions, and when there is something to grant."""
    if not touched.meters:
        return
    known = [touched.rates.get(key) or Meter(LaneKey(key), 0, Duration(0)) for key in sorted(touched.meters)]
    await connection.execute(
        _SQL["put_meters"],
        [meter.key for meter in known],
        [meter.limit for meter in known],
        [meter.per for meter in known],
        [touched.meters[meter.key] for meter in known],
    )


async def grant(connection: Connection, until: Instant, limit: int, now: Instant) -> list[Instant]:
    """The starts given. Meters that somebody else grants this moment are left to them."""
    taken = await connection.fetch(_SQL["take_meters"], until, limit, now)
    if not taken:
        return []
    meters = {row["meter"]: Meter(row["meter"], row["starts"], row["per"]) for row in taken}
    granted = await _granted(connection, meters, [row["meter"] for row in taken if row["check_at"] <= now], now)
    waiting = await _waiting(connection, meters, until, limit, now)
    given: dict[RunId, Instant] = {}
    records: list[tuple[int, Instant, RunId, int]] = []
    free_at, check_at = [], []
    for row in taken:
        key = row["meter"]
        runs = waiting[key]
        starts, free = give_starts(meters[key], granted[key], ((run_id, due) for run_id, due, _ in runs), until, now)
        given.update(starts)
        records += [(key, start, run_id, token) for (run_id, start), (*_, token) in zip(starts, runs, strict=False)]
        free_at.append(free)
        check_at.append(next_check(row["check_at"], [*granted[key], *(start for _, start in starts)], now))
    if given:
        run_ids = sorted(given)
        await connection.execute(_SQL["grant"], run_ids, [given[run_id] for run_id in run_ids])
        await connection.copy_records_to_table("grants", records=records, columns=["meter", "at", "run_id", "token"])
    await connection.execute(_SQL["advance_meters"], list(meters), free_at, check_at, NEVER)
    return list(given.values())


async def _granted(
    connection: Connection, meters: dict[int, Meter], to_check: list[int], now: Instant
) -> dict[int, list[Instant]]:
    """The starts given before, of each meter."""
    if to_check:
        await connection.execute(_SQL["count_anew"], to_check, now, now - UNUSED_AFTER)
    since = [remembered_since(meter, now) for meter in meters.values()]
    await connection.execute(_SQL["forget_grants"], list(meters), since)
    found = await connection.fetch(_SQL["granted"], list(meters), [meter.limit for meter in meters.values()])
    return {row["meter"]: row["granted"] for row in found}


async def _waiting(
    connection: Connection, meters: dict[int, Meter], until: Instant, limit: int, now: Instant
) -> dict[int, list[tuple[RunId, Instant, int]]]:
    """The first of each meter, as many as may start, and no more than `limit` of all. With their tokens."""
    ahead = Duration(max(0, until - now))
    most = [min(limit, most_starts(meter, ahead)) for meter in meters.values()]
    waiting: dict[int, list[tuple[RunId, Instant, int]]] = defaultdict(list)
    for row in await connection.fetch(_SQL["rated"], list(meters), most, until, now, limit):
        waiting[row["meter"]].append((row["run_id"], row["due"], row["token"]))
    return waiting


async def forget_empty(connection: Connection, now: Instant) -> None:
    """Meters without a run, once their grants no longer count. Locked before they are looked at once more."""
    empty = await connection.fetch(_SQL["empty_meters"], now)
    await connection.execute(_SQL["forget_empty_meters"], [row["meter"] for row in empty])
