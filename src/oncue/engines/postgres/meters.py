"""Meters, which space out starts: whoever lets a run wait for its rate says so before its transaction ends.

A meter's row is the last lock of whoever says so. Whoever grants has it first, and never waits for a run's.
"""

from __future__ import annotations

from collections import defaultdict

from oncue.domain.ids import LaneKey, RunId
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.lane import Meter
from oncue.engines.granting import give_starts, most_starts
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
    taken = await connection.fetch(_SQL["take_meters"], until, limit)
    if not taken:
        return []
    meters = {row["meter"]: Meter(row["meter"], row["starts"], row["per"]) for row in taken}
    granted = await _granted(connection, meters, now)
    waiting = await _waiting(connection, meters, until, limit, now)
    given: dict[RunId, Instant] = {}
    records: list[tuple[int, Instant]] = []
    free_at = []
    for key, meter in meters.items():
        starts, free = give_starts(meter, granted[key], waiting[key], until, now)
        given.update(starts)
        records += [(key, start) for _, start in starts]
        free_at.append(free)
    if given:
        run_ids = sorted(given)
        await connection.execute(_SQL["grant"], run_ids, [given[run_id] for run_id in run_ids])
        await connection.copy_records_to_table("grants", records=records, columns=["meter", "at"])
    await connection.execute(_SQL["forget_grants"], list(meters), [now - meter.per for meter in meters.values()])
    await connection.execute(_SQL["advance_meters"], list(meters), free_at, NEVER)
    return list(given.values())


async def _granted(connection: Connection, meters: dict[int, Meter], now: Instant) -> dict[int, list[Instant]]:
    limits, pers = [meter.limit for meter in meters.values()], [meter.per for meter in meters.values()]
    found = await connection.fetch(_SQL["granted"], list(meters), limits, pers, now)
    return {row["meter"]: row["granted"] for row in found}


async def _waiting(
    connection: Connection, meters: dict[int, Meter], until: Instant, limit: int, now: Instant
) -> dict[int, list[tuple[RunId, Instant]]]:
    """The first of each meter, as many as may start, and no more than `limit` of all."""
    ahead = Duration(max(0, until - now))
    most = [min(limit, most_starts(meter, ahead)) for meter in meters.values()]
    waiting: dict[int, list[tuple[RunId, Instant]]] = defaultdict(list)
    for row in await connection.fetch(_SQL["rated"], list(meters), most, until, now, limit):
        waiting[row["meter"]].append((row["run_id"], row["due"]))
    return waiting


async def forget_empty(connection: Connection, now: Instant) -> None:
    """Meters without a run, once their grants no longer count. Locked before they are looked at once more."""
    empty = await connection.fetch(_SQL["empty_meters"], now)
    await connection.execute(_SQL["forget_empty_meters"], [row["meter"] for row in empty])
