"""What watchers of one job read: its runs that run, have just ended, or have just begun to wait again."""

from __future__ import annotations

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.run import RunView
from oncue.engines.postgres import rows
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")


async def list_recent_of_job(store: Store, uid: UserNumber, job_id: JobId, since: Instant, limit: int) -> list[RunView]:
    return [rows.view(row) for row in await store.fetch(_SQL["recent_of_job"], uid, job_id, since, limit)]
