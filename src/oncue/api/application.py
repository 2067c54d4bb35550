"""The one path that every request takes: who asks, what is done, what is remembered of it, what went wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oncue.api.audit import AuditLog, account_settled
from oncue.api.auth import Caller, check_role
from oncue.api.context import Api
from oncue.api.limits import RateLimit
from oncue.api.openapi import ITSELF
from oncue.api.problems import http_problem, problem_of
from oncue.api.reading import refuse_parameters
from oncue.api.routes import OPEN_ROUTES, ROUTES, OpenCall
from oncue.api.routes import Route as Entry
from oncue.clock import Clock
from oncue.engines.port import Engine
from oncue.settings import Settings

Serve = Callable[[Request], Awaitable[Response]]

CALLS = {(route.method, f"/v1{route.path}"): route for route in ROUTES} | {(ITSELF.method, ITSELF.path): ITSELF}
OPEN_CALLS: dict[str, OpenCall] = {route.path: route.call for route in OPEN_ROUTES}


def create_app(engine: Engine, clock: Clock, settings: Settings) -> Starlette:
    """The API on an engine that is open, and stays its opener's to close."""
    api = Api(engine, clock, settings)
    guard = Guard(api, settings)
    by_path: dict[str, dict[str, Entry]] = defaultdict(dict)
    for (method, path), route in CALLS.items():
        path = path.replace("{queue}", "{queue:path}").replace("{key}", "{key:path}")  # these may have slashes
        by_path[path][method] = route
    app = Starlette(
        routes=[
            *(Route(path, guard.before(by_method), methods=list(by_method)) for path, by_method in by_path.items()),
            *(Route(path, _open(api, call), methods=["GET"]) for path, call in OPEN_CALLS.items()),
        ],
        exception_handlers={HTTPException: http_problem},
    )
    app.router.redirect_slashes = False
    app.state.api = api
    return app


class Guard:
    """What is checked before every call, and written down after one that changed something."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api = api
        self._rate = RateLimit(api.clock, settings.request_rate)
        self._audit = AuditLog(api.engine.people, api.clock)

    def before(self, by_method: Mapping[str, Entry]) -> Serve:
        async def serve(request: Request) -> Response:
            route = by_method["GET" if request.method == "HEAD" else request.method]
            caller: Caller | None = None
            try:
                with self._api.patience:
                    caller = await self._admit(route, request)
                    response = await route.call(self._api, request, caller)
            except Exception as error:
                response = problem_of(error, request)
            if caller is not None and route.action is not None:
                await self._write_down(route.action, request, response, caller)
            return response

        return serve

    async def _admit(self, route: Entry, request: Request) -> Caller:
        caller = await self._api.keyring.admit(request)
        self._rate.admit(caller)
        check_role(caller, changes=route.action is not None, admin=route.admin)
        if not route.query:
            refuse_parameters(request)
        return caller

    async def _write_down(self, action: str, request: Request, response: Response, caller: Caller) -> None:
        """What was done, or may have been: what is refused was not, and what failed on our side may have been."""
        refused = HTTPStatus.BAD_REQUEST <= response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
        if not refused and not account_settled(request):
            self._api.changes.after(action, request, caller)
            await self._audit.record(action, request, response, caller)


def _open(api: Api, call: OpenCall) -> Serve:
    async def serve(request: Request) -> Response:
        try:
            return await call(api, request)
        except Exception as error:
            return problem_of(error, request)

    return serve
