"""One run and what happened to it; dead letters, logs and sums."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from asyncpg import Record

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
from oncue.engines.postgres import lanes, rows
from oncue.engines.postgres.backlog import read_backlog, read_pulse
from oncue.engines.postgres.counting import count
from oncue.engines.postgres.gauges import TABLES, read_gauges
from oncue.engines.postgres.inserting import insert_runs
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.quotas import grow
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.series import check_range, points
from oncue.engines.sql import statements
from oncue.engines.unreadable import name_of
from oncue.settings import Settings

_SQL = statements("oncue.engines.postgres")
LOCKED = 2**63 - 1  # bits of an id that an advisory lock takes
COUNTED = frozenset[str](Count)
Fetch = Callable[..., Awaitable[Sequence[Record]]]


class PostgresHistory:
    def __init__(self, store: Store, pieces: Partitions, settings: Settings) -> None:
        self._store = store
        self._pieces = pieces
        self._settings = settings

    async def run(self, uid: UserNumber | None, run_id: RunId) -> RunView | None:
        return await _find(self._store.fetch, uid, run_id)

    async def standing(self, uid: UserNumber | None, run_id: RunId) -> RunDiagnosis | None:
        async def look(connection: Connection) -> RunDiagnosis | None:
            run = await _find(connection.fetch, uid, run_id)
            return None if run is None else await _standing(connection, run)

        return await self._store.read(look)

    async def requeue(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        async def requeue(connection: Connection) -> frozenset[RunId]:
            taken = await connection.fetch(_SQL["requeue_take"], sorted(run.parent for run in runs if run.parent))
            parents = {row["run_id"] for row in taken}
            fresh = list({run.parent: run for run in reversed(runs) if run.parent in parents}.values())[::-1]
            for uid, n in sorted(Tally(run.uid for run in fresh).items()):
                await grow(connection, uid, Usage(runs=n), quota)
            letters = {row["run_id"]: (row["uid"], row["class_id"], Count.REQUEUED) for row in taken}
            await count(connection, Tally(letters[run.parent] for run in fresh if run.parent), now)
            return await _insert(connection, fresh, now)

        return await self._store.write(requeue)

    async def rerun(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        async def rerun(connection: Connection) -> frozenset[RunId]:
            run_ids = sorted(run.run_id for run in runs)
            await connection.execute(_SQL["lock_ids"], [run_id.int & LOCKED for run_id in run_ids])
            there = {row["run_id"] for row in await connection.fetch(_SQL["existing_runs"], run_ids)}
            fresh = list({run.run_id: run for run in runs if run.run_id not in there}.values())
            for uid, n in sorted(Tally(run.uid for run in fresh).items()):
                await grow(connection, uid, Usage(runs=n), quota)
            return await _insert(connection, fresh, now)

        return await self._store.write(rerun)

    async def discard(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> frozenset[RunId]:
        return frozenset(row["run_id"] for row in await self._store.fetch(_SQL["discard"], run_ids, uid))

    async def append_log(self, run_id: RunId, number: int, text: bytes, now: Instant) -> bool:
        part = (run_id, number, text, now, LOG_INLINE)
        return bool(await self._pieces.write("run_logs", [now], lambda c: c.fetchval(_SQL["append_log"], *part)))

    async def read_log(self, run_id: RunId, after: int = -1) -> list[LogPart]:
        read = "select number, text, at from run_logs where run_id = $1 and number > $2 order by number"
        return [LogPart(*row) for row in await self._store.fetch(read, run_id, after)]

    async def counters(self, uid: UserNumber | None = None) -> list[Counter]:
        found = await (self._store.fetch(_SQL["totals"]) if uid is None else self._store.fetch(_SQL["counters"], uid))
        return [
            Counter(row["uid"], row["class_id"], Count(row["what"]), row["n"])
            for row in found
            if row["what"] in COUNTED  # a newer oncue may count more
        ]

    async def open_letters(self, least: int) -> OpenLetters:
        [(oldest,)] = await self._store.fetch("select min(ended_at) from dead")
        found = await self._store.fetch(_SQL["open_letters"], least)
        return OpenLetters(oldest, {row["uid"]: row["n"] for row in found})

    async def backlog(
        self, uid: UserNumber | None, classes: Sequence[ClassId], now: Instant, limit: int = DUE_COUNTED
    ) -> dict[ClassId, Backlog]:
        return await self._store.read(lambda c: read_backlog(c, uid, classes, now, limit))

    async def pulse(self, uid: UserNumber | None, now: Instant, limit: int = DUE_COUNTED) -> Pulse:
        return await self._store.read(lambda c: read_pulse(c, uid, now, limit))

    async def gauges(self, now: Instant, most: int = MOST_CLASSES, most_due: int = DUE_COUNTED) -> Gauges:
        return await self._store.read(lambda c: read_gauges(c, now, most, most_due))

    async def sizes(self) -> dict[str, int]:
        return {row["name"]: row["bytes"] for row in await self._store.fetch(_SQL["sizes"], TABLES)}

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
        whose = EVERYBODY if uid is None else uid
        given = (whose, [NO_CLASS] if classes is None else classes, what, since - since % step, until, step)
        return points(what, map(tuple, await self._store.fetch(_SQL["series"], *given)))

    async def series_by(
        self,
        what: Count | Measure,
        since: Instant,
        until: Instant,
        step: Duration,
        groups: Sequence[Sequence[ClassId]],
    ) -> list[list[Point]]:
        check_range(what, since, until, step, None)
        of = [(class_id, number) for number, classes in enumerate(groups) for class_id in classes]
        ids, numbers = [class_id for class_id, _ in of], [number for _, number in of]
        given = (ids, numbers, what, since - since % step, until, step)
        rows_of: list[list[tuple[int, ...]]] = [[] for _ in groups]
        for number, *row in await self._store.fetch(_SQL["series_by"], *given):
            rows_of[number].append(tuple(row))
        return [points(what, found) for found in rows_of]


async def _insert(connection: Connection, runs: Sequence[NewRun], now: Instant) -> frozenset[RunId]:
    touched = lanes.TouchedLanes(now)
    await insert_runs(connection, [(run, name_of(run.spec)) for run in runs], touched)
    await lanes.tend(connection, touched)
    return frozenset(run.run_id for run in runs)


async def _find(fetch: Fetch, uid: UserNumber | None, run_id: RunId) -> RunView | None:
    found = await fetch(_SQL["find_run_view"], run_id)
    if not found or (uid is not None and found[0]["uid"] != uid):
        return None
    run = rows.view(found[0])
    if run.spec is None:
        defined = await fetch(_SQL["definition"], run_id, run.job_id, run.job_version)
        if defined:
            run = msgspec.structs.replace(run, spec=defined[0]["spec"], payload=defined[0]["payload"])
    return run


async def _standing(connection: Connection, run: RunView) -> RunDiagnosis:
    match run.state:
        case State.RUNNING:
            alive = "select beat_at, lease from workers where worker_id = $1"
            worker = await connection.fetchrow(alive, run.worker_id)
            return (
                RunDiagnosis(run)
                if worker is None
                else RunDiagnosis(run, beat_at=worker["beat_at"], lease=worker["lease"])
            )
        case State.WAITING if run.held & (Held.LANE | Held.GATE):
            names = lanes.LANE if run.held & Held.LANE else lanes.GATE
            [member] = await connection.fetch(_SQL["find_run"], run.run_id)
            statement = _SQL["standing_in_lane"].format(**names)
            [found] = await connection.fetch(statement, member[names["lane"]], run.wanted, run.run_id)
            return RunDiagnosis(run, found["holder"], found["place"])
        case State.WAITING if not run.held:
            before = await connection.fetchval(_SQL["standing_among_due"], run.class_id, run.due, run.run_id)
            return RunDiagnosis(run, place=before)
        case _:
            return RunDiagnosis(run)
