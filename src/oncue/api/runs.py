"""Calls on runs: show, payload, result, cancel, retry, and why a run has not started."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.dead_letters import followed
from oncue.api.http.answers import Answer, WrongState, answer, stored_json
from oncue.api.http.auth import Caller
from oncue.api.http.ranges import wanted_range
from oncue.api.http.reading import path_id, read_optional_object
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import idempotent
from oncue.api.shared.live_workers import offered
from oncue.api.shared.outcome import Changed, Outcome, outcome
from oncue.api.shared.payloads import REPLACING, read_replacement
from oncue.domain.errors import Invalid, NotFound, Problem
from oncue.domain.explain import Explanation, explain, explain_job, telling
from oncue.domain.fields import Reader, choice, read_fields
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.job import JobStatus
from oncue.domain.reference import size_of
from oncue.domain.run import NewRun, RunView, State, Status

CANCEL_TIMEOUT = Duration(SECOND)  # how long a cancel waits for the run to end
CANCEL_POLL_INTERVAL = Duration(25 * MILLISECOND)  # how often the cancel reads the run
VALUE_PARAMETERS: Mapping[str, Reader] = {"link": choice({"true": True, "false": False})}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """Show a run with its payload and the tracebacks of its attempts."""
    run = await _run(api, request, caller)
    kinds = await api.engine.errors.fingerprints([run.run_id]) if run.state is State.DEAD else {}
    return answer(views.whole_run(run, await api.known_of(run), api.clock.now(), kinds.get(run.run_id)))


async def result(api: Api, request: Request, caller: Caller) -> Response:
    asked = read_query(request, VALUE_PARAMETERS)
    run = await _run(api, request, caller)
    if run.state is not State.SUCCEEDED:
        status = views.status(run, api.clock.now())
        raise WrongState(f"Only a succeeded run has a result; this run is {status}.", status=status)
    return await _value(api, request, asked, run.result, f"result-{run.run_id}.json")


async def payload(api: Api, request: Request, caller: Caller) -> Response:
    asked = read_query(request, VALUE_PARAMETERS)
    run = await _run(api, request, caller)
    return await _value(api, request, asked, run.payload, f"payload-{run.run_id}.json")


async def _value(api: Api, request: Request, asked: Mapping[str, Any], stored: bytes | None, file: str) -> Response:
    """Answer with a value, a range of its bytes, or a link to it. A range is not compared with the SHA-256."""
    value = stored or b"null"
    if asked.get("link", False):
        return answer(await api.large.link(value))
    headers = {"Accept-Ranges": "bytes", "Content-Disposition": f'attachment; filename="{file}"'}
    size = size_of(value)
    part = wanted_range(request, size)
    if part is None:
        return stored_json(await api.large.read(value) or b"null", headers=headers)
    start, end = part
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    part_of_it = await api.large.read_range(value, start, end)
    return Answer(part_of_it, HTTPStatus.PARTIAL_CONTENT, headers, media_type="application/octet-stream")


async def cancel(api: Api, request: Request, caller: Caller) -> Outcome:
    """Cancel a run: at once if it waits. A running one gets a second to stop, so that the answer is its final state."""
    before = await _run(api, request, caller)
    stopped = await api.engine.running.cancel(caller.sees, before.run_id, api.clock.now())
    if stopped is None:
        raise NotFound
    if stopped.final is not None:
        status = Status[stopped.final.name]
        raise WrongState(f"Run {before.run_id} already ended: {status}.", status=status)
    await api.hint_stopped(stopped)
    until = api.clock.monotonic() + CANCEL_TIMEOUT
    run = await _run(api, request, caller)
    while not run.state.final and api.clock.monotonic() < until:
        await api.clock.sleep(CANCEL_POLL_INTERVAL)
        run = await _run(api, request, caller)
    changed = (Changed(before.uid),) if before.cancel_at is None else ()
    return outcome(await _shown(api, run), changed)


async def retry(api: Api, request: Request, caller: Caller) -> Outcome:
    """Run an ended run again, as a new run; with a payload of its own, or the same one patched."""
    raw, problems = await read_optional_object(request, api.largest_job), list[Problem]()
    new = read_replacement(api, read_fields(raw, REPLACING, problems), problems)
    if problems:
        raise Invalid(*problems)

    async def make(made: UUID) -> Outcome:
        run, now = await _run(api, request, caller), api.clock.now()
        if not run.state.final:
            status = views.status(run, now)
            raise WrongState(f"Only a run that has ended can be retried; this run is {status}.", status=status)
        following = await followed(api, caller, run, RunId(made), new)
        if run.state is State.DEAD:
            await _requeue(api, caller, following, now)
        else:
            await api.engine.history.rerun([following], now, api.quota_of_runs(caller))
        await api.hint_runs(now)
        return outcome(answer({"run_id": following.run_id}, HTTPStatus.ACCEPTED), (Changed(run.uid),))

    return await idempotent(api, request, caller, raw or None, make)


async def _requeue(api: Api, caller: Caller, new: NewRun, now: Instant) -> None:
    requeued = await api.engine.history.requeue([new], now, api.quota_of_runs(caller))
    if not requeued and await api.engine.history.run(caller.sees, new.run_id) is None:
        raise WrongState("This run was already run again or discarded.", status=Status.DEAD)


async def _run(api: Api, request: Request, caller: Caller) -> RunView:
    run = await api.engine.history.run(caller.sees, RunId(path_id(request)))
    if run is None:
        raise NotFound
    return run


async def _shown(api: Api, run: RunView) -> Response:
    return answer(views.run(run, await api.known_of(run), api.clock.now()))


async def explanation(api: Api, request: Request, caller: Caller) -> Response:
    found = await _explained(api, RunId(path_id(request)), caller)
    if found is None:
        raise NotFound
    return answer(found)


async def job_explanation(api: Api, request: Request, caller: Caller) -> Response:
    """Explain the job's due or active run; without one, its next run; without any, the job itself.

    What became of a job that runs once says its run, so that run is explained when it is over, too.
    """
    snap, now = await api.engine.jobs.read(caller.sees, JobId(path_id(request))), api.clock.now()
    if snap is None:
        raise NotFound
    run_id = telling(snap, now)
    if run_id is None and snap.job.status is JobStatus.FINISHED and not snap.job.spec.schedule.recurring:
        last = (await api.engine.lists.last_and_next([snap.job.job_id]))[snap.job.job_id].last
        run_id = None if last is None else last.run_id
    found = None if run_id is None else await _explained(api, run_id, caller)
    if found is None:
        found = explain_job(snap, now, paused_queues=await api.engine.fleet.paused_queues())
    return answer(found)


async def _explained(api: Api, run_id: RunId, caller: Caller) -> Explanation | None:
    standing = await api.engine.history.standing(caller.sees, run_id)
    if standing is None:
        return None
    classes = await api.classes_of(standing.run)
    holder = None
    if standing.holder is not None:
        holder = await api.engine.history.run(caller.sees, standing.holder)
    return explain(
        standing,
        classes[standing.run.class_id],
        [offered(worker) for worker in await api.engine.fleet.workers()],
        api.clock.now(),
        paused_queues=await api.engine.fleet.paused_queues(),
        holder=holder,
    )
