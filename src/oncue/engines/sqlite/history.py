"""One run and what happened to it; dead letters, logs and sums."""

from __future__ import annotations

from array import array
from collections import Counter as Tally
from collections.abc import Sequence

import apsw
import msgspec

from oncue.domain.ids import NO_CLASS, ClassId, RunId, UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.domain.lane import Held
from oncue.domain.run import NewRun, RunView, State
from oncue.engines.gauges import DUE_COUNTED, MOST_CLASSES, Backlog, Pulse
from oncue.engines.port import (
    EVERYBODY,
    Count,
    Counter,
    Gauges,
    LogPart,
    Measure,
    OpenLetters,
    Point,
    Quota,
    RunDiagnosis,
    Usage,
)
from oncue.engines.port.history import LOG_INLINE
from oncue.engines.series import check_range, points
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.backlog import read_backlog, read_pulse
from oncue.engines.sqlite.counting import count
from oncue.engines.sqlite.gauges import read_gauges
from oncue.engines.sqlite.inserting import insert_runs
from oncue.engines.sqlite.lanes import tend
from oncue.engines.sqlite.partitions import existing, find_ended
from oncue.engines.sqlite.quotas import grow
from oncue.engines.sqlite.store import Connection, Store, fetch, first
from oncue.engines.touched import TouchedLanes
from oncue.engines.unreadable import name_of
from oncue.settings import Settings

_SQL = statements("oncue.engines.sqlite")
COUNTED = frozenset[str](Count)
# As the indexes have it: an admitted run may be paused between two attempts, and any run may wait for its rate.
_IN_LANE, _IN_GATE = Held.LANE | Held.PAUSED, Held.LANE | Held.GATE | Held.PAUSED
_LANE = {
    "lane": "lane",
    "inside": f"held & {_IN_LANE:d} in (0, {Held.PAUSED:d})",
    "in_line": f"held & {_IN_LANE:d} = {Held.LANE:d}",
}
_GATE = {
    "lane": "gate",
    "inside": f"held & {_IN_GATE:d} in (0, {Held.PAUSED:d})",
    "in_line": f"held & {_IN_GATE:d} = {Held.GATE:d}",
}


class SqliteHistory:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def run(self, uid: UserNumber | None, run_id: RunId) -> RunView | None:
        return await self._store.read(lambda db: _find(db, uid, run_id))

    async def standing(self, uid: UserNumber | None, run_id: RunId) -> RunDiagnosis | None:
        def look(db: Connection) -> RunDiagnosis | None:
            run = _find(db, uid, run_id)
            return None if run is None else _standing(db, run)

        return await self._store.read(look)

    async def requeue(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        def requeue(db: Connection) -> frozenset[RunId]:
            letters = [run.parent and _take_off(db, run.uid, run.parent) for run in runs]
            fresh = [run for run, letter in zip(runs, letters, strict=True) if letter]
            count(db, Tally((*letter, Count.REQUEUED) for letter in letters if letter), now)
            return _insert(db, fresh, now, quota)

        return await self._store.write(requeue)

    async def rerun(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        def rerun(db: Connection) -> frozenset[RunId]:
            there = existing(db, [run.run_id.bytes for run in runs])
            fresh = {run.run_id: run for run in runs if run.run_id.bytes not in there}
            return _insert(db, list(fresh.values()), now, quota)

        return await self._store.write(rerun)

    async def discard(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> frozenset[RunId]:
        def discard(db: Connection) -> frozenset[RunId]:
            letters = {run_id: _take_off(db, uid, run_id) for run_id in run_ids}
            count(db, Tally((*letter, Count.DISCARDED) for letter in letters.values() if letter), None)
            return frozenset(run_id for run_id, letter in letters.items() if letter)

        return await self._store.write(discard)

    async def append_log(self, run_id: RunId, number: int, text: bytes, now: Instant) -> bool:
        def append(db: Connection) -> bool:
            there = first(db, "select 1 from run_logs where run_id = ? and number = ?", (run_id.bytes, number))
            return bool(there or fetch(db, _SQL["append_log"], (run_id.bytes, number, text, now, LOG_INLINE)))

        return await self._store.write(append)

    async def read_log(self, run_id: RunId, after: int = -1) -> list[LogPart]:
        read = "select number, text, at from run_logs where run_id = ? and number > ? order by number"
        found = await self._store.read(lambda db: fetch(db, read, (run_id.bytes, after)))
        return [LogPart(*row) for row in found]

    async def counters(self, uid: UserNumber | None = None) -> list[Counter]:
        statement, given = ("totals", ()) if uid is None else ("counters", (uid,))
        found = await self._store.read(lambda db: fetch(db, _SQL[statement], given))
        # a newer oncue may count more
        return [Counter(uid, class_id, Count(what), n) for uid, class_id, what, n in found if what in COUNTED]

    async def open_letters(self, least: int) -> OpenLetters:
        def look(db: Connection) -> OpenLetters:
            [(oldest,)] = fetch(db, "select min(ended_at) from dead")
            return OpenLetters(oldest, dict(fetch(db, _SQL["open_letters"], (least,))))

        return await self._store.read(look)

    async def backlog(
        self, uid: UserNumber | None, classes: Sequence[ClassId], now: Instant, limit: int = DUE_COUNTED
    ) -> dict[ClassId, Backlog]:
        return await self._store.read(lambda db: read_backlog(db, uid, classes, now, limit))

    async def pulse(self, uid: UserNumber | None, now: Instant, limit: int = DUE_COUNTED) -> Pulse:
        return await self._store.read(lambda db: read_pulse(db, uid, now, limit))

    async def gauges(self, now: Instant, most: int = MOST_CLASSES, most_due: int = DUE_COUNTED) -> Gauges:
        return await self._store.read(lambda db: read_gauges(db, now, most, most_due))

    async def sizes(self) -> dict[str, int]:
        [(pages, size)] = await self._store.read(lambda db: fetch(db, _SQL["sizes"]))
        return {"database": pages * size}

    async def series(
        self,
        what: Count | Measure,
        since: Instant,
        until: Instant,
        step: Duration,
        *,
        classes: Sequence[ClassId] | None = None,
        uid: UserNumber | None = None,
    ) -> list[Point]:
        check_range(what, since, until, step, uid)
        whose, of = EVERYBODY if uid is None else uid, [NO_CLASS] if classes is None else classes
        return await self._store.read(lambda db: _series(db, whose, of, what, since, until, step))

    async def series_by(
        self,
        what: Count | Measure,
        since: Instant,
        until: Instant,
        step: Duration,
        groups: Sequence[Sequence[ClassId]],
    ) -> list[list[Point]]:
        check_range(what, since, until, step, None)

        def read(db: Connection) -> list[list[Point]]:
            return [_series(db, EVERYBODY, classes, what, since, until, step) for classes in groups]

        return await self._store.read(read)


def _series(
    db: Connection,
    uid: UserNumber,
    classes: Sequence[ClassId],
    what: Count | Measure,
    since: Instant,
    until: Instant,
    step: Duration,
) -> list[Point]:
    if not classes:
        return []  # an empty array has no address that carray takes
    given = (uid, apsw.carray(array("q", classes)), what, since - since % step, until, step)
    return points(what, fetch(db, _SQL["series"], given))


def _insert(db: Connection, runs: Sequence[NewRun], now: Instant, quota: Quota | None) -> frozenset[RunId]:
    for uid, n in sorted(Tally(run.uid for run in runs).items()):
        grow(db, uid, Usage(runs=n), quota)
    touched = TouchedLanes(now)
    insert_runs(db, [(run, name_of(run.spec)) for run in runs], touched)
    tend(db, touched)
    return frozenset(run.run_id for run in runs)


def _find(db: Connection, uid: UserNumber | None, run_id: RunId) -> RunView | None:
    row = first(db, "select * from live_runs where run_id = ?", (run_id.bytes,))
    row = row or find_ended(db, run_id, _SQL["find_ended_run"])
    if row is None or (uid is not None and row[2] != uid):
        return None
    run = rows.view(row)
    if run.spec is None:
        defined = first(db, _SQL["definition"], (run.job_id.bytes, run.job_version))
        if defined is not None:
            run = msgspec.structs.replace(run, spec=defined[0], payload=defined[1])
    return run


def _standing(db: Connection, run: RunView) -> RunDiagnosis:
    match run.state:
        case State.RUNNING:
            worker_id = rows.bytes_or_none(run.worker_id)
            worker = first(db, "select beat_at, lease from workers where worker_id = ?", (worker_id,))
            return RunDiagnosis(run) if worker is None else RunDiagnosis(run, beat_at=worker[0], lease=worker[1])
        case State.WAITING if run.held & (Held.LANE | Held.GATE):
            return _standing_behind(db, run, _LANE if run.held & Held.LANE else _GATE)
        case State.WAITING if not run.held:
            [(before,)] = fetch(db, _SQL["standing_among_due"], (run.class_id, run.due, run.run_id.bytes))
            return RunDiagnosis(run, place=before)
        case _:
            return RunDiagnosis(run)


def _standing_behind(db: Connection, run: RunView, names: dict[str, str]) -> RunDiagnosis:
    run_id = run.run_id.bytes
    [(lane,)] = fetch(db, f"select {names['lane']} from runs where run_id = ?", (run_id,))
    holder = first(db, _SQL["standing_in_lane"].format(**names), (lane, run_id))
    [(before,)] = fetch(db, _SQL["standing_in_line"].format(**names), (lane, run.wanted, run_id))
    return RunDiagnosis(run, rows.id_or_none(holder[0]) if holder else None, before)


def _take_off(db: Connection, uid: UserNumber | None, run_id: RunId) -> tuple[int, int] | None:
    """Remove a run from the dead letters; return its user and class, or None if it was not there."""
    return first(db, _SQL["take_off"], (run_id.bytes, uid))
