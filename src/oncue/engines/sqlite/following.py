"""Makes the runs of a job follow its current state, in bites: held by a pause, released, planned again after an edit,
or ended by a cancel.

The transaction that changes the job takes the first bite. If runs are left, the job is noted as unfinished, which
every claim checks, and other writes have their turns between the further bites.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from oncue.domain.following import followed, is_meant, is_outdated
from oncue.domain.ids import ClassId, JobId, RunId
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.job import Job, JobStatus, WaitingRun
from oncue.domain.lane import Held
from oncue.domain.run import State
from oncue.engines.finishing import Bite
from oncue.engines.port import Count
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.counting import Counted, count
from oncue.engines.sqlite.inserting import delete_many, insert_runs, write_ledger
from oncue.engines.sqlite.lanes import tend
from oncue.engines.sqlite.partitions import Partitions
from oncue.engines.sqlite.running import ask_to_stop, end_waiting
from oncue.engines.sqlite.store import Connection, fetch, first
from oncue.engines.touched import TouchedLanes

_SQL = statements("oncue.engines.sqlite")

BITE = 1_000  # runs in one turn of the writer: some dozen milliseconds
BATCH_SPREAD = Duration(20_000)  # runs requested in one batch are wanted up to this much later, in their order


class Note(msgspec.Struct, frozen=True):
    """A job with runs that have not followed a change at `since`. `reached`: runs up to here have followed."""

    since: Instant
    drop_before: Instant | None = None
    purge: bool = False
    reached: bytes = b""


def noted(db: Connection, job_id: JobId) -> Note | None:
    row = first(db, _SQL["noted"], (job_id.bytes,))
    return None if row is None else Note(row[0], row[1], bool(row[2]), row[3] or b"")


def note(db: Connection, job_id: JobId, new: Note, *, stops: bool = True) -> None:
    """Note that the job has runs that have not followed. `stops`: none of them is claimed before they have."""
    db.execute(_SQL["note"], (job_id.bytes, new.since + BATCH_SPREAD, stops, new.drop_before, new.purge))


def forget(db: Connection, job_id: JobId) -> None:
    db.execute("delete from unfinished where job_id = ?", (job_id.bytes,))


def next_bite(db: Connection, pieces: Partitions, job_id: JobId, now: Instant) -> Bite:
    """Take one bite of an unfinished job, in its current state. A one-shot's runs follow only its cancel."""
    note = noted(db, job_id)
    if note is None:
        return Bite()
    row = first(db, _SQL["read_recurring"], (job_id.bytes,))
    job = None if row is None else rows.job(row).job
    if row is None or job is None or job.status is JobStatus.CANCELLED:
        bite = cancel_some(db, pieces, job_id, now)
    else:
        bite = Bite(done=_follow(db, job, row[4], note, now))
    if bite.done and note.purge:
        return msgspec.structs.replace(bite, purge=True)
    if bite.done:
        forget(db, job_id)
    return bite


def cancel_some(db: Connection, pieces: Partitions, job_id: JobId, now: Instant) -> Bite:
    told = ask_to_stop(db, [row[0] for row in fetch(db, _SQL["running_of_job"], (job_id.bytes,))], now)
    waiting = [row[0] for row in fetch(db, _SQL["waiting_of_job"], (job_id.bytes, BITE))]
    stopped = end_waiting(db, pieces, waiting, State.CANCELLED, now)
    return Bite(stopped, told, done=len(waiting) < BITE)


def walk(db: Connection, job_id: JobId, after: bytes = b"") -> list[WaitingRun]:
    """Return waiting runs of a recurring job after that one, up to one bite, held or not."""
    return [
        WaitingRun(
            RunId(UUID(bytes=run_id)),
            wanted,
            nominal,
            scheduled=origin is None and not token,
            held=Held(held),
            by_hand=origin is not None,
            version=version,
        )
        for run_id, wanted, nominal, origin, held, token, version in fetch(
            db, _SQL["walk"], (job_id.bytes, after, BITE)
        )
    ]


def hold_or_release_some(
    db: Connection, job: Job, runs: Sequence[WaitingRun], now: Instant, since: Instant = NEVER
) -> None:
    meant = [run.run_id.bytes for run in runs if is_meant(job, run, since)]
    touched = TouchedLanes(now)
    hold_or_release(db, meant, touched, pause=job.status is JobStatus.PAUSED)
    tend(db, touched)


def _follow(db: Connection, job: Job, class_id: ClassId, note: Note, now: Instant) -> bool:
    """Let one bite of runs follow; return whether it was the last."""
    runs, touched = walk(db, job.job_id, note.reached), TouchedLanes(now)
    outdated = [run for run in runs if is_outdated(job, run, note.drop_before)]
    tokens = withdraw(db, [run.run_id.bytes for run in outdated], touched)
    after_all = followed(job, class_id, outdated, note.drop_before, now)
    insert_runs(db, [(run, None) for run in after_all.add], touched, tokens)
    write_ledger(db, [(job.uid, class_id, entry) for entry in after_all.ledger], now)
    if after_all.uncounted:
        db.execute(_SQL["uncount"], (after_all.uncounted, job.job_id.bytes))
    tend(db, touched)
    taken = {run.run_id for run in outdated}
    hold_or_release_some(db, job, [run for run in runs if run.run_id not in taken], now, note.since)
    if len(runs) < BITE:
        return True
    reach(db, job.job_id, runs[-1])
    return False


def reach(db: Connection, job_id: JobId, last: WaitingRun) -> None:
    """Record for a noted job that its runs up to this one have followed."""
    db.execute("update unfinished set run_id = ? where job_id = ?", (last.run_id.bytes, job_id.bytes))


def withdraw(db: Connection, run_ids: list[bytes], touched: TouchedLanes) -> dict[bytes, int]:
    """Delete waiting runs as if they had never existed, except for the counters and their tokens: a run that is added
    again continues its token, to fence older attempts.
    """
    if not run_ids:
        return {}
    tokens: dict[bytes, int] = dict(fetch(db, _SQL["tokens"], (rows.blobs(run_ids),)))
    tally = Counted()
    for _, uid, class_id, lane, gate in fetch(db, _SQL["members"], (rows.blobs(run_ids),)):
        tally[uid, class_id, Count.WITHDRAWN] += 1
        touched.free(lane, gate)
    delete_many(db, "runs", run_ids)
    count(db, tally, touched.now)
    return tokens


def hold_or_release(db: Connection, run_ids: list[bytes], touched: TouchedLanes, *, pause: bool) -> None:
    """Hold or release runs. The caller tends their lanes."""
    for _, _, _, lane, gate in fetch(db, _SQL["members"], (rows.blobs(run_ids),)) if run_ids else ():
        touched.free(lane, gate)
    if pause:
        db.executemany(_SQL["hold"], [(run_id,) for run_id in run_ids])
        return
    for meter, held, due in db.executemany(_SQL["release"], [(run_id, touched.now) for run_id in run_ids]):
        touched.wait_for_rate(meter, held, due)
