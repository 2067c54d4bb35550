"""Calls on jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.answers import answer
from oncue.api.auth import Caller
from oncue.api.context import Api
from oncue.api.pages import page, wanted_page
from oncue.api.reading import path_id, read_optional_object
from oncue.api.repeating import once
from oncue.domain import change
from oncue.domain.change import JobChange
from oncue.domain.errors import Conflict, Invalid, NotFound, Problem
from oncue.domain.fields import Reader, choice, read_fields, text
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.job import JobStatus, Snapshot
from oncue.domain.policy import CatchUp
from oncue.domain.run import RunView, State, Status
from oncue.engines.port import Hint, RunQuery, Topic

LIVE = frozenset({State.WAITING, State.RUNNING})
ENDED = frozenset(State) - LIVE
TRIES = 5  # decisions about a job that moves on while they are made
RESUMING: Mapping[str, Reader] = {"missed": choice({one.value: one for one in CatchUp})}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return await shown(api, await snapshot(api, request, caller), caller)


async def show_by_key(api: Api, request: Request, caller: Caller) -> Response:
    """The caller's own, whatever else an administrator sees: the one that has this key, or had it last."""
    snap = await keyed(api, path_key(api, request), caller)
    if snap is None:
        raise NotFound
    return await shown(api, snap, caller)


async def cancel(api: Api, request: Request, caller: Caller) -> Response:
    """Nothing of it starts after this answer. One that had ended before stays as it ended, and is shown so."""
    job_id = JobId(path_id(request))
    stopped = await api.engine.jobs.cancel(caller.sees, job_id, api.clock.now())
    if stopped is None:
        raise NotFound
    await api.hint_stopped(stopped)
    return await shown(api, await snapshot(api, request, caller), caller)


async def status(api: Api, request: Request, caller: Caller) -> Response:
    """The last run that is due or was tried; of a job that had none yet, the first to come."""
    snap = await snapshot(api, request, caller)
    latest = await _last_due(api, snap) or await _first_to_come(api, snap)
    return answer({"job_id": snap.job.job_id, "latest_run": latest})


async def runs(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    snap = await snapshot(api, request, caller)
    query = RunQuery(caller.sees, snap.job.job_id, limit=wanted.limit, after=wanted.after)
    found = await api.engine.history.runs(query)
    classes, now = await api.classes_of(*found.items), api.clock.now()
    return answer(page("runs", found, lambda run: views.run(run, classes, now), wanted))


async def run_now(api: Api, request: Request, caller: Caller) -> Response:
    asked_at = api.clock.now()

    async def make(made: UUID) -> Response:
        run_id = RunId(made)
        try:
            await _change(api, request, caller, lambda snap, now: change.run_now(snap, run_id, now))
        except Conflict:  # who asks again because no answer came may have been in time the first time
            if await api.engine.history.run(caller.sees, run_id) is None:
                raise
        await api.hint_runs(asked_at)  # workers look from there on: no later than the run is due
        return answer({"run_id": run_id}, HTTPStatus.ACCEPTED)

    return await once(api, request, caller, None, make)


async def pause(api: Api, request: Request, caller: Caller) -> Response:
    """Nothing of it starts after this answer, but what is asked for by hand later; what runs goes on."""

    def decide(snap: Snapshot, now: Instant) -> JobChange | None:
        return None if snap.job.status is JobStatus.PAUSED else change.pause(snap, now)

    await _change(api, request, caller, decide)
    await api.hint_runs(None)  # whoever waited behind what is held now
    return await show(api, request, caller)


async def resume(api: Api, request: Request, caller: Caller) -> Response:
    """Goes on from now; `missed` says what becomes of what the pause swallowed."""
    problems: list[Problem] = []
    found = read_fields(await read_optional_object(request), RESUMING, problems)
    if problems:
        raise Invalid(*problems)
    missed = found.get("missed", CatchUp.SKIP)
    await _change(api, request, caller, lambda snap, now: change.resume(snap, missed, now))
    await api.engine.signals.send([Hint(Topic.RUNS), Hint(Topic.JOBS)])
    return await show(api, request, caller)


async def _change(
    api: Api, request: Request, caller: Caller, decide: Callable[[Snapshot, Instant], JobChange | None]
) -> None:
    """Read, decide, write; again if the job moved on meanwhile. None: it is as it should be."""
    for _ in range(TRIES):
        snap, now = await snapshot(api, request, caller), api.clock.now()
        decided = decide(snap, now)
        if decided is None or await api.engine.jobs.apply(decided, now):
            return
    raise Conflict("this job is being changed by somebody else all the time: nothing was done; ask again")


async def snapshot(api: Api, request: Request, caller: Caller) -> Snapshot:
    snap = await api.engine.jobs.read(caller.sees, JobId(path_id(request)))
    if snap is None:
        raise NotFound
    return snap


def path_key(api: Api, request: Request) -> str:
    key: str = text(api.limits.name)(request.path_params["key"], "key")
    return key


async def keyed(api: Api, key: str, caller: Caller) -> Snapshot | None:
    job_id = await api.engine.jobs.keyed(caller.uid, key)
    return None if job_id is None else await api.engine.jobs.read(caller.uid, job_id)


async def shown(api: Api, snap: Snapshot, caller: Caller) -> Response:
    owner = await api.owner_of(snap.job.uid, caller)
    near = (await api.engine.history.nearby([snap.job.job_id]))[snap.job.job_id]
    last = None if near.last is None else await _run(api, near.last)
    return answer(views.job(snap, owner, last), headers={"ETag": views.etag(snap.job)})


async def _last_due(api: Api, snap: Snapshot) -> dict[str, Any] | None:
    """Of those that are due or going the one that was wanted last; else the one that ended last."""
    job_id, now = snap.job.job_id, api.clock.now()
    live = await api.engine.history.runs(RunQuery(job_id=job_id, states=LIVE))
    found = [run for run in live.items if views.status(run, now) is not Status.SCHEDULED]
    if not found:
        found = list((await api.engine.history.runs(RunQuery(job_id=job_id, states=ENDED, limit=1))).items)
    return await _run(api, max(found, key=lambda run: run.wanted)) if found else None


async def _first_to_come(api: Api, snap: Snapshot) -> dict[str, Any] | None:
    if not snap.waiting:
        return None
    first = min(snap.waiting, key=lambda run: run.wanted)
    found = await api.engine.history.run(snap.job.uid, first.run_id)
    return None if found is None else await _run(api, found)


async def _run(api: Api, found: RunView) -> dict[str, Any]:
    return views.run(found, await api.classes_of(found), api.clock.now())
