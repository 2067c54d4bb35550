"""Definitions: creating, reading, changing and cancelling jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
from asyncpg import Record

from oncue.domain.change import JobChange, classed
from oncue.domain.ids import NO_CLASS, ClassId, JobId, RunId, UserNumber, created_at
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import MOST_READ, Cursor, Job, JobStatus, Snapshot, Spec, WaitingRun, decode_spec, definition_of
from oncue.domain.lane import Held
from oncue.domain.placement import ClassKey
from oncue.domain.run import NewRun, State
from oncue.engines.admitting import REFUSED, StableKey, definitions, first_with_each, quotas_of
from oncue.engines.classing import numbered, with_class_numbers
from oncue.engines.classing import wanted as wanted_classes
from oncue.engines.finishing import NOTHING_LEFT, Bite, purge_some, take_bites
from oncue.engines.port import Cancelled, Created, Creation, KeyHolder, NewJob, Quota, StampGuard
from oncue.engines.postgres import following, idempotency, lanes, rows
from oncue.engines.postgres.classes import classes_for, read_classes
from oncue.engines.postgres.declaring import only_under
from oncue.engines.postgres.following import Note
from oncue.engines.postgres.inserting import (
    copy,
    create_keyed,
    create_plain,
    insert_runs,
    is_plain,
    is_uncontended,
    write_audit,
    write_ledger,
)
from oncue.engines.postgres.notices import insert_notices
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.purging import NotEnded, purge
from oncue.engines.postgres.quotas import admit_counted, grow, lock_bounds
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements
from oncue.engines.stored import STATUS_NUMBER, STATUSES
from oncue.engines.unreadable import name_of

_SQL = statements("oncue.engines.postgres")
TAGS = ["uid", "tag", "job_id"]


class PostgresJobs:
    def __init__(self, store: Store, pieces: Partitions, most_classes: int) -> None:
        self._store = store
        self._pieces = pieces
        self._most_classes = most_classes
        self._hot = partial(store.fetch, hot=True)

    async def intern(self, keys: Sequence[ClassKey]) -> list[ClassId]:
        numbers = await self._store.write(lambda c: classes_for(c, dict.fromkeys(keys), 0))
        return [numbers[key] for key in keys]

    async def classes(self, after: ClassId = NO_CLASS, limit: int | None = None) -> dict[ClassId, ClassKey]:
        return await read_classes(self._store, after, limit)

    async def create(
        self, new: Sequence[NewJob], now: Instant, *, whole: bool = False, guard: StampGuard | None = None
    ) -> list[Creation]:
        at_once = guard is None and all(is_plain(job) and is_uncontended(job) and job.class_id for job in new)
        keyed = any(job.idempotency_key for job in new)
        if not new or not at_once or (keyed and whole):
            return await self._create_closely(new, now, whole, guard)
        create = create_keyed if keyed else partial(create_plain, look=True)
        try:
            stored = await self._pieces.fitting("audit", _told_at(new), lambda: create(self._hot, new, now))
        except asyncpg.UniqueViolationError:  # another caller creates one of these jobs just now
            stored = set()
        left = [job for job in new if job.job.job_id not in stored]
        others = iter(await self._create_closely(left, now, whole) if left else ())
        ids = (job.job.job_id for job in new)
        return [Creation(Created.NEW, job_id) if job_id in stored else next(others) for job_id in ids]

    async def _create_closely(
        self, new: Sequence[NewJob], now: Instant, whole: bool, guard: StampGuard | None = None
    ) -> list[Creation]:
        """Create by a transaction that looks at all that others may have taken."""
        closely = partial(create_closely, new=new, now=now, whole=whole, most_classes=self._most_classes)
        create = only_under(guard, closely)
        try:
            try:
                return await self._pieces.write("audit", _told_at(new), create)
            except asyncpg.UniqueViolationError:  # two callers created the same job at once: now the winner is visible
                return await self._pieces.write("audit", _told_at(new), create)
        except _Undo as refused:
            return refused.answers

    async def keyed(self, uid: UserNumber, key: str) -> KeyHolder | None:
        find = "select job_id, definition from job_keys where uid = $1 and key = $2"
        found = await self._store.fetch(find, uid, key)
        return KeyHolder(*found[0]) if found else None

    async def read(self, uid: UserNumber | None, job_id: JobId) -> Snapshot | None:
        async def read(connection: Connection) -> Snapshot | None:
            row, recurs = await _row(connection, job_id)
            if row is None or (uid is not None and row["uid"] != uid):
                return None
            runs = await connection.fetch(_SQL["runs_of_job"], job_id, MOST_READ + 1)
            return _snapshot(row, runs, recurring=recurs)

        return await self._store.read(read)

    async def apply(
        self, change: JobChange, now: Instant, quota: Quota | None = None, guard: StampGuard | None = None
    ) -> bool:
        try:
            apply = partial(_apply, change=change, now=now, quota=quota, most_classes=self._most_classes)
            done = await self._pieces.write("ledger", [now], only_under(guard, apply))
        except _MovedOn:
            return False
        if not done:
            await self.finish(change.job_id, now)
        return True

    async def cancel(
        self, uid: UserNumber | None, job_id: JobId, now: Instant, guard: StampGuard | None = None
    ) -> Cancelled | None:
        pieces, cancel = self._pieces, only_under(guard, partial(_cancel, job_id=job_id, now=now))
        while await self.read(uid, job_id) is not None:
            try:
                bite, final, job = await pieces.fitting("ledger", [now], lambda: pieces.write("history", [now], cancel))
            except _MovedOn:
                continue
            left = NOTHING_LEFT if bite.done else await self.finish(job_id, now)
            return bite.answer(left, final, job)
        return None

    async def unfinished(self, limit: int) -> list[JobId]:
        found = await self._store.fetch("select job_id from unfinished order by job_id limit $1", limit)
        return [row["job_id"] for row in found]

    async def finish(self, job_id: JobId, now: Instant) -> Cancelled:
        next_bite = partial(following.next_bite, job_id=job_id, now=now)
        taken = await take_bites(lambda: self._pieces.write("history", [now], next_bite))
        if not taken.done:
            await self._store.fetch("select claims_ended()")
        if taken.purge:
            forget = partial(following.forget, job_id=job_id)
            await purge_some(self, job_id, lambda: self._store.write(forget))
        return taken.answer()

    async def purge_later(self, job_id: JobId, now: Instant) -> None:
        await self._store.write(partial(following.note, job_id=job_id, new=Note(now, purge=True)))

    async def purge(self, job_id: JobId, limit: int) -> int:
        try:
            return await self._store.write(lambda c: purge(c, job_id, limit))
        except NotEnded:
            return 0


class _MovedOn(Exception):
    """A guard failed: the transaction is rolled back and the caller decides again."""


class _Undo(Exception):
    """A `whole` batch cannot be stored completely: the transaction is rolled back, and these are the answers."""

    def __init__(self, answers: list[Creation]) -> None:
        self.answers = answers


async def create_closely(
    connection: Connection, new: Sequence[NewJob], now: Instant, whole: bool, most_classes: int
) -> list[Creation]:
    """Create jobs within a transaction, looking at all that others may have taken."""
    quotas = quotas_of(new)
    bounds = await lock_bounds(connection, quotas)  # first: other jobs of these users are visible, or come later
    there = await _existing(connection, [job.job.job_id for job in new])
    answers = [
        Creation(Created.REPEATED, answer.job_id) if answer.job_id in there else answer
        for answer in await idempotency.take_keys(connection, new)
    ]
    if whole and any(answer.outcome is not Created.NEW for answer in answers):
        raise _Undo(answers)  # a repeat stays a repeat, whatever else would block it by now
    wanted, made_of = first_with_each(new, answers), definitions(new)
    holders = await _hold_stable_keys(connection, wanted, made_of)
    admission = await admit_counted(connection, new, answers, holders, quotas, bounds)
    answers = admission.answers
    if whole and any(answer.outcome is not Created.NEW for answer in answers):
        raise _Undo(answers)
    await _take_stable_keys(connection, wanted, admission.takers, made_of)
    await idempotency.give_back(
        connection, [job for job, one in zip(new, answers, strict=True) if one.outcome in REFUSED]
    )
    fresh = [job for job, answer in zip(new, answers, strict=True) if answer.outcome is Created.NEW]
    if unnumbered := wanted_classes(fresh):
        numbers = await classes_for(connection, unnumbered, most_classes)
        fresh, answers = numbered(fresh, numbers), with_class_numbers(new, answers, numbers)
    if fresh and all(map(is_plain, fresh)):
        await create_plain(connection.fetch, fresh, now, look=False)
        return answers
    recurring = [job for job in fresh if job.cursor is not None]
    await copy(connection, "jobs", rows.JOBS, [rows.job_row(job.job, job.class_id) for job in recurring])
    await copy(connection, "agenda", rows.AGENDA, [_agenda_row(job) for job in recurring])
    tags = [tag for new in fresh for tag in _tags(new.job.uid, new.job.job_id, new.job.spec)]
    await copy(connection, "job_tags", TAGS, tags)
    touched = lanes.TouchedLanes(now)
    await insert_runs(connection, [(job.run, job.job.spec.name) for job in fresh if job.run is not None], touched)
    await insert_notices(connection, [notice for job in fresh for notice in job.notices], touched)
    await write_audit(connection, [job.audit_entry for job in fresh if job.audit_entry is not None])
    await lanes.tend(connection, touched)
    return answers


def _told_at(new: Sequence[NewJob]) -> set[Instant]:
    """Return the instants at which the audit log gets entries."""
    return {job.audit_entry.at for job in new if job.audit_entry is not None}


async def _existing(connection: Connection, job_ids: Sequence[JobId]) -> set[UUID]:
    """Return jobs that an earlier call created whose answer was lost, in any state."""
    since = min(map(created_at, job_ids), default=Instant(0))
    return {row["job_id"] for row in await connection.fetch(_SQL["existing_jobs"], job_ids, since)}


async def _hold_stable_keys(
    connection: Connection, wanted: Mapping[StableKey, JobId], made_of: Mapping[JobId, bytes]
) -> dict[StableKey, JobId]:
    """Return which of these keys belong to an active or paused job.

    First lock every key, whichever job has it: whether that job has ended is read after earlier transactions are done.
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
    """Take the keys for stored jobs. A key that was held for a job not stored, and that no job had, is released."""
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


async def _row(connection: Connection, job_id: JobId) -> tuple[Record | None, bool]:
    """Return the row of a job in any state, and whether it recurs."""
    found = await connection.fetchrow(_SQL["read_recurring"], job_id)
    return (found, True) if found else (await connection.fetchrow(_SQL["read_one_shot"], job_id), False)


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
    waiting, crowded = waiting[:MOST_READ], len(waiting) > MOST_READ
    if not recurring:
        return Snapshot(rows.one_shot(row), row["class_id"], None, waiting, going, row["tried"], crowded)
    cursor = rows.cursor(row) if row["next_at"] is not None else Cursor(NEVER, NEVER)
    return Snapshot(rows.recurring(row), row["class_id"], cursor, waiting, going, crowded=crowded)


async def _apply(
    connection: Connection, change: JobChange, now: Instant, quota: Quota | None, most_classes: int
) -> bool:
    """Check guards, then write. Locks: cursor, definition, quota, classes, lanes, runs. False: runs must follow."""
    await _guard_definition(connection, change)
    fresh = await _not_there(connection, change.add)
    await grow(connection, change.uid, change.adds(fresh), quota)
    if change.new_class is not None:
        numbers = await classes_for(connection, {change.new_class: change.uid}, most_classes)
        change = classed(change, numbers[change.new_class])
    touched, follow = lanes.TouchedLanes(now), await following.first_bite(connection, change)
    await following.lock_lanes(connection, [*change.withdraw, *change.hold, *change.release, *follow.meant], touched)
    tokens = await _withdraw(connection, change, now)
    pause = change.job is not None and change.job.status is JobStatus.PAUSED
    await following.hold_or_release(connection, follow.meant, touched, pause=pause)
    await _hold(connection, change, touched)
    if change.dissolve:
        await connection.execute(_SQL["keep_version"], change.job_id, now)
        await connection.execute("delete from jobs where job_id = $1", change.job_id)
        await connection.execute("delete from agenda where job_id = $1", change.job_id)
    if change.job is not None:
        await _put_definition(connection, change, change.job, now)
    if change.cursor is not None:
        await connection.execute(_SQL["put_cursor"], *rows.agenda_row(change.job_id, change.uid, change.cursor))
    await _add(connection, change.add, fresh, tokens, touched)
    await write_ledger(connection, [(change.uid, change.class_id, entry) for entry in change.ledger], now)
    await lanes.tend(connection, touched)
    if not follow.done:
        note, stops = Note(now, change.drop_before), pause or change.crowded
        await following.note(connection, change.job_id, note, stops=stops)
        if follow.last is not None:
            await following.reach(connection, change.job_id, follow.last)
    return follow.done


async def _guard_definition(connection: Connection, change: JobChange) -> None:
    """Lock the cursor before the definition, in the order that planning a job's last run locks them."""
    if change.expect_floor is not None:
        floor = await connection.fetchval("select floor from agenda where job_id = $1 for update", change.job_id)
        if floor != change.expect_floor:
            raise _MovedOn
    row = await connection.fetchrow(_SQL["lock_job"], change.job_id)
    if row is None:
        await following.lock_one_shot(connection, change.job_id)
        found = await connection.fetchrow(_SQL["read_one_shot"], change.job_id)
        if found is None or change.expect_floor is not None:
            raise _MovedOn
        one_shot = rows.one_shot(found)
        if (one_shot.version, one_shot.status) != (change.expect_version, change.expect_status):
            raise _MovedOn
        return
    read = (row["uid"], row["version"], STATUSES[row["status"]])
    if read != (change.uid, change.expect_version, change.expect_status):
        raise _MovedOn


async def _withdraw(connection: Connection, change: JobChange, now: Instant) -> dict[RunId, int]:
    tokens = await following.withdraw(connection, change.withdraw, change.uid, change.expect_version, now)
    if len(tokens) < len(change.withdraw):
        raise _MovedOn
    return tokens


async def _not_there(connection: Connection, runs: Sequence[NewRun]) -> set[RunId]:
    """Return the runs to add: one that exists in any state is not added again, unless this change withdraws it."""
    if not runs:
        return set()
    found = await connection.fetch(_SQL["existing_runs"], [run.run_id for run in runs])
    return {run.run_id for run in runs} - {row["run_id"] for row in found}


async def _hold(connection: Connection, change: JobChange, touched: lanes.TouchedLanes) -> None:
    for asked, pause in ((change.hold, True), (change.release, False)):
        if not (await following.hold_or_release(connection, asked, touched, pause=pause)).issuperset(asked):
            raise _MovedOn


async def _put_definition(connection: Connection, change: JobChange, job: Job, now: Instant) -> None:
    """Write the new definition; the old one stays for the runs that started with it."""
    if job.version > change.expect_version:
        await connection.execute(_SQL["keep_version"], job.job_id, now)
    await connection.execute(_SQL["put_job"], *rows.job_row(job, change.class_id))
    await _retag(connection, job.uid, job.job_id, job.spec)


async def _retag(connection: Connection, uid: UserNumber, job_id: JobId, spec: Spec) -> None:
    await connection.execute("delete from job_tags where uid = $1 and job_id = $2", uid, job_id)
    await copy(connection, "job_tags", TAGS, _tags(uid, job_id, spec))


async def _add(
    connection: Connection,
    runs: Sequence[NewRun],
    fresh: Set[RunId],
    tokens: Mapping[RunId, int],
    touched: lanes.TouchedLanes,
) -> None:
    added = [(run, name_of(run.spec)) for run in runs if run.run_id in fresh or run.run_id in tokens]
    if added:
        await insert_runs(connection, added, touched, tokens)
    for run in runs:
        if run.run_id == run.job_id and run.spec is not None:  # a one-shot with a new definition
            spec = decode_spec(run.spec)
            await _retag(connection, run.uid, run.job_id, spec)
            made_of = definition_of(spec, run.payload)
            await connection.execute(_SQL["redefine_key"], run.uid, spec.key, run.job_id, made_of)


async def _cancel(connection: Connection, job_id: JobId, now: Instant) -> tuple[Bite, State | None, Job | None]:
    """Cancel cursor and definition first, so that nothing is planned; then the runs.

    Returns also how a one-shot had ended before, and the job.
    """
    agenda = await connection.fetchrow(_SQL["leave_agenda"], job_id)
    recurring = await connection.fetchrow(_SQL["lock_job"], job_id)
    if recurring is None:
        await following.lock_one_shot(connection, job_id)
    if await connection.fetchval("select exists (select from agenda where job_id = $1)", job_id):
        raise _MovedOn  # an edit has just made it recurring
    if agenda is not None:
        await following.give_up(connection, job_id, rows.cursor(agenda), now)
    await connection.execute(_SQL["end_job"], job_id, STATUS_NUMBER[JobStatus.CANCELLED], now)
    bite = await following.cancel_some(connection, job_id, now)
    if bite.done:
        await following.forget(connection, job_id)
    else:
        await following.note(connection, job_id, Note(now))
    ended = None if recurring or bite.stopped or bite.told else await connection.fetchrow(_SQL["find_run"], job_id)
    row, recurs = await _row(connection, job_id)
    job = None if row is None else rows.recurring(row) if recurs else rows.one_shot(row)
    return bite, None if ended is None else State(ended["state"]), job
