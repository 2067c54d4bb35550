"""Definitions: creating, reading, changing and cancelling jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from oncue.domain.change import JobChange, classed, given_up
from oncue.domain.ids import NO_CLASS, ClassId, JobId, RunId, UserNumber, created_at
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import MOST_READ, Cursor, Job, JobStatus, Snapshot, Spec, WaitingRun, decode_spec, definition_of
from oncue.domain.lane import Held
from oncue.domain.placement import ClassKey
from oncue.domain.run import NewRun, State
from oncue.engines.admitting import StableKey, definitions, first_with_each
from oncue.engines.classing import numbered, with_class_numbers
from oncue.engines.classing import wanted as wanted_classes
from oncue.engines.finishing import NOTHING_LEFT, Bite, purge_some, take_bites
from oncue.engines.idempotency import KeyRecord, StoredKey
from oncue.engines.port import Cancelled, Created, Creation, KeyHolder, NewJob, Quota, StampGuard
from oncue.engines.sql import statements
from oncue.engines.sqlite import following, idempotency, rows
from oncue.engines.sqlite.classes import classes_for, read_classes
from oncue.engines.sqlite.declaring import require
from oncue.engines.sqlite.following import Note
from oncue.engines.sqlite.inserting import insert_many, insert_runs, write_audit, write_ledger
from oncue.engines.sqlite.lanes import tend
from oncue.engines.sqlite.nearby import runs_of
from oncue.engines.sqlite.notices import insert_notices
from oncue.engines.sqlite.partitions import Partitions, existing, find_ended
from oncue.engines.sqlite.purging import purge
from oncue.engines.sqlite.quotas import admit_counted, grow, put_bounds
from oncue.engines.sqlite.searching import find_one_shot
from oncue.engines.sqlite.store import Connection, Store, fetch, first
from oncue.engines.stored import STATUS_NUMBER, STATUSES
from oncue.engines.touched import TouchedLanes
from oncue.engines.unreadable import name_of

_SQL = statements("oncue.engines.sqlite")


class SqliteJobs:
    def __init__(self, store: Store, pieces: Partitions, most_classes: int) -> None:
        self._store = store
        self._pieces = pieces
        self._most_classes = most_classes

    async def intern(self, keys: Sequence[ClassKey]) -> list[ClassId]:
        numbers = await self._store.write(lambda db: classes_for(db, dict.fromkeys(keys), 0))
        return [numbers[key] for key in keys]

    async def classes(self, after: ClassId = NO_CLASS, limit: int | None = None) -> dict[ClassId, ClassKey]:
        return await self._store.read(lambda db: read_classes(db, after, limit))

    async def create(
        self, new: Sequence[NewJob], now: Instant, *, whole: bool = False, guard: StampGuard | None = None
    ) -> list[Creation]:
        made_of = definitions(new)

        def create(db: Connection) -> list[Creation]:
            require(db, guard)
            return _create(db, new, now, made_of, whole, self._most_classes)

        return await self._store.write(create)

    async def keyed(self, uid: UserNumber, key: str) -> KeyHolder | None:
        row = await self._store.read(lambda db: first(db, _SQL["key_holder"], (uid, key)))
        return None if row is None else KeyHolder(JobId(UUID(bytes=row[0])), row[1])

    async def read(self, uid: UserNumber | None, job_id: JobId) -> Snapshot | None:
        return await self._store.read(lambda db: _read(db, uid, job_id))

    async def apply(
        self, change: JobChange, now: Instant, quota: Quota | None = None, guard: StampGuard | None = None
    ) -> bool:
        def apply(db: Connection) -> tuple[bool, bool]:
            require(db, guard)
            return _apply(db, change, now, quota, self._most_classes)

        applied, unfinished = await self._store.write(apply)
        if unfinished:
            await self.finish(change.job_id, now)
        return applied

    async def cancel(
        self, uid: UserNumber | None, job_id: JobId, now: Instant, guard: StampGuard | None = None
    ) -> Cancelled | None:
        def cancel(db: Connection) -> tuple[Bite, State | None, Job | None] | None:
            require(db, guard)
            return self._cancel(db, uid, job_id, now)

        found = await self._store.write(cancel)
        if found is None:
            return None
        bite, final, job = found
        left = NOTHING_LEFT if bite.done else await self.finish(job_id, now)
        return bite.answer(left, final, job)

    async def unfinished(self, limit: int) -> list[JobId]:
        ask = "select job_id from unfinished order by job_id limit ?"
        found = await self._store.read(lambda db: fetch(db, ask, (limit,)))
        return [JobId(UUID(bytes=job_id)) for (job_id,) in found]

    async def finish(self, job_id: JobId, now: Instant) -> Cancelled:
        next_bite = partial(self._next_bite, job_id, now)
        taken = await take_bites(lambda: self._store.write(next_bite))
        if taken.purge:
            await purge_some(self, job_id, lambda: self._store.write(lambda db: following.forget(db, job_id)))
        return taken.answer()

    async def purge_later(self, job_id: JobId, now: Instant) -> None:
        await self._store.write(lambda db: following.note(db, job_id, Note(now, purge=True)))

    async def purge(self, job_id: JobId, limit: int) -> int:
        return await self._store.write(lambda db: purge(db, job_id, limit))

    def _next_bite(self, job_id: JobId, now: Instant, db: Connection) -> Bite:
        return following.next_bite(db, self._pieces, job_id, now)

    def _cancel(
        self, db: Connection, uid: UserNumber | None, job_id: JobId, now: Instant
    ) -> tuple[Bite, State | None, Job | None] | None:
        """Take the first bite; also return how a one-shot had ended, and the job as it is now."""
        snapshot = _read(db, uid, job_id)
        if snapshot is None:
            return None
        if snapshot.cursor is not None:
            job, class_id = snapshot.job, snapshot.class_id
            write_ledger(db, [(job.uid, class_id, entry) for entry in given_up(job, snapshot.cursor, now)], now)
            db.execute(_SQL["end_job"], (STATUS_NUMBER[JobStatus.CANCELLED], now, job_id.bytes))
            db.execute("update agenda set next_at = ? where job_id = ?", (NEVER, job_id.bytes))
        bite = following.cancel_some(db, self._pieces, job_id, now)
        if bite.done:
            following.forget(db, job_id)
        else:
            following.note(db, job_id, Note(now))
        row, _ = _row(db, job_id)
        now_is = None if row is None else rows.job(row).job
        if snapshot.cursor is not None or bite.stopped or bite.told:
            return bite, None, now_is
        ended = find_ended(db, job_id, "select state from {table} where run_id = ?")
        return bite, None if ended is None else State(ended[0]), now_is


# ------------------------------------------------------------------------------------------------------------- create


def _create(
    db: Connection, new: Sequence[NewJob], now: Instant, made_of: Mapping[JobId, bytes], whole: bool, most_classes: int
) -> list[Creation]:
    answers = _answers(db, new)
    if whole and any(answer.outcome is not Created.NEW for answer in answers):
        return answers  # a repeat stays a repeat, whatever else would block it by now
    admission, bounds = admit_counted(db, new, answers, _holders(db, first_with_each(new, answers)))
    answers = admission.answers
    fresh = [job for job, answer in zip(new, answers, strict=True) if answer.outcome is Created.NEW]
    if whole and len(fresh) < len(new):
        return answers
    if unnumbered := wanted_classes(fresh):
        numbers = classes_for(db, unnumbered, most_classes)
        fresh, answers = numbered(fresh, numbers), with_class_numbers(new, answers, numbers)
    recurring = [(job, job.cursor) for job in fresh if job.cursor is not None]
    insert_many(db, "jobs", rows.JOBS, [rows.job_row(job.job, job.class_id) for job, _ in recurring])
    insert_many(db, "agenda", rows.AGENDA, [rows.agenda_row(j.job.job_id, j.job.uid, at) for j, at in recurring])
    tagged = [job.job for job in fresh if job.job.spec.tags]
    db.executemany(_SQL["add_tag"], [tag for job in tagged for tag in rows.tag_rows(job.uid, job.job_id, job.spec)])
    takers = admission.takers.items()
    db.executemany(_SQL["take_key"], [(*key, job_id.bytes, made_of.get(job_id)) for key, job_id in takers])
    put_bounds(db, bounds)
    idempotency.keep(db, fresh)
    touched = TouchedLanes(now)
    insert_runs(db, [(job.run, job.job.spec.name) for job in fresh if job.run is not None], touched)
    insert_notices(db, [notice for job in fresh for notice in job.notices], touched)
    write_audit(db, [job.audit_entry for job in fresh if job.audit_entry is not None])
    tend(db, touched)
    return answers


def _answers(db: Connection, new: Sequence[NewJob]) -> list[Creation]:
    """Return what each job would come to, given those before it in the batch. Writes nothing yet.

    A job that an earlier call created whose answer was lost is found in any state; no job ended before its id.
    """
    job_ids = [job.job.job_id for job in new]
    there = existing(db, [job_id.bytes for job_id in job_ids], min(map(created_at, job_ids), default=Instant(0)))
    taken: dict[StoredKey, KeyRecord] = {}
    answers = []
    for job in new:
        creation = idempotency.by_key(db, job, taken)
        if creation.outcome is Created.NEW and job.job.job_id.bytes in there:
            creation = Creation(Created.REPEATED, job.job.job_id)
        there.add(job.job.job_id.bytes)
        answers.append(creation)
    return answers


def _holders(db: Connection, wanted: Iterable[StableKey]) -> dict[StableKey, JobId]:
    """Return which of these keys belong to an active or paused job."""
    held = [(key, first(db, _SQL["key_holder"], key)) for key in wanted]
    return {
        key: JobId(UUID(bytes=row[0]))
        for key, row in held
        if row is not None and first(db, _SQL["has_not_ended"], row[:1]) is not None
    }


# --------------------------------------------------------------------------------------------------------------- read


def _row(db: Connection, job_id: JobId) -> tuple[rows.Row | None, bool]:
    """Return the row of a job in any state, and whether it recurs."""
    found = first(db, _SQL["read_recurring"], (job_id.bytes,))
    return (found, True) if found else (find_one_shot(db, job_id.bytes), False)


def _read(db: Connection, uid: UserNumber | None, job_id: JobId) -> Snapshot | None:
    row, recurring = _row(db, job_id)
    if row is None or (uid is not None and row[1] != uid):
        return None
    found = runs_of(db, job_id)
    waiting = tuple(
        WaitingRun(
            RunId(UUID(bytes=run_id)),
            wanted,
            nominal,
            scheduled=origin is None and not (token if recurring else tries),
            held=Held(held),
        )
        for run_id, wanted, nominal, origin, held, token, tries, running in found
        if not running
    )
    going = tuple(RunId(UUID(bytes=run_id)) for run_id, *_, tries, running in found if running or tries)
    job, crowded = rows.job(row).job, len(found) > MOST_READ
    waiting = waiting[:MOST_READ]
    if not recurring:
        return Snapshot(job, row[4], None, waiting, going, bool(row[11]), crowded)
    return Snapshot(job, row[4], Cursor(*row[11:15]), waiting, going, crowded=crowded)


# -------------------------------------------------------------------------------------------------------------- apply


def _apply(
    db: Connection, change: JobChange, now: Instant, quota: Quota | None, most_classes: int
) -> tuple[bool, bool]:
    """Check guards first: when one fails, nothing is written. Returns whether it wrote, and if runs must follow."""
    if not (_definition_as_read(db, change) and _runs_as_read(db, change)):
        return False, False
    there = existing(db, [run.run_id.bytes for run in change.add]) if change.add else set()
    grow(db, change.uid, change.adds({run.run_id for run in change.add if run.run_id.bytes not in there}), quota)
    if change.new_class is not None:
        numbers = classes_for(db, {change.new_class: change.uid}, most_classes)
        change = classed(change, numbers[change.new_class])
    touched = TouchedLanes(now)
    tokens = following.withdraw(db, [run_id.bytes for run_id in change.withdraw], touched)
    following.hold_or_release(db, [run_id.bytes for run_id in change.hold], touched, pause=True)
    following.hold_or_release(db, [run_id.bytes for run_id in change.release], touched, pause=False)
    done = _first_bite(db, change, now)
    if change.dissolve:
        db.execute(_SQL["keep_version"], (now, change.job_id.bytes))
        db.execute("delete from jobs where job_id = ?", (change.job_id.bytes,))
        db.execute("delete from agenda where job_id = ?", (change.job_id.bytes,))
    if change.job is not None:
        _put_definition(db, change, change.job, now)
    if change.cursor is not None:
        db.execute(_SQL["put_cursor"], rows.agenda_row(change.job_id, change.uid, change.cursor))
    _add(db, change.add, tokens, touched)
    write_ledger(db, [(change.uid, change.class_id, entry) for entry in change.ledger], now)
    tend(db, touched)
    return True, not done


def _first_bite(db: Connection, change: JobChange, now: Instant) -> bool:
    """Return whether all runs follow in this bite. If an earlier change left runs, all is done later: those runs follow
    both changes.
    """
    if change.job is None or not (change.pauses_or_resumes or change.crowded):
        return True
    runs: list[WaitingRun] = []
    if not change.crowded and following.noted(db, change.job_id) is None:
        runs = following.walk(db, change.job_id)
        following.hold_or_release_some(db, change.job, runs, now)
        if len(runs) < following.BITE:
            return True
    stops = change.crowded or change.job.status is JobStatus.PAUSED
    following.note(db, change.job_id, Note(now, change.drop_before), stops=stops)
    if runs:
        following.reach(db, change.job_id, runs[-1])
    return False


def _definition_as_read(db: Connection, change: JobChange) -> bool:
    row = first(db, _SQL["guard_job"], (change.job_id.bytes,))
    if row is None:
        return _one_shot_as_read(db, change)
    uid, version, status, floor = row
    read = (uid, version, STATUSES[status])
    expected = (change.uid, change.expect_version, change.expect_status)
    return read == expected and change.expect_floor in (None, floor)


def _one_shot_as_read(db: Connection, change: JobChange) -> bool:
    """Guard a one-shot. It may have been read as recurring: with a floor, and with runs without a definition."""
    if change.expect_floor is not None or any(run.spec is None for run in change.add):
        return False
    row = find_one_shot(db, change.job_id.bytes)
    read = (change.uid, change.expect_version, change.expect_status)
    return row is not None and (row[1], row[2], STATUSES[row[3]]) == read


def _runs_as_read(db: Connection, change: JobChange) -> bool:
    """Check that each run still waits, and that those to withdraw have no attempt and the version that was read."""
    for run_id in (*change.withdraw, *change.hold, *change.release):
        row = first(db, _SQL["guard_run"], (run_id.bytes, change.uid))
        if row is None or (run_id in change.withdraw and not (row[0] <= change.expect_version and row[1] == 0)):
            return False
    return True


def _put_definition(db: Connection, change: JobChange, job: Job, now: Instant) -> None:
    """Write the new definition; the old one stays for the runs that started with it."""
    if job.version > change.expect_version:
        db.execute(_SQL["keep_version"], (now, job.job_id.bytes))
    db.execute(_SQL["put_job"], rows.job_row(job, change.class_id))
    _put_tags(db, job.uid, job.job_id, job.spec)


def _add(db: Connection, runs: Sequence[NewRun], tokens: Mapping[bytes, int], touched: TouchedLanes) -> None:
    """Add runs, but none that exists already in any state."""
    if runs:
        there = existing(db, [run.run_id.bytes for run in runs])
        fresh = [run for run in runs if run.run_id.bytes not in there]
        insert_runs(db, [(run, name_of(run.spec)) for run in fresh], touched, tokens)
        for run in fresh:
            if run.run_id == run.job_id and run.spec is not None:
                _put_tags(db, run.uid, run.job_id, decode_spec(run.spec))
                _put_key(db, run, decode_spec(run.spec))


def _put_tags(db: Connection, uid: UserNumber, job_id: JobId, spec: Spec) -> None:
    db.execute("delete from job_tags where job_id = ?", (job_id.bytes,))
    db.executemany(_SQL["add_tag"], rows.tag_rows(uid, job_id, spec))


def _put_key(db: Connection, run: NewRun, spec: Spec) -> None:
    made_of = (definition_of(spec, run.payload), run.uid, spec.key, run.job_id.bytes)
    db.execute(_SQL["redefine_key"], made_of)
