"""Definitions: creating, reading, changing and ending jobs."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
from asyncpg import Record

from oncue.domain.change import JobChange
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, created_at
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import Cursor, Job, JobStatus, Snapshot, Spec, WaitingRun, decode_spec, definition_of
from oncue.domain.lane import Held
from oncue.domain.placement import ClassKey, Priority, Resources
from oncue.domain.run import NewRun, State
from oncue.engines.admitting import REFUSED, StableKey, definitions, first_with_each, quotas_of
from oncue.engines.port import Cancelled, Count, Created, Creation, Holder, JobQuery, JobRow, NewJob, Page, Quota
from oncue.engines.postgres import lanes, repeats, rows
from oncue.engines.postgres.counting import count
from oncue.engines.postgres.inserting import (
    copy,
    create_plain,
    insert_runs,
    is_free_of_claims,
    is_plain,
    write_deeds,
    write_ledger,
)
from oncue.engines.postgres.lists import list_jobs
from oncue.engines.postgres.pieces import Pieces
from oncue.engines.postgres.purging import NotEnded, purge
from oncue.engines.postgres.quotas import admit_counted, grow, lock_bounds
from oncue.engines.postgres.running import end_waiting
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
TAGS = ["uid", "tag", "job_id"]


class PostgresJobs:
    def __init__(self, store: Store, pieces: Pieces) -> None:
        self._store = store
        self._pieces = pieces
        self._classes: dict[ClassKey, ClassId] = {}

    async def intern(self, keys: Sequence[ClassKey]) -> list[ClassId]:
        unknown = [key for key in dict.fromkeys(keys) if key not in self._classes]
        if unknown:
            await self._store.write(lambda c: c.executemany(_SQL["intern"], sorted(map(_class_row, unknown))))
            self._classes = {key: class_id for class_id, key in (await self.classes()).items()}
        return [self._classes[key] for key in keys]

    async def classes(self) -> dict[ClassId, ClassKey]:
        return {row["class_id"]: _class_key(row) for row in await self._store.fetch("select * from classes")}

    async def create(self, new: Sequence[NewJob], now: Instant, *, whole: bool = False) -> list[Creation]:
        create = partial(_create, new=new, now=now, whole=whole)
        told_at = {job.deed.at for job in new if job.deed is not None}
        try:
            at_once = new and all(is_plain(job) and is_free_of_claims(job) for job in new)
            fetch = partial(self._store.fetch, hot=True)
            if at_once and await self._pieces.fitting("audit", told_at, lambda: create_plain(fetch, new, look=True)):
                return [Creation(Created.NEW, job.job.job_id) for job in new]
            return await self._pieces.write("audit", told_at, create)
        except _Undo as refused:
            return refused.answers
        except asyncpg.UniqueViolationError:  # the same job by two callers at once: now the winner is there to be seen
            return await self._pieces.write("audit", told_at, create)

    async def keyed(self, uid: UserNumber, key: str) -> Holder | None:
        find = "select job_id, definition from job_keys where uid = $1 and key = $2"
        found = await self._store.fetch(find, uid, key)
        return Holder(*found[0]) if found else None

    async def read(self, uid: UserNumber | None, job_id: JobId) -> Snapshot | None:
        async def read(connection: Connection) -> Snapshot | None:
            found = await connection.fetchrow(_SQL["read_recurring"], job_id)
            one_shot = None if found else await connection.fetchrow(_SQL["read_one_shot"], job_id)
            row = found or one_shot
            if row is None or (uid is not None and row["uid"] != uid):
                return None
            runs = await connection.fetch(_SQL["runs_of_job"], job_id)
            return _snapshot(row, runs, recurring=found is not None)

        return await self._store.read(read)

    async def apply(self, change: JobChange, now: Instant, quota: Quota | None = None) -> bool:
        try:
            await self._pieces.write("ledger", [now], lambda c: _apply(c, change, now, quota))
        except _MovedOn:
            return False
        return True

    async def cancel(self, uid: UserNumber | None, job_id: JobId, now: Instant) -> Cancelled | None:
        while snapshot := await self.read(uid, job_id):
            cancel = partial(_cancel, snapshot=snapshot, now=now)
            with suppress(_MovedOn):
                answer = await self._pieces.write("history", [now], cancel)
                if snapshot.cursor is not None or answer != Cancelled():
                    return answer  # else its only run moved while we looked: look again
        return None

    async def purge(self, job_id: JobId, limit: int) -> int:
        try:
            return await self._store.write(lambda c: purge(c, job_id, limit))
        except NotEnded:
            return 0

    async def list(self, query: JobQuery) -> Page[JobRow]:
        return await list_jobs(self._store, query, await self.classes() if query.task or query.queue else {})


class _MovedOn(Exception):
    """A guard failed: the transaction is undone and the caller decides again."""


class _Undo(Exception):
    """Not all of a whole batch can be stored: the transaction is undone, and these are the answers."""

    def __init__(self, answers: list[Creation]) -> None:
        self.answers = answers


async def _create(connection: Connection, new: Sequence[NewJob], now: Instant, whole: bool) -> list[Creation]:
    quotas = quotas_of(new)
    bounds = await lock_bounds(connection, quotas)  # first: what others make of these users is there, or comes later
    there = await _existing(connection, [job.job.job_id for job in new])
    answers = [
        Creation(Created.REPEATED, answer.job_id) if answer.job_id in there else answer
        for answer in await repeats.take_keys(connection, new)
    ]
    if whole and any(answer.outcome is not Created.NEW for answer in answers):
        raise _Undo(answers)  # a repeat is one, whatever else would be in its way by now
    wanted, made_of = first_with_each(new, answers), definitions(new)
    holders = await _hold_stable_keys(connection, wanted, made_of)
    admission = await admit_counted(connection, new, answers, holders, quotas, bounds)
    answers = admission.answers
    if whole and any(answer.outcome is not Created.NEW for answer in answers):
        raise _Undo(answers)
    await _take_stable_keys(connection, wanted, admission.takers, made_of)
    await repeats.give_back(connection, [job for job, one in zip(new, answers, strict=True) if one.outcome in REFUSED])
    fresh = [job for job, answer in zip(new, answers, strict=True) if answer.outcome is Created.NEW]
    if fresh and all(map(is_plain, fresh)):
        await create_plain(connection.fetch, fresh, look=False)
        return answers
    recurring = [job for job in fresh if job.cursor is not None]
    await copy(connection, "jobs", rows.JOBS, [rows.job_row(job.job, job.class_id) for job in recurring])
    await copy(connection, "agenda", rows.AGENDA, [_agenda_row(job) for job in recurring])
    tags = [tag for new in fresh for tag in _tags(new.job.uid, new.job.job_id, new.job.spec)]
    await copy(connection, "job_tags", TAGS, tags)
    touched = lanes.Touched()
    await insert_runs(connection, [(job.run, job.job.spec.name) for job in fresh if job.run is not None], touched)
    await write_deeds(connection, [job.deed for job in fresh if job.deed is not None])
    await lanes.tend(connection, touched)
    return answers


async def _existing(connection: Connection, job_ids: Sequence[JobId]) -> set[UUID]:
    """Jobs that an earlier call made whose answer was lost, whatever became of them since."""
    since = min(map(created_at, job_ids), default=Instant(0))
    return {row["job_id"] for row in await connection.fetch(_SQL["existing_jobs"], job_ids, since)}


async def _hold_stable_keys(
    connection: Connection, wanted: Mapping[StableKey, JobId], made_of: Mapping[JobId, bytes]
) -> dict[StableKey, JobId]:
    """Which of these keys a job has that has not ended.

    Whoever has a key, it is locked first: whether that job has ended is asked after those before us are done.
    """
    if not wanted:
        return {}
    uids, keys = (list(column) for column in zip(*wanted, strict=True))
    job_ids = list(wanted.values())
    found = await connection.fetch(_SQL["hold_keys"], uids, keys, job_ids, [made_of.get(one) for one in job_ids])
    open_jobs = {row["job_id"] for row in await connection.fetch(_SQL["not_ended"], [row["job_id"] for row in found])}
    return {(row["uid"], row["key"]): row["job_id"] for row in found if row["job_id"] in open_jobs}


async def _take_stable_keys(
    connection: Connection,
    wanted: Mapping[StableKey, JobId],
    takers: Mapping[StableKey, JobId],
    made_of: Mapping[JobId, bytes],
) -> None:
    """For those who are stored. A key that was held for one who is not, and that nobody had before, goes again."""
    if wanted:
        taken = [(*key, job_id, made_of.get(job_id)) for key, job_id in takers.items()]
        await connection.executemany(_SQL["take_key"], taken)
        unused = [(*key, job_id) for key, job_id in wanted.items() if key not in takers]
        await connection.executemany(_SQL["give_back_key"], unused)


def _agenda_row(job: NewJob) -> tuple[Any, ...]:
    assert job.cursor is not None
    return rows.agenda_row(job.job.job_id, job.job.uid, job.cursor)


def _tags(uid: UserNumber, job_id: JobId, spec: Spec) -> list[tuple[Any, ...]]:
    return [(uid, tag, job_id) for tag in sorted(set(spec.tags))]


def _snapshot(row: Record, runs: list[Record], *, recurring: bool) -> Snapshot:
    waiting = tuple(
        WaitingRun(
            run_id=run["run_id"],
            wanted=run["wanted"],
            nominal=run["nominal"],
            scheduled=run["origin"] is None and not run["token" if recurring else "tries"],
            held=Held(run["held"]),
        )
        for run in runs
        if not run["running"]
    )
    going = tuple(run["run_id"] for run in runs if run["running"] or run["tries"])
    if not recurring:
        return Snapshot(rows.one_shot(row), row["class_id"], None, waiting, going, started=row["tried"])
    cursor = rows.cursor(row) if row["next_at"] is not None else Cursor(NEVER, NEVER)
    return Snapshot(rows.recurring(row), row["class_id"], cursor, waiting, going)


async def _apply(connection: Connection, change: JobChange, now: Instant, quota: Quota | None) -> None:
    """Guards first, in the order of locks: cursor, definition, quota, lanes, runs."""
    await _guard_definition(connection, change)
    await grow(connection, change, quota)
    touched = lanes.Touched()
    late = await _came_to_wait(connection, change)
    await _lock_lanes(connection, {*change.withdraw, *change.hold, *change.release, *late}, touched)
    await _withdraw(connection, change)
    await _hold(connection, change, late, touched)
    if change.dissolve:
        await connection.execute(_SQL["keep_version"], change.job_id, now)
        await connection.execute("delete from jobs where job_id = $1", change.job_id)
        await connection.execute("delete from agenda where job_id = $1", change.job_id)
    if change.job is not None:
        await _put_definition(connection, change, change.job, now)
    if change.cursor is not None:
        await connection.execute(_SQL["put_cursor"], *rows.agenda_row(change.job_id, change.uid, change.cursor))
    await _add(connection, change.add, touched)
    await write_ledger(connection, change.ledger, now)
    await lanes.tend(connection, touched)


async def _guard_definition(connection: Connection, change: JobChange) -> None:
    """The cursor before the definition, as whoever plans the last run of a job locks them."""
    if change.expect_floor is not None:
        floor = await connection.fetchval("select floor from agenda where job_id = $1 for update", change.job_id)
        if floor != change.expect_floor:
            raise _MovedOn
    row = await connection.fetchrow(_SQL["lock_job"], change.job_id)
    if row is None:
        await _lock_one_shot(connection, change.job_id)
        found = await connection.fetchrow(_SQL["read_one_shot"], change.job_id)
        if found is None or change.expect_floor is not None or rows.one_shot(found).status is not change.expect_status:
            raise _MovedOn
        return
    read = (row["uid"], row["version"], rows.STATUSES[row["status"]])
    if read != (change.uid, change.expect_version, change.expect_status):
        raise _MovedOn


async def _lock_one_shot(connection: Connection, job_id: JobId) -> None:
    """It has no row of its own: whoever cancels it and whoever adds a run to it take turns by its id."""
    await connection.execute("select pg_advisory_xact_lock($1)", job_id.int & 2**63 - 1)


async def _came_to_wait(connection: Connection, change: JobChange) -> list[RunId]:
    """What a pause or its end concerns, too: what was running when the caller looked may wait again by now."""
    if change.job is None or JobStatus.PAUSED not in (change.job.status, change.expect_status):
        return []
    return [row["run_id"] for row in await connection.fetch(_SQL["members_of_job"], change.job_id)]


async def _lock_lanes(connection: Connection, members: set[RunId], touched: lanes.Touched) -> None:
    if members:
        for row in await connection.fetch("select lane, gate from waiting where run_id = any($1::uuid[])", members):
            touched.free(row["lane"], row["gate"])
        await lanes.lock(connection, touched, leaving=len(members))


async def _withdraw(connection: Connection, change: JobChange) -> None:
    if not change.withdraw:
        return
    gone = await connection.fetch(_SQL["withdraw"], sorted(change.withdraw), change.uid, change.expect_version)
    if len(gone) < len(change.withdraw):
        raise _MovedOn
    await count(connection, Tally((row["uid"], row["class_id"], Count.WITHDRAWN) for row in gone))


async def _hold(connection: Connection, change: JobChange, late: Sequence[RunId], touched: lanes.Touched) -> None:
    """Of those that came late, whoever is claimed meanwhile runs, as what runs does; the others must be there still."""
    pausing = change.job is not None and change.job.status is JobStatus.PAUSED
    for statement, asked, beside in (
        (_SQL["hold"], change.hold, late if pausing else ()),
        (_SQL["release"], change.release, () if pausing else late),
    ):
        run_ids = sorted({*asked, *beside})
        found = await connection.fetch(statement, run_ids, change.uid, Held.PAUSED) if run_ids else []
        if not {row["run_id"] for row in found}.issuperset(asked):
            raise _MovedOn
        for row in found:
            touched.wait_for_rate(row["meter"], row["held"], row["due"])


async def _put_definition(connection: Connection, change: JobChange, job: Job, now: Instant) -> None:
    """The new definition; the old one stays for the runs that started with it."""
    if job.version > change.expect_version:
        await connection.execute(_SQL["keep_version"], job.job_id, now)
    await connection.execute(_SQL["put_job"], *rows.job_row(job, change.class_id))
    await _retag(connection, job.uid, job.job_id, job.spec)


async def _retag(connection: Connection, uid: UserNumber, job_id: JobId, spec: Spec) -> None:
    await connection.execute("delete from job_tags where uid = $1 and job_id = $2", uid, job_id)
    await copy(connection, "job_tags", TAGS, _tags(uid, job_id, spec))


async def _add(connection: Connection, runs: Sequence[NewRun], touched: lanes.Touched) -> None:
    if runs:
        found = await connection.fetch(_SQL["existing_runs"], [run.run_id for run in runs])
        there = {row["run_id"] for row in found}
        fresh = [(run, rows.name_of(run.spec)) for run in runs if run.run_id not in there]
        await insert_runs(connection, fresh, touched)
    for run in runs:
        if run.run_id == run.job_id and run.spec is not None:  # a one-shot, redefined
            spec = decode_spec(run.spec)
            await _retag(connection, run.uid, run.job_id, spec)
            made_of = definition_of(spec, run.payload)
            await connection.execute(_SQL["redefine_key"], run.uid, spec.key, run.job_id, made_of)


async def _cancel(connection: Connection, snapshot: Snapshot, now: Instant) -> Cancelled:
    """Cursor and definition first, so that nothing new is planned; then whatever runs or waits by now."""
    job = snapshot.job
    if snapshot.cursor is not None:
        await connection.execute("delete from agenda where job_id = $1", job.job_id)
        await connection.fetchrow(_SQL["lock_job"], job.job_id)
        await connection.execute(_SQL["end_job"], job.job_id, rows.STATUS_NUMBER[JobStatus.CANCELLED], now)
    else:
        await _lock_one_shot(connection, job.job_id)
    running = await connection.fetch(_SQL["running_of_job"], job.job_id)
    told = await connection.fetch(_SQL["cancel_running"], [row["run_id"] for row in running], now)
    waiting: list[RunId] = []
    touched = lanes.Touched()
    for row in await connection.fetch(_SQL["members_of_job"], job.job_id):
        touched.free(row["lane"], row["gate"])
        waiting.append(row["run_id"])
    ended = await end_waiting(connection, waiting, touched, State.CANCELLED, now)
    if len(ended) < len(waiting):
        raise _MovedOn  # claimed between the two looks: it has to be told, and before its lane is locked
    final = await connection.fetchval("select state from history where run_id = $1", job.job_id) if not ended else None
    return Cancelled(
        stopped=ended,
        told=tuple((row["run_id"], row["worker_id"]) for row in told),
        final=None if final is None else State(final),
    )


def _class_row(key: ClassKey) -> tuple[Any, ...]:
    size = key.size
    return (key.task, key.queue, key.priority.value, list(key.labels), size.cpu_milli, size.memory_mb, size.slots)


def _class_key(row: Record) -> ClassKey:
    return ClassKey(
        row["task"],
        row["queue"],
        Priority(row["priority"]),
        tuple(row["labels"]),
        Resources(row["cpu_milli"], row["memory_mb"], row["slots"]),
    )
