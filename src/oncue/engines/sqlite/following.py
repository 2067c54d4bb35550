"""Letting the runs of a job follow its status, in bites: held when it is paused, released, or ended by a cancel.

Whoever changes the status takes the first bite in the same turn of the writer. If more is left the job is noted as
unfinished, and others have their turns between the further bites: whoever comes after a crash goes on there.
"""

from __future__ import annotations

import msgspec

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.job import JobStatus
from oncue.domain.run import State
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.lanes import tend
from oncue.engines.sqlite.pieces import Pieces
from oncue.engines.sqlite.running import ask_to_stop, end_waiting
from oncue.engines.sqlite.store import Connection, fetch, first
from oncue.engines.touched import Touched

_SQL = statements("oncue.engines.sqlite")

BITE = 1_000  # runs in one turn: some dozen milliseconds
JUST_NOW = Duration(20_000)  # what was asked for together with others is wanted that much later, in their order
PAUSED, NOT_PAUSED, ANY = "held & 4 > 0", "held & 4 = 0", "true"


class Bite(msgspec.Struct, frozen=True):
    """What one turn did. `reached`: where the next one begins."""

    stopped: tuple[RunId, ...] = ()
    told: tuple[tuple[RunId, WorkerId], ...] = ()
    reached: bytes = b""
    done: bool = True


def is_unfinished(db: Connection, job_id: JobId) -> bool:
    return first(db, "select 1 from unfinished where job_id = ?", (job_id.bytes,)) is not None


def note(db: Connection, job_id: JobId, now: Instant, *, done: bool) -> None:
    """Whether runs of it are left that have not followed."""
    if done:
        db.execute("delete from unfinished where job_id = ?", (job_id.bytes,))
    else:
        db.execute("insert or ignore into unfinished (job_id, since) values (?, ?)", (job_id.bytes, now + JUST_NOW))


def next_bite(db: Connection, pieces: Pieces, job_id: JobId, after: bytes, now: Instant) -> Bite:
    """Of a job that is unfinished: as its status is now. A one-shot's runs follow nothing but its cancel."""
    row = first(db, "select since from unfinished where job_id = ?", (job_id.bytes,))
    if row is None:
        return Bite()
    job = first(db, "select status from jobs where job_id = ?", (job_id.bytes,))
    status = JobStatus.CANCELLED if job is None else rows.STATUSES[job[0]]
    if status is JobStatus.CANCELLED:
        bite = cancel_some(db, pieces, job_id, now)
    else:
        bite = hold_or_release_some(db, job_id, pause=status is JobStatus.PAUSED, after=after, since=row[0])
    note(db, job_id, now, done=bite.done)
    return bite


def cancel_some(db: Connection, pieces: Pieces, job_id: JobId, now: Instant) -> Bite:
    told = ask_to_stop(db, [row[0] for row in fetch(db, _SQL["running_of_job"], (job_id.bytes,))], now)
    waiting = _waiting(db, job_id, ANY)
    stopped = end_waiting(db, pieces, waiting, State.CANCELLED, now)
    return Bite(stopped, told, done=len(waiting) < BITE)


def hold_or_release_some(
    db: Connection, job_id: JobId, *, pause: bool, after: bytes = b"", since: Instant = NEVER
) -> Bite:
    run_ids = _waiting(db, job_id, NOT_PAUSED if pause else PAUSED, after, since)
    touched = Touched()
    hold_or_release(db, run_ids, touched, pause=pause)
    tend(db, touched)
    return Bite(reached=max(run_ids, default=after), done=len(run_ids) < BITE)


def hold_or_release(db: Connection, run_ids: list[bytes], touched: Touched, *, pause: bool) -> None:
    """Their lanes are tended by the caller."""
    for _, _, lane, gate in fetch(db, _SQL["members"], (rows.blobs(run_ids),)) if run_ids else ():
        touched.free(lane, gate)
    asked = [(run_id,) for run_id in run_ids]
    if pause:
        db.executemany(_SQL["hold"], asked)
        return
    for meter, held, due in db.executemany(_SQL["release"], asked):
        touched.wait_for_rate(meter, held, due)


def _waiting(db: Connection, job_id: JobId, which: str, after: bytes = b"", since: Instant = NEVER) -> list[bytes]:
    found = fetch(db, _SQL["following"].format(which=which), (job_id.bytes, after, BITE, since))
    return [row[0] for row in found]
