"""The one path that every request takes: who asks, what is done, what went wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oncue.api import health
from oncue.api.context import Api
from oncue.api.problems import http_problem, problem_of
from oncue.api.routes import ROUTES, Call
from oncue.clock import Clock
from oncue.engines.port import Engine
from oncue.settings import Settings

OpenCall = Callable[[Api, Request], Awaitable[Response]]

CALLS = {(route.method, f"/v1{route.path}"): route for route in ROUTES}
OPEN_CALLS: dict[str, OpenCall] = {"/healthz": health.alive, "/readyz": health.ready}


def create_app(engine: Engine, clock: Clock, settings: Settings) -> Starlette:
    """The API on an engine that is open, and stays its opener's to close."""
    api = Api(engine, clock, settings)
    by_path: dict[str, dict[str, Call]] = defaultdict(dict)
    for (method, path), route in CALLS.items():
        by_path[path.replace("{queue}", "{queue:path}")][method] = route.call  # a queue's name may have slashes
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
