"""Counts are appended, so that no row is contended, and added to their sums once a second."""

from __future__ import annotations

from collections import Counter as Tally

from oncue.engines.port import Count
from oncue.engines.postgres.store import Connection

Counted = Tally[tuple[int, int, Count]]


async def count(connection: Connection, tally: Counted) -> None:
    if tally:
        uids, classes, whats = zip(*tally, strict=True)
        await connection.execute(
            "insert into tally select * from unnest($1::int[], $2::int[], $3::text[], $4::bigint[])",
            uids,
            classes,
            whats,
            list(tally.values()),
        )
