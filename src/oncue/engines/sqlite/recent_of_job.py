"""What watchers of one job read: its runs that run, have just ended, or have just begun to wait again."""

from __future__ import annotations

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.run import RunView
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.partitions import pieces
from oncue.engines.sqlite.store import Connection, fetch

_SQL = statements("oncue.engines.sqlite")


def list_recent_of_job(db: Connection, uid: UserNumber, job_id: JobId, since: Instant, limit: int) -> list[RunView]:
    running = fetch(db, _SQL["recent_running_of_job"], (job_id.bytes, limit))
    ended: list[rows.Row] = []
    for piece in pieces(db, since):
        statement = _SQL["recent_ended_of_job"].format(piece=piece.name)
        ended += fetch(db, statement, (job_id.bytes, since, limit - len(ended)))
    retried = fetch(db, _SQL["retried_of_job"], (uid, job_id.bytes, since, limit))
    return [rows.view(row) for row in (*running, *ended, *retried)]
