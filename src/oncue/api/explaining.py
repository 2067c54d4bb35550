"""Why something has or has not run yet."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.answers import answer
from oncue.api.auth import Caller
from oncue.api.context import Api
from oncue.api.reading import path_id
from oncue.domain.errors import NotFound
from oncue.domain.explain import Explanation, Offered, explain, explain_job, telling
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.placement import read_offer
from oncue.engines.port import Worker


async def run(api: Api, request: Request, caller: Caller) -> Response:
    found = await _run(api, RunId(path_id(request)), caller)
    if found is None:
        raise NotFound
    return answer(found)


async def job(api: Api, request: Request, caller: Caller) -> Response:
    """Of its run that is due or going; before that, of the first to come; without any, of the job itself."""
    snap, now = await api.engine.jobs.read(caller.sees, JobId(path_id(request))), api.clock.now()
    if snap is None:
        raise NotFound
    run_id = telling(snap, now)
    found = None if run_id is None else await _run(api, run_id, caller)
    if found is None:
        found = explain_job(snap, now, paused_queues=await api.engine.fleet.paused_queues())
    return answer(found)


async def _run(api: Api, run_id: RunId, caller: Caller) -> Explanation | None:
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
        [_offered(worker) for worker in await api.engine.fleet.workers()],
        api.clock.now(),
        paused_queues=await api.engine.fleet.paused_queues(),
        holder=holder,
    )


def _offered(worker: Worker) -> Offered:
    live_until = Instant(worker.beat_at + worker.lease)
    return Offered(worker.classes, live_until, worker.draining, read_offer(worker.info))
