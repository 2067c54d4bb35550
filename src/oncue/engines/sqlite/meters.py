"""Meters, which space out starts: a transaction that makes a run wait for its rate says so here before it ends.

No locks: there is one writer.
"""

from __future__ import annotations

from array import array

import apsw

from oncue.domain.ids import LaneKey
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.lane import RateBucket
from oncue.domain.meter import Given
from oncue.engines.bites import BITE
from oncue.engines.granting import (
    UNUSED_AFTER,
    Start,
    give_starts,
    most_starts,
    next_check,
    remembered_since,
    unchecked_since,
)
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, fetch
from oncue.engines.touched import TouchedLanes

_SQL = statements("oncue.engines.sqlite")


def expect(db: Connection, touched: TouchedLanes) -> None:
    """Write the newest definitions of meters, and when each has something to grant."""
    for key, due in touched.meters.items():
        meter = touched.rates.get(key)
        if meter is None:
            db.execute(_SQL["expect_meter"], (key, due))
        else:
            db.execute(_SQL["put_meter"], (key, meter.limit, meter.per, due))


def permit(db: Connection, until: Instant, limit: int, now: Instant) -> list[Instant]:
    """Grant starts; return the dues of their runs."""
    due: list[Instant] = []
    for key, starts, per, check_at, count in fetch(db, _SQL["take_meters"], (until, limit, now)):
        if len(due) == limit:
            break
        due += _grant(db, RateBucket(key, starts, per), check_at, count, until, limit - len(due), now)
    return due


def _grant(
    db: Connection, meter: RateBucket, check_at: Instant, count: int, until: Instant, limit: int, now: Instant
) -> list[Instant]:
    most = min(limit, most_starts(meter, Duration(max(0, until - now))))
    count -= _forget(db, meter, check_at, now)
    found = fetch(db, _SQL["granted"], (meter.key, max(0, count - meter.limit), most + 1))
    before = Given(count, [at for at, _ in found], found[0][1]) if found else Given(count)
    waiting = fetch(db, _SQL["rated"], (meter.key, until, now, most))
    given: list[Start[bytes]]
    given, free_at = give_starts(meter, before, waiting, until, now)
    db.executemany(_SQL["permit"], [(start.due, start.run_id, now) for start in given])
    db.executemany(
        "insert into grants (meter, at, run_id, token, due) values (?, ?, ?, ?, ?)",
        [(meter.key, start.at, start.run_id, start.token, start.was_due) for start in given],
    )
    check_at = next_check(check_at, max([before.last, *(start.at for start in given)]), now)
    db.execute(_SQL["advance_meter"], (meter.key, free_at, NEVER, check_at, count + len(given)))
    return [start.due for start in given]


def _forget(db: Connection, meter: RateBucket, check_at: Instant, now: Instant) -> int:
    """Take back unused starts if their check is due; then delete those that no longer count. Returns how many."""
    gone, since = 0, unchecked_since(check_at)
    if check_at <= now and fetch(db, _SQL["unused"], (meter.key, since, now - UNUSED_AFTER)):
        gone = _take_back(db, meter.key, since)
    db.execute("delete from grants where meter = ? and at <= ?", (meter.key, remembered_since(meter, now)))
    return gone + db.changes()


def _take_back(db: Connection, meter: LaneKey, since: Instant) -> int:
    unused = fetch(db, _SQL["unused"], (meter, since, NEVER))
    db.executemany(
        "update runs set held = held | 8, due = ? where run_id = ?", [(due, run_id) for _, run_id, due in unused]
    )
    db.executemany("delete from grants where rowid = ?", [(row,) for row, _, _ in unused])
    return len(unused)


def recall(db: Connection, until: Instant, now: Instant) -> int:
    """Correct starts granted for later than `until`; return how many. The next pass computes again what to grant."""
    recalled = 0
    for (key,) in fetch(db, "select distinct meter from grants where at > ?", (until,)):
        gone = _take_back(db, key, Instant(until + 1))
        db.execute("update grants set at = ?3 where meter = ?1 and at > ?2", (key, until, now))
        recalled += gone + db.changes()
        db.execute(_SQL["recall"], (key, now, gone))
    return recalled


def forget_empty(now: Instant, after: int, db: Connection) -> int | None:
    """Delete meters of one bite without a run, once their grants no longer count."""
    some = fetch(db, "select meter from meters where meter > ? order by meter limit ?", (after, BITE))
    if not some:
        return None
    gone = fetch(db, _SQL["forget_meters"], (now, apsw.carray(array("q", (meter for (meter,) in some)))))
    db.executemany("delete from grants where meter = ?", gone)
    return int(some[-1][0])
