"""Calls on workers: list, show, what one holds, drain, resume."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import path_id
from oncue.api.listing import page, wanted_page
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Outcome, outcome, unchanged
from oncue.domain.errors import Conflict, NotFound
from oncue.domain.ids import WorkerId
from oncue.domain.placement import read_offer
from oncue.engines.port import Worker


async def listed(api: Api, request: Request, caller: Caller) -> Response:
    now = api.clock.now()
    return answer({"workers": [views.worker(worker, now) for worker in await api.engine.fleet.workers()]})


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return _shown(api, await _worker(api, request))


async def runs(api: Api, request: Request, caller: Caller) -> Response:
    """List the runs that a worker holds now; a member sees only their own."""
    wanted = wanted_page(request, caller)
    worker = await _worker(api, request)
    found = await api.engine.lists.held(worker.worker_id, caller.sees, wanted.limit, wanted.after)
    known, now = await api.known_of(*found.items), api.clock.now()
    return answer(page("runs", found, lambda run: views.run(run, known, now), wanted))


async def drain(api: Api, request: Request, caller: Caller) -> Outcome:
    """Drain a worker: it takes no new runs and finishes its own; it stays registered until it is resumed or stops."""
    worker = await _worker(api, request)
    if worker.drain_at is not None:
        return unchanged(_shown(api, worker))
    offer = read_offer(worker.info)
    if offer is None or not offer.version:
        raise Conflict("This worker runs a version of oncue that cannot be drained by a request. Stop its process.")
    if not await api.engine.fleet.drain(worker.worker_id, api.clock.now()):
        raise NotFound
    return outcome(_shown(api, await _worker(api, request)), (Changed(caller.uid),))


async def resume(api: Api, request: Request, caller: Caller) -> Outcome:
    """Let a drained worker take runs again. One whose process is stopping stays draining."""
    worker = await _worker(api, request)
    if worker.drain_at is None:
        return unchanged(_shown(api, worker))
    if not await api.engine.fleet.undrain(worker.worker_id):
        raise NotFound
    return outcome(_shown(api, await _worker(api, request)), (Changed(caller.uid),))


async def _worker(api: Api, request: Request) -> Worker:
    worker_id = WorkerId(path_id(request))
    found = next((one for one in await api.engine.fleet.workers() if one.worker_id == worker_id), None)
    if found is None:
        raise NotFound
    return found


def _shown(api: Api, worker: Worker) -> Response:
    return answer(views.worker(worker, api.clock.now()))
