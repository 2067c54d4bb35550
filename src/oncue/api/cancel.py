"""Ending a job, and purging it: then nothing is left of it but the audit log and what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.requests import Request

from oncue.api.audit import audit_entry
from oncue.api.auth import Caller, forbidden
from oncue.api.changes import Changed
from oncue.api.context import Api
from oncue.api.jobs import cancel, shown, snapshot
from oncue.api.outcome import Interrupted, Line, Outcome, Unlogged
from oncue.api.pages import read_query
from oncue.api.reading import path_id
from oncue.api.runs import LOOK, PATIENCE
from oncue.domain.errors import Conflict
from oncue.domain.fields import Reader, choice
from oncue.domain.ids import JobId
from oncue.domain.job import Snapshot
from oncue.engines.port import Role

PARAMETERS: Mapping[str, Reader] = {"purge": choice({"true": True, "false": False})}
AT_A_TIME = 1_000  # runs deleted in one go: others wait no longer than for these
TIMES = 2  # while the caller waits


async def end(api: Api, request: Request, caller: Caller) -> Outcome:
    if not read_query(request, PARAMETERS).get("purge", False):
        return await cancel(api, request, caller)
    if caller.role is not Role.ADMIN:
        raise forbidden("purging is for administrators: leave purge out to end the job and keep its history")
    return await _purge(api, request, caller)


async def _purge(api: Api, request: Request, caller: Caller) -> Outcome:
    """End it, then delete it, some at a time; of a large one schedulers delete the rest.

    The answer is the job as it was, and says by its code whether it is gone.
    """
    job_id, now = JobId(path_id(request)), api.clock.now()
    await cancel(api, request, caller)
    snap = await _stopped(api, request, caller)
    if snap.going:
        raise Interrupted(_still_stopping(), (Changed(snap.job.uid, job_id),), Line())
    as_it_was = await shown(api, snap, caller)
    # first, because the rest may be cut off
    await api.engine.accounts.record([audit_entry("job.purge", request, caller, job_id, now)])
    for _ in range(TIMES):
        if not await api.engine.jobs.purge(job_id, AT_A_TIME):
            break
    if await api.engine.jobs.read(None, job_id) is not None:
        await api.engine.jobs.purge_later(job_id, now)
        as_it_was.status_code = HTTPStatus.ACCEPTED
    return Outcome(as_it_was, (Changed(snap.job.uid, jobs=True),), Unlogged.STORED)


async def _stopped(api: Api, request: Request, caller: Caller) -> Snapshot:
    """The job when nothing of it runs any more, or after a second."""
    until = api.clock.monotonic() + PATIENCE
    snap = await snapshot(api, request, caller)
    while snap.going and api.clock.monotonic() < until:
        await api.clock.sleep(LOOK)
        snap = await snapshot(api, request, caller)
    return snap


def _still_stopping() -> Conflict:
    return Conflict("this job is cancelled, and a run of it is being stopped; ask again in a moment")
