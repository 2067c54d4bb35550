"""What is near to jobs and runs: the last and next run of jobs, the last runs that ended, what jobs are called."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.run import RunView
from oncue.engines.capped import counts_of
from oncue.engines.port import Counts, EndedRun, JobName, LastAndNext
from oncue.engines.postgres import rows
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements
from oncue.engines.unreadable import key_of

_SQL = statements("oncue.engines.postgres")


async def counts(store: Store, uid: UserNumber | None, most: int, now: Instant) -> Counts:
    uids = None if uid is None else [uid]
    return counts_of([tuple(row) for row in await store.fetch(_SQL["capped_counts"], uids, most, now)], most)


async def last_ended(store: Store, job_ids: Sequence[JobId], limit: int) -> dict[JobId, list[EndedRun]]:
    found: dict[JobId, list[EndedRun]] = {}
    for row in await store.fetch(_SQL["last_ended"], job_ids, limit):
        found.setdefault(row["of_job"], []).append(rows.ended_run(row))
    return found


async def job_names(store: Store, runs: Sequence[RunView]) -> dict[RunId, JobName]:
    asked = [(run.run_id, run.job_id, run.ended_at) for run in runs]
    found = await store.fetch(_SQL["job_names"], *zip(*asked, strict=True)) if asked else []
    return {row["run_id"]: JobName(row["name"], key_of(row["spec"])) for row in found}


async def last_and_next(store: Store, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
    return {row["near"]: rows.last_and_next(row) for row in await store.fetch(_SQL["last_and_next"], job_ids)}
