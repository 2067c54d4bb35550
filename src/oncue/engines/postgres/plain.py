"""Creating jobs with nothing about them that others could have or wait for: one-shots without keys, tags, quota, lanes.

Most jobs are. One statement stores them; the general way takes nine trips to the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncue.domain.ids import created_at
from oncue.domain.lane import FREE
from oncue.domain.run import NewRun
from oncue.engines.port import NewJob
from oncue.engines.postgres.inserting import deed_row
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
_DEED = 7  # columns


def is_plain(new: NewJob) -> bool:
    spec, run = new.job.spec, new.run
    plain = new.repeat is None and new.quota is None and spec.key is None and not spec.tags
    return plain and run is not None and run.lanes is FREE


async def create_plain(store: Store, new: Sequence[NewJob]) -> bool:
    """All of these. False: one of them is there already, and nothing was stored."""
    runs = [_run_row(job.run, job.job.spec.name) for job in new if job.run is not None]
    deeds = [deed_row(job.deed) for job in new if job.deed is not None]
    since = min(created_at(job.job.job_id) for job in new)
    told = zip(*deeds, strict=True) if deeds else [()] * _DEED
    [(stored,)] = await store.fetch(_SQL["create_plain"], *zip(*runs, strict=True), since, *told, hot=True)
    return bool(stored)


def _run_row(run: NewRun, name: str | None) -> tuple[Any, ...]:
    return (run.run_id, run.uid, run.class_id, run.wanted, run.nominal, run.expires_at, name, run.spec, run.payload)
