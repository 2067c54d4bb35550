"""Deletes everything of a job that has ended."""

from __future__ import annotations

from oncue.domain.ids import JobId
from oncue.engines.sql import statements
from oncue.engines.sqlite.lists import find_one_shot
from oncue.engines.sqlite.partitions import pieces
from oncue.engines.sqlite.store import Connection, fetch, first
from oncue.engines.stored import ENDED, STATUSES

_SQL = statements("oncue.engines.sqlite")


def purge(db: Connection, job_id: JobId, limit: int) -> int:
    """Delete a part; return how much."""
    uid = _owner_of_ended(db, job_id)
    if uid is None or first(db, _SQL["runs_of_job"], (job_id.bytes, 1)) is not None:
        return 0
    gone = _purge_runs(db, uid, job_id, limit)
    if gone < limit:
        db.execute(_SQL["purge_ledger"], (job_id.bytes, limit - gone))
        gone += db.changes()
    if gone < limit:
        gone += _purge_definition(db, uid, job_id)
    return gone


def _owner_of_ended(db: Connection, job_id: JobId) -> int | None:
    """Return the owner of a job that exists and has ended."""
    row = first(db, "select * from recurring_jobs where job_id = ?", (job_id.bytes,)) or find_one_shot(db, job_id.bytes)
    return None if row is None or STATUSES[row[3]] not in ENDED else row[1]


def _purge_runs(db: Connection, uid: int, job_id: JobId, limit: int) -> int:
    """Delete runs, except a one-shot's own, which is its definition. In `dead` no index has the job, only its user."""
    gone = 0
    for table, whose in (*((piece.name, "") for piece in pieces(db)), ("dead", "uid = ?3 and ")):
        if gone == limit:
            break
        given = (job_id.bytes, limit - gone, uid) if whose else (job_id.bytes, limit - gone)
        found = fetch(db, _SQL["ended_runs_of_job"].format(table=table, whose=whose), given)
        for place in {table, "dead", "run_logs"}:
            db.executemany(f"delete from {place} where run_id = ?", found)
        gone += len(found)
    return gone


def _purge_definition(db: Connection, uid: int, job_id: JobId) -> int:
    db.execute("delete from job_keys where uid = ? and job_id = ?", (uid, job_id.bytes))
    for table in ("job_tags", "job_versions", "agenda", "jobs", "unfinished"):
        db.execute(f"delete from {table} where job_id = ?", (job_id.bytes,))
    for table in ("run_logs", "dead", *(piece.name for piece in pieces(db))):
        db.execute(f"delete from {table} where run_id = ?", (job_id.bytes,))
    return 1
