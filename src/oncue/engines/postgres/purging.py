"""Deletes everything of a job that has ended."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Record

from oncue.domain.ids import JobId, UserNumber
from oncue.engines.postgres import rows
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements
from oncue.engines.stored import ENDED, STATUSES

_SQL = statements("oncue.engines.postgres")
# nothing refers to these objects any more
LOOK_SOON = "update objects set gone_at = 0 where owner_id = any($1::uuid[])"


class NotEnded(Exception):
    """The job has a waiting or running run: the transaction is rolled back."""


async def purge(connection: Connection, job_id: JobId, limit: int) -> int:
    """Delete a part; return how much. A verb that adds a run waits for the same locks, or is noticed at the end."""
    uid = await _lock_ended(connection, job_id)
    if uid is None:
        return 0
    gone = await _purge_runs(connection, uid, job_id, limit)
    if gone < limit:
        gone += len(await connection.fetch(_SQL["purge_ledger"], job_id, limit - gone))
    if gone < limit:
        gone += await _purge_definition(connection, uid, job_id)
    if await connection.fetchval(_SQL["has_live_runs"], job_id):
        raise NotEnded
    return gone


async def _lock_ended(connection: Connection, job_id: JobId) -> UserNumber | None:
    """Lock a job that has ended and return its owner. A one-shot has no row, and is locked by its id.

    The cursor is locked before the definition, as by a cancel or an edit.
    """
    await connection.execute("select from agenda where job_id = $1 for update", job_id)
    row = await connection.fetchrow(_SQL["lock_job"], job_id)
    if row is not None:
        return row["uid"] if STATUSES[row["status"]] in ENDED else None
    await connection.execute("select pg_advisory_xact_lock($1)", job_id.int & 2**63 - 1)
    row = await connection.fetchrow(_SQL["read_one_shot"], job_id)
    return None if row is None or rows.one_shot(row).status not in ENDED else row["uid"]


async def _purge_runs(connection: Connection, uid: UserNumber, job_id: JobId, limit: int) -> int:
    """Delete runs, except a one-shot's own, which is its definition."""
    ended = await connection.fetch(_SQL["purge_history"], job_id, limit)
    await _purge_traces(connection, ended)
    if len(ended) == limit:
        return limit
    dead = await connection.fetch(_SQL["purge_dead"], job_id, uid, limit - len(ended))
    await _purge_traces(connection, dead)
    return len(ended) + len(dead)


async def _purge_traces(connection: Connection, runs: Sequence[Record]) -> None:
    run_ids = [row["run_id"] for row in runs]
    await connection.execute(_SQL["discard"], run_ids, None)
    await connection.execute("delete from run_logs where run_id = any($1::uuid[])", run_ids)
    await connection.execute(LOOK_SOON, run_ids)


async def _purge_definition(connection: Connection, uid: UserNumber, job_id: JobId) -> int:
    for table in ("job_tags", "job_keys"):
        await connection.execute(f"delete from {table} where uid = $1 and job_id = $2", uid, job_id)
    for table in ("job_versions", "agenda", "jobs", "unfinished", "streaks"):
        await connection.execute(f"delete from {table} where job_id = $1", job_id)
    await connection.execute(_SQL["discard"], [job_id], None)
    for table in ("run_logs", "history"):
        await connection.execute(f"delete from {table} where run_id = $1", job_id)
    await connection.execute(LOOK_SOON, [job_id])
    return 1
