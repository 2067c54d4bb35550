"""Calls on jobs."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.answers import answer
from oncue.api.auth import Caller, forbidden
from oncue.api.catalogue import defaults_of, misfits
from oncue.api.context import Api
from oncue.api.pages import page, wanted_page
from oncue.api.reading import path_id, read_object, read_optional_object
from oncue.domain import change
from oncue.domain.addresses import check_url
from oncue.domain.change import JobChange
from oncue.domain.definition import define
from oncue.domain.errors import Conflict, Invalid, NotFound, Problem
from oncue.domain.fields import choice, read_fields
from oncue.domain.ids import ClassId, JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.job import Job, JobStatus, Snapshot, Spec, WaitingRun
from oncue.domain.plain_json import printable
from oncue.domain.policy import CatchUp
from oncue.domain.run import RunView, State, Status
from oncue.engines.port import Hint, NewJob, RunQuery, Task, Topic

LIVE = frozenset({State.WAITING, State.RUNNING})
ENDED = frozenset(State) - LIVE
TRIES = 5  # decisions about a job that moves on while they are made


async def create(api: Api, request: Request, caller: Caller) -> Response:
    raw = await read_object(request)
    now = api.clock.now()
    spec, payload = await _checked(api, raw, caller, now)
    [class_id] = await api.engine.jobs.intern([spec.class_key])
    job = Job(JobId(api.new_id(now)), caller.uid, spec, payload, created_at=now, updated_at=now)
    new = _new(job, class_id, now)
    await api.engine.jobs.create([new], now)
    await api.engine.signals.send([_hint(new)])
    shown = views.job(_as_stored(new), caller.user_id, None)
    headers = {"Location": f"/v1/jobs/{job.job_id}", "ETag": views.etag(job)}
    return answer(shown, HTTPStatus.CREATED, headers)


async def _checked(api: Api, raw: dict[str, Any], caller: Caller, now: Instant) -> tuple[Spec, bytes | None]:
    """The definition, if all of it is right; else everything that is not, at once."""
    name = raw.get("task")
    task = await api.catalogue.find(name) if isinstance(name, str) else None
    if task is not None and caller.role not in task.roles:
        raise forbidden(f"jobs of the task {printable(task.name)!r} are for these roles: {', '.join(task.roles)}")
    problems: list[Problem] = []
    try:
        spec, payload = define(raw, {} if task is None else defaults_of(task), now, api.limits)
    except Invalid as wrong:
        problems += wrong.problems
    named = {problem.path.partition(".")[0] for problem in problems}
    if task is None and "task" not in named:
        message = "no worker has announced this task: look at its spelling, or start a worker that has it"
        problems.append(Problem("task", "unknown_task", message))
    if task is not None and "payload" not in named:
        problems += _payload_problems(api, task, raw.get("payload") or {})
    if problems:
        raise Invalid(*problems)
    return spec, payload


def _payload_problems(api: Api, task: Task, payload: dict[str, Any]) -> list[Problem]:
    problems = misfits(task, payload)
    if task.name == "http" and not problems:
        try:
            check_url(payload["url"], api.reachable)
        except Invalid as wrong:
            problems += wrong.problems
    return problems


def _new(job: Job, class_id: ClassId, now: Instant) -> NewJob:
    if job.spec.schedule.recurring:
        return NewJob(job, class_id, cursor=change.first_cursor(job.spec.schedule, now))
    return NewJob(job, class_id, run=change.only_run(job, class_id, now))


def _hint(new: NewJob) -> Hint:
    if new.run is not None:
        return Hint(Topic.RUNS, due=new.run.wanted)
    return Hint(Topic.JOBS, due=new.cursor.next_at if new.cursor else None)


def _as_stored(new: NewJob) -> Snapshot:
    """The job as reading it back would give it, without asking."""
    run = new.run
    waiting = () if run is None else (WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=True),)
    return Snapshot(new.job, new.class_id, new.cursor, waiting)


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return await _shown(api, await _snapshot(api, request, caller), caller)


async def cancel(api: Api, request: Request, caller: Caller) -> Response:
    """Nothing of it starts after this answer. One that had ended before stays as it ended, and is shown so."""
    job_id = JobId(path_id(request))
    stopped = await api.engine.jobs.cancel(caller.sees, job_id, api.clock.now())
    if stopped is None:
        raise NotFound
    await api.hint_stopped(stopped)
    return await _shown(api, await _snapshot(api, request, caller), caller)


async def status(api: Api, request: Request, caller: Caller) -> Response:
    """The last run that is due or was tried; of a job that had none yet, the first to come."""
    snap = await _snapshot(api, request, caller)
    latest = await _last_due(api, snap) or await _first_to_come(api, snap)
    return answer({"job_id": snap.job.job_id, "latest_run": latest})


async def runs(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    snap = await _snapshot(api, request, caller)
    query = RunQuery(caller.sees, snap.job.job_id, limit=wanted.limit, after=wanted.after)
    found = await api.engine.history.runs(query)
    classes, now = await api.classes_of(*found.items), api.clock.now()
    return answer(page("runs", found, lambda run: views.run(run, classes, now), wanted))


async def run_now(api: Api, request: Request, caller: Caller) -> Response:
    asked_at = api.clock.now()
    run_id = RunId(api.new_id(asked_at))
    await _change(api, request, caller, lambda snap, now: change.run_now(snap, run_id, now))
    await api.hint_runs(asked_at)  # workers look from there on: no later than the run is due
    return answer({"run_id": run_id}, HTTPStatus.ACCEPTED)


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
    found = read_fields(
        await read_optional_object(request), {"missed": choice({c.value: c for c in CatchUp})}, problems
    )
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
        snap, now = await _snapshot(api, request, caller), api.clock.now()
        decided = decide(snap, now)
        if decided is None or await api.engine.jobs.apply(decided, now):
            return
    raise Conflict("this job is being changed by somebody else all the time: nothing was done; ask again")


async def _snapshot(api: Api, request: Request, caller: Caller) -> Snapshot:
    snap = await api.engine.jobs.read(caller.sees, JobId(path_id(request)))
    if snap is None:
        raise NotFound
    return snap


async def _shown(api: Api, snap: Snapshot, caller: Caller) -> Response:
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
