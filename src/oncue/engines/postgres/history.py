"""What happened, and what is left of it."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import msgspec
from asyncpg import Record

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.lane import Held
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.run import NewRun, RunView, State
from oncue.engines.marks import mark, unmark
from oncue.engines.port import (
    ROLLED_UP_AT_ONCE,
    Count,
    Counter,
    LastAndNext,
    Page,
    Quota,
    RunDiagnosis,
    RunQuery,
    Usage,
)
from oncue.engines.postgres import lanes, rows
from oncue.engines.postgres.inserting import insert_runs
from oncue.engines.postgres.jobs import PostgresJobs
from oncue.engines.postgres.lists import LAST, list_recent, list_runs
from oncue.engines.postgres.maintenance import Maintenance
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.quotas import grow
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements
from oncue.settings import Settings

_SQL = statements("oncue.engines.postgres")
COUNTED = frozenset[str](Count)
Fetch = Callable[..., Awaitable[Sequence[Record]]]


class PostgresHistory:
    def __init__(self, store: Store, pieces: Partitions, jobs: PostgresJobs, settings: Settings) -> None:
        self._store = store
        self._pieces = pieces
        self._jobs = jobs
        self._settings = settings
        self._maintenance = Maintenance(store, pieces, settings)

    async def run(self, uid: UserNumber | None, run_id: RunId) -> RunView | None:
        return await _find(self._store.fetch, uid, run_id)

    async def standing(self, uid: UserNumber | None, run_id: RunId) -> RunDiagnosis | None:
        async def look(connection: Connection) -> RunDiagnosis | None:
            run = await _find(connection.fetch, uid, run_id)
            return None if run is None else await _standing(connection, run)

        return await self._store.read(look)

    async def runs(self, query: RunQuery) -> Page[RunView]:
        return await list_runs(self._store, query)

    async def recent(self, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
        recent = await list_recent(self._store, uid, since, limit)
        retried = await self._store.fetch(_SQL["retried_since"], uid, since, limit)
        return [*recent, *map(rows.view, retried)]

    async def last_and_next(self, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
        return {row["near"]: rows.last_and_next(row) for row in await self._store.fetch(_SQL["last_and_next"], job_ids)}

    async def ledger(
        self, uid: UserNumber | None, job_id: JobId, limit: int = 100, after: str | None = None
    ) -> Page[Entry]:
        if uid is not None and await self._jobs.read(uid, job_id) is None:
            return Page(())
        at, entry_id = unmark(after, tuple[int, int]) if after else (NEVER, 0)
        found = await self._store.fetch(_SQL["list_ledger"], job_id, at, entry_id, limit + 1)
        more = mark((found[-2]["last_at"], found[-2]["entry_id"])) if len(found) > limit else None
        return Page(tuple(_entry(row) for row in found[:limit]), more)

    async def dead_letters(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[RunView]:
        at, last = unmark(after, tuple[int, UUID]) if after else (NEVER, LAST)
        which, who = ("list_dead", []) if uid is None else ("list_dead_of_user", [uid])
        found = await self._store.fetch(_SQL[which], at, last, limit + 1, *who)
        more = mark((found[-2]["ended_at"], found[-2]["run_id"])) if len(found) > limit else None
        return Page(tuple(rows.view(row) for row in found[:limit]), more)

    async def requeue(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        async def requeue(connection: Connection) -> frozenset[RunId]:
            taken = await connection.fetch(_SQL["requeue_take"], sorted(run.parent for run in runs if run.parent))
            parents = {row["run_id"] for row in taken}
            fresh = list({run.parent: run for run in reversed(runs) if run.parent in parents}.values())[::-1]
            for uid, n in sorted(Tally(run.uid for run in fresh).items()):
                await grow(connection, uid, Usage(runs=n), quota)
            touched = lanes.TouchedLanes()
            await insert_runs(connection, [(run, rows.name_of(run.spec)) for run in fresh], touched)
            await lanes.tend(connection, touched)
            return frozenset(run.run_id for run in fresh)

        return await self._store.write(requeue)

    async def discard(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> frozenset[RunId]:
        return frozenset(row["run_id"] for row in await self._store.fetch(_SQL["discard"], run_ids, uid))

    async def append_log(self, run_id: RunId, number: int, text: bytes, now: Instant) -> None:
        part = (run_id, number, text, now, self._settings.log_cap)
        await self._pieces.write("run_logs", [now], lambda c: c.execute(_SQL["append_log"], *part))

    async def read_log(self, run_id: RunId) -> bytes:
        found = await self._store.fetch("select text from run_logs where run_id = $1 order by number", run_id)
        return b"".join(row["text"] for row in found)

    async def counters(self, uid: UserNumber | None = None) -> list[Counter]:
        found = await self._store.fetch(_SQL["counters"], uid)
        return [
            Counter(row["uid"], row["class_id"], Count(row["what"]), row["n"])
            for row in found
            if row["what"] in COUNTED  # a newer oncue may count more
        ]

    async def roll_up(self, limit: int = ROLLED_UP_AT_ONCE) -> int:
        [(folded,)] = await self._store.fetch(_SQL["roll_up"], limit)
        return int(folded)

    async def tended(self, now: Instant, step: Duration) -> Instant:
        [(at,)] = await self._store.fetch(_SQL["tended"], now, step)
        return Instant(at)

    async def maintain(self, now: Instant, keep: Duration) -> int:
        return await self._maintenance.maintain(now, Instant(now - keep))


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


def _entry(row: Record) -> Entry:
    return Entry(
        row["job_id"], row["first_at"], row["last_at"], row["n"], Outcome(row["outcome"]), row["reason"], row["run_id"]
    )
