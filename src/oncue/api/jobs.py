"""Calls on one job: show, run now, pause, resume, cancel and purge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.audit import audit_entry
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller, forbidden
from oncue.api.http.reading import path_id, read_optional_object
from oncue.api.listing import page, read_query, wanted_page
from oncue.api.runs import CANCEL_POLL_INTERVAL, CANCEL_TIMEOUT
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import idempotent
from oncue.api.shared.outcome import Changed, Interrupted, Line, Outcome, Unlogged, outcome
from oncue.api.shared.payloads import LOST, OWN_PAYLOAD, Replacement, read_replacement, replaced
from oncue.domain import change
from oncue.domain.change import JobChange
from oncue.domain.edits import changed
from oncue.domain.errors import Conflict, Invalid, NotFound, ObjectLost, Problem
from oncue.domain.fields import Reader, choice, read_fields, text
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.job import JobStatus, Snapshot
from oncue.domain.policy import CatchUp
from oncue.engines.port import Hint, Role, RunQuery, Topic
from oncue.intake.edits import until_settled
from oncue.log import log

RESUMING: Mapping[str, Reader] = {"missed": choice({one.value: one for one in CatchUp})}

PARAMETERS: Mapping[str, Reader] = {"purge": choice({"true": True, "false": False})}
AT_A_TIME = 1_000  # runs deleted in one transaction: other writers wait only for these
PURGE_STEPS = 2  # transactions of a purge while the caller waits


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return await shown(api, await snapshot(api, request, caller), caller, whole=True)


async def show_by_key(api: Api, request: Request, caller: Caller) -> Response:
    """Show the caller's own job that has this key, or had it last, even if the caller is an administrator."""
    snap = await keyed(api, path_key(api, request), caller)
    if snap is None:
        raise NotFound
    return await shown(api, snap, caller, whole=True)


async def cancel(api: Api, request: Request, caller: Caller) -> Outcome:
    """Cancel a job: none of its runs starts after this answer. A job that had ended stays unchanged and is shown."""
    before = await snapshot(api, request, caller)
    stopped = await api.engine.jobs.cancel(caller.sees, before.job.job_id, api.clock.now())
    if stopped is None:
        raise NotFound
    await api.hint_stopped(stopped)
    changed = () if _is_over(before) else (Changed(before.job.uid, before.job.job_id),)
    left = before if stopped.job is None else Snapshot(stopped.job, before.class_id, cursor=None)
    return outcome(await shown(api, left, caller), changed)


def _is_over(snap: Snapshot) -> bool:
    """Whether a cancel has nothing left to do. A finished job may still have waiting or active runs."""
    if snap.job.status is JobStatus.FINISHED:
        return not snap.waiting and not snap.going
    return snap.job.status is JobStatus.CANCELLED


async def status(api: Api, request: Request, caller: Caller) -> Response:
    """Show the last run that is due or has started; for a job without one, the next run."""
    snap = await snapshot(api, request, caller)
    latest = await _latest(api, snap)
    return answer({"job_id": snap.job.job_id, "latest_run": latest})


async def runs(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    snap = await snapshot(api, request, caller)
    query = RunQuery(caller.sees, snap.job.job_id, limit=wanted.limit, after=wanted.after)
    found = await api.engine.lists.runs(query)
    known, now = await api.known_of(*found.items), api.clock.now()
    return answer(page("runs", found, lambda run: views.run(run, known, now), wanted))


async def run_now(api: Api, request: Request, caller: Caller) -> Outcome:
    """Run a job now; with a `payload`, that of this run only."""
    asked_at = api.clock.now()
    raw, problems = await read_optional_object(request, api.largest_job), list[Problem]()
    own = read_replacement(api, read_fields(raw, OWN_PAYLOAD, problems), problems)
    if problems:
        raise Invalid(*problems)

    async def make(made: UUID) -> Outcome:
        run_id = RunId(made)
        try:
            changed = await until_settled(api.clock, lambda: _run_now(api, request, caller, run_id, own))
        except Conflict:  # a repeated request whose first answer was lost may have been in time
            run = await api.engine.history.run(caller.sees, run_id)
            if run is None:
                raise
            changed = (Changed(run.uid, run.job_id),)
        await api.hint_runs(asked_at)  # workers look from there on: no later than the run is due
        return outcome(answer({"run_id": run_id}, HTTPStatus.ACCEPTED), changed)

    return await idempotent(api, request, caller, raw or None, make)


async def _run_now(
    api: Api, request: Request, caller: Caller, run_id: RunId, own: Replacement | None
) -> tuple[Changed, ...] | None:
    """None: the job changed meanwhile."""
    snap, now = await snapshot(api, request, caller), api.clock.now()
    job = snap.job
    carried = None if own is None else await replaced(api, caller, job.spec, job.payload, own, job.uid)
    decided = change.run_now(snap, run_id, now, carried)
    if carried is not None:
        await api.large.save((job.job_id, job.uid, carried[1]))
    applied = await api.engine.jobs.apply(decided, now, api.quota_of_runs(caller))
    return (Changed(job.uid, job.job_id),) if applied else None


async def pause(api: Api, request: Request, caller: Caller) -> Outcome:
    """Pause a job: no run starts after this answer, except those started by hand later; active runs continue."""

    def decide(snap: Snapshot, now: Instant) -> JobChange | None:
        return None if snap.job.status is JobStatus.PAUSED else change.pause(snap, now)

    before, after = await _change(api, request, caller, decide)
    await api.hint_runs(None)  # a run that waited behind the held runs may start
    return outcome(await shown(api, after, caller), changed_by(before, after))


async def resume(api: Api, request: Request, caller: Caller) -> Outcome:
    """Resume a job from now on; `missed` says which occurrences of the pause still run."""
    problems: list[Problem] = []
    found = read_fields(await read_optional_object(request), RESUMING, problems)
    if problems:
        raise Invalid(*problems)
    missed = found.get("missed", CatchUp.SKIP)

    def decide(snap: Snapshot, now: Instant) -> JobChange | None:
        decided = change.resume(snap, missed, now)
        return decided if snap.job.status is JobStatus.PAUSED else None

    before, after = await _change(api, request, caller, decide)
    await api.engine.signals.send([Hint(Topic.RUNS), Hint(Topic.JOBS)])
    return outcome(await shown(api, after, caller), changed_by(before, after))


async def _change(
    api: Api, request: Request, caller: Caller, decide: Callable[[Snapshot, Instant], JobChange | None]
) -> tuple[Snapshot, Snapshot]:
    """Read, decide, write; repeat if the job changed meanwhile. Return the job before and after: the same, if it needs
    no change.
    """

    async def attempt() -> tuple[Snapshot, Snapshot] | None:
        snap, now = await snapshot(api, request, caller), api.clock.now()
        decided = decide(snap, now)
        if decided is None:
            return snap, snap
        applied = await api.engine.jobs.apply(decided, now, api.quota_of_runs(caller))
        return (snap, changed(snap, decided)) if applied else None

    return await until_settled(api.clock, attempt)


def changed_by(before: Snapshot, after: Snapshot) -> tuple[Changed, ...]:
    """Return what the change that led from the one to the other changed."""
    return () if after is before else (Changed(after.job.uid, after.job.job_id),)


async def snapshot(api: Api, request: Request, caller: Caller) -> Snapshot:
    snap = await api.engine.jobs.read(caller.sees, JobId(path_id(request)))
    if snap is None:
        raise NotFound
    return snap


def path_key(api: Api, request: Request) -> str:
    key: str = text(api.intake.limits.name)(request.path_params["key"], "key")
    return key


async def keyed(api: Api, key: str, caller: Caller) -> Snapshot | None:
    holder = await api.engine.jobs.keyed(caller.uid, key)
    return None if holder is None else await api.engine.jobs.read(caller.uid, holder.job_id)


async def shown(
    api: Api, snap: Snapshot, caller: Caller, warnings: Sequence[Mapping[str, str]] = (), *, whole: bool = False
) -> Response:
    """`whole`: with its payload, also if that is in object storage; a lost one is null, with a warning."""
    owner = await api.owner_of(snap.job.uid, caller)
    near = (await api.engine.lists.last_and_next([snap.job.job_id]))[snap.job.job_id]
    last = None if near.last is None else views.last_run(near.last, api.clock.now())
    payload = None
    try:
        payload = await api.large.read(snap.job.payload) if whole else None
    except ObjectLost as lost:
        log.error("The payload of a job is lost", kind="object_lost", job_id=str(snap.job.job_id), why=str(lost))
        warnings = (*warnings, {"path": "payload", "code": "lost", "message": LOST})
    return answer(views.job(snap, owner, last, warnings, payload), headers={"ETag": views.etag(snap.job)})


async def _latest(api: Api, snap: Snapshot) -> views.ShownRun | None:
    """Of the due and active runs the one wanted last; else the one that ended last, or the next one."""
    job_id, now = snap.job.job_id, api.clock.now()
    last = (await api.engine.lists.last_and_next([job_id]))[job_id].last
    due = [run for run in snap.waiting if run.wanted <= now and run.run_id not in snap.going]
    newest = max(due, key=lambda run: run.wanted, default=None)
    if newest is None and last is None:
        newest = min(snap.waiting, key=lambda run: run.wanted, default=None)
    if newest is not None and (last is None or last.state.final or newest.wanted > last.wanted):
        last = await api.engine.history.run(snap.job.uid, newest.run_id) or last
    return None if last is None else views.run(last, await api.known_of(last), now)


async def end(api: Api, request: Request, caller: Caller) -> Outcome:
    if not read_query(request, PARAMETERS).get("purge", False):
        return await cancel(api, request, caller)
    if caller.role is not Role.ADMIN:
        raise forbidden("Purging needs an admin key. Leave out purge to cancel the job and keep its history.")
    return await _purge(api, request, caller)


async def _purge(api: Api, request: Request, caller: Caller) -> Outcome:
    """Cancel the job, then delete it in batches; schedulers delete the rest of a large job.

    The answer is the job as it was; its status code says whether the job is gone.
    """
    job_id, now = JobId(path_id(request)), api.clock.now()
    await cancel(api, request, caller)
    snap = await _stopped(api, request, caller)
    if snap.going:
        raise Interrupted(_still_stopping(), (Changed(snap.job.uid, job_id),), Line())
    as_it_was = await shown(api, snap, caller)
    # first, because the request may be interrupted later
    await api.engine.audit.record([audit_entry("job.purge", request, caller, job_id, now)])
    for _ in range(PURGE_STEPS):
        if not await api.engine.jobs.purge(job_id, AT_A_TIME):
            break
    if await api.engine.jobs.read(None, job_id) is not None:
        await api.engine.jobs.purge_later(job_id, now)
        as_it_was.status_code = HTTPStatus.ACCEPTED
    return Outcome(as_it_was, (Changed(snap.job.uid, jobs=True),), Unlogged.STORED)


async def _stopped(api: Api, request: Request, caller: Caller) -> Snapshot:
    """Return the job when none of its runs is active, or after a second."""
    until = api.clock.monotonic() + CANCEL_TIMEOUT
    snap = await snapshot(api, request, caller)
    while snap.going and api.clock.monotonic() < until:
        await api.clock.sleep(CANCEL_POLL_INTERVAL)
        snap = await snapshot(api, request, caller)
    return snap


def _still_stopping() -> Conflict:
    return Conflict("This job is cancelled, but one of its runs is still stopping. Retry in 1 second.")
