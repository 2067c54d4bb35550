"""Meters, which space out starts: whoever lets a run wait for its rate says so before its transaction ends.

No locks: the writer is alone.
"""

from __future__ import annotations

from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.lane import Meter
from oncue.domain.meter import Given
from oncue.engines.granting import (
    UNUSED_AFTER,
    give_starts,
    most_starts,
    next_check,
    remembered_since,
    unchecked_since,
)
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, fetch
from oncue.engines.touched import Touched

_SQL = statements("oncue.engines.sqlite")


def expect(db: Connection, touched: Touched) -> None:
    """The newest definitions, and when there is something to grant."""
    for key, due in touched.meters.items():
        meter = touched.rates.get(key)
        if meter is None:
            db.execute(_SQL["expect_meter"], (key, due))
        else:
            db.execute(_SQL["put_meter"], (key, meter.limit, meter.per, due))


def grant(db: Connection, until: Instant, limit: int, now: Instant) -> list[Instant]:
    """The starts given."""
    given: list[Instant] = []
    for key, starts, per, check_at, count in fetch(db, _SQL["take_meters"], (until, limit, now)):
        if len(given) == limit:
            break
        given += _grant(db, Meter(key, starts, per), check_at, count, until, limit - len(given), now)
    return given


def _grant(
    db: Connection, meter: Meter, check_at: Instant, count: int, until: Instant, limit: int, now: Instant
) -> list[Instant]:
    most = min(limit, most_starts(meter, Duration(max(0, until - now))))
    before = _given(db, meter, check_at, count, most, now)
    waiting = fetch(db, _SQL["rated"], (meter.key, until, now, most))
    tokens = {run_id: token for run_id, _, token in waiting}
    given, free_at = give_starts(meter, before, ((run_id, due) for run_id, due, _ in waiting), until, now)
    db.executemany(_SQL["grant"], [(start, run_id) for run_id, start in given])
    db.executemany(
        "insert into grants (meter, at, run_id, token) values (?, ?, ?, ?)",
        [(meter.key, start, run_id, tokens[run_id]) for run_id, start in given],
    )
    starts = [start for _, start in given]
    check_at = next_check(check_at, max([before.last, *starts]), now)
    db.execute(_SQL["advance_meter"], (meter.key, free_at, NEVER, check_at, before.count + len(given)))
    return starts


def _given(db: Connection, meter: Meter, check_at: Instant, count: int, most: int, now: Instant) -> Given:
    """The starts that count, after a look at whether they were made use of, if it is time for that."""
    if check_at <= now:
        db.execute(_SQL["count_anew"], (meter.key, now, now - UNUSED_AFTER, unchecked_since(check_at)))
    db.execute("delete from grants where meter = ? and at <= ?", (meter.key, remembered_since(meter, now)))
    count -= db.changes()
    found = fetch(db, _SQL["granted"], (meter.key, max(0, count - meter.limit), most + 1))
    return Given(count, [at for at, _ in found], found[0][1]) if found else Given(count)


def forget_empty(db: Connection, now: Instant) -> None:
    """Meters without a run, once their grants no longer count."""
    db.execute(_SQL["forget_meters"], (now,))
    db.execute("delete from grants where meter not in (select meter from meters)")
