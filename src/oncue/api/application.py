"""The table of calls, and the one path that every request takes: who asks, what is done, what went wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oncue.api import dead_letters, explaining, fleet, health, jobs, occurrences, queues, runs
from oncue.api.auth import Caller
from oncue.api.context import Api
from oncue.api.problems import http_problem, problem_of
from oncue.clock import Clock
from oncue.engines.port import Engine
from oncue.settings import Settings

Call = Callable[[Api, Request, Caller], Awaitable[Response]]
OpenCall = Callable[[Api, Request], Awaitable[Response]]

CALLS: dict[tuple[str, str], Call] = {
    ("POST", "/v1/jobs"): jobs.create,
    ("GET", "/v1/jobs/{id}"): jobs.show,
    ("DELETE", "/v1/jobs/{id}"): jobs.cancel,
    ("GET", "/v1/jobs/{id}/status"): jobs.status,
    ("GET", "/v1/jobs/{id}/runs"): jobs.runs,
    ("GET", "/v1/jobs/{id}/occurrences"): occurrences.show,
    ("GET", "/v1/jobs/{id}/explain"): explaining.job,
    ("POST", "/v1/jobs/{id}/runNow"): jobs.run_now,
    ("POST", "/v1/jobs/{id}/pause"): jobs.pause,
    ("POST", "/v1/jobs/{id}/resume"): jobs.resume,
    ("GET", "/v1/runs/{id}"): runs.show,
    ("GET", "/v1/runs/{id}/logs"): runs.logs,
    ("GET", "/v1/runs/{id}/result"): runs.result,
    ("GET", "/v1/runs/{id}/explain"): explaining.run,
    ("POST", "/v1/runs/{id}/cancel"): runs.cancel,
    ("POST", "/v1/runs/{id}/retry"): runs.retry,
    ("GET", "/v1/dead-letters"): dead_letters.show,
    ("POST", "/v1/dead-letters/requeue"): dead_letters.requeue,
    ("GET", "/v1/tasks"): fleet.tasks,
    ("GET", "/v1/workers"): fleet.workers,
    ("GET", "/v1/queues"): queues.show,
    ("POST", "/v1/queues/{queue}/pause"): queues.pause,
    ("POST", "/v1/queues/{queue}/resume"): queues.resume,
}
OPEN_CALLS: dict[str, OpenCall] = {"/healthz": health.alive, "/readyz": health.ready}


def create_app(engine: Engine, clock: Clock, settings: Settings) -> Starlette:
    """The API on an engine that is open, and stays its opener's to close."""
    api = Api(engine, clock, settings)
    by_path: dict[str, dict[str, Call]] = defaultdict(dict)
    for (method, path), call in CALLS.items():
        by_path[path.replace("{queue}", "{queue:path}")][method] = call  # a queue's name may have slashes
    app = Starlette(
        routes=[
            *(Route(path, _guarded(api, by_method), methods=list(by_method)) for path, by_method in by_path.items()),
            *(Route(path, _open(api, call), methods=["GET"]) for path, call in OPEN_CALLS.items()),
        ],
        exception_handlers={HTTPException: http_problem},
    )
    app.router.redirect_slashes = False
    return app


def _guarded(api: Api, by_method: dict[str, Call]) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            caller = await api.keyring.admit(request)
            call = by_method["GET" if request.method == "HEAD" else request.method]
            return await call(api, request, caller)
        except Exception as error:
            return problem_of(error, request)

    return serve


def _open(api: Api, call: OpenCall) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            return await call(api, request)
        except Exception as error:
            return problem_of(error, request)

    return serve
