"""Deletes everything of a job that has ended."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence

from oncue.domain.ids import JobId
from oncue.engines.port import Count
from oncue.engines.sql import statements
from oncue.engines.sqlite.counting import count
from oncue.engines.sqlite.partitions import pieces
from oncue.engines.sqlite.searching import find_job
from oncue.engines.sqlite.store import Connection, fetch, first
from oncue.engines.stored import ENDED, STATUSES

_SQL = statements("oncue.engines.sqlite")
LOOK_SOON = "update objects set gone_at = 0 where owner_id = ?"  # nothing refers to these objects any more


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
    row = find_job(db, job_id.bytes)
    return None if row is None or STATUSES[row[3]] not in ENDED else row[1]


def _purge_runs(db: Connection, uid: int, job_id: JobId, limit: int) -> int:
    """Delete runs, except a one-shot's own, which is its definition. In `dead` no index has the job, only its user."""
    gone = 0
    for table, whose in (*((piece.name, "") for piece in pieces(db)), ("dead", "uid = ?3 and ")):
        if gone == limit:
            break
        given = (job_id.bytes, limit - gone, uid) if whose else (job_id.bytes, limit - gone)
        found = fetch(db, _SQL["ended_runs_of_job"].format(table=table, whose=whose), given)
        _discard(db, [run_id for (run_id,) in found])
        for place in {table, "run_logs"} - {"dead"}:
            db.executemany(f"delete from {place} where run_id = ?", found)
        db.executemany(LOOK_SOON, found)
        gone += len(found)
    return gone


def _discard(db: Connection, run_ids: Sequence[bytes]) -> None:
    letters = [first(db, _SQL["take_off"], (run_id, None)) for run_id in run_ids]
    count(db, Tally((*letter, Count.DISCARDED) for letter in letters if letter), None)


def _purge_definition(db: Connection, uid: int, job_id: JobId) -> int:
    db.execute("delete from job_keys where uid = ? and job_id = ?", (uid, job_id.bytes))
    for table in ("job_tags", "job_versions", "agenda", "jobs", "unfinished", "streaks"):
        db.execute(f"delete from {table} where job_id = ?", (job_id.bytes,))
    _discard(db, [job_id.bytes])
    for table in ("run_logs", *(piece.name for piece in pieces(db))):
        db.execute(f"delete from {table} where run_id = ?", (job_id.bytes,))
    db.execute(LOOK_SOON, (job_id.bytes,))
    return 1
