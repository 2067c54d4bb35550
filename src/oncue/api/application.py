"""The one path that every request takes: who asks, what is done, what is remembered of it, what went wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from itertools import zip_longest

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oncue.api.audit import AuditLog, account_settled
from oncue.api.auth import Caller, check_role
from oncue.api.connection import known
from oncue.api.context import Api
from oncue.api.limits import RateLimit
from oncue.api.openapi import ITSELF
from oncue.api.problems import Refused, problem, problem_of
from oncue.api.reading import refuse_parameters, refuse_undecodable
from oncue.api.routes import OPEN_ROUTES, ROUTES, OpenCall, Route
from oncue.api.shares import Shares
from oncue.clock import Clock
from oncue.engines.port import Engine
from oncue.settings import Settings

Serve = Callable[[Request], Awaitable[Response]]

CALLS = {(route.method, f"/v1{route.path}"): route for route in ROUTES} | {(ITSELF.method, ITSELF.path): ITSELF}
OPEN_CALLS: dict[str, OpenCall] = {route.path: route.call for route in OPEN_ROUTES}


class Application:
    """The API on an engine that is open, and stays its opener's to close.

    Most requests are for a path without parameters, which is looked up; the others are tried one after the other.
    """

    def __init__(self, engine: Engine, clock: Clock, settings: Settings) -> None:
        self.api = Api(engine, clock, settings)
        guard = Guard(self.api, settings)
        by_path: dict[str, dict[str, Serve]] = defaultdict(dict)
        for (method, path), route in CALLS.items():
            by_path[path][method] = guard.before(route)
        for path, call in OPEN_CALLS.items():
            by_path[path]["GET"] = _open(self.api, call)
        for serves in by_path.values():
            if "GET" in serves:
                serves["HEAD"] = serves["GET"]
        self._plain = {path: serves for path, serves in by_path.items() if "{" not in path}
        self._patterns = [(_pattern(path), serves) for path, serves in by_path.items() if "{" in path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._serve(request)
        await response(scope, receive, send)

    async def _serve(self, request: Request) -> Response:
        serves = self._plain.get(request.scope["path"]) or self._by_pattern(request)
        if serves is None:
            return problem(HTTPStatus.NOT_FOUND, "there is nothing at this path")
        serve = serves.get(request.method)
        if serve is None:
            message = f"{request.method[:20]} is not possible here; the Allow header says what is"
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": ", ".join(sorted(serves))})
        return await serve(request)

    def _by_pattern(self, request: Request) -> dict[str, Serve] | None:
        for pattern, serves in self._patterns:
            if found := pattern.fullmatch(request.scope["path"]):
                request.scope["path_params"] = found.groupdict()
                return serves
        return None


def _pattern(path: str) -> re.Pattern[str]:
    """Of an id everything but a slash; names of queues and keys of jobs may have slashes."""
    parts = re.split(r"\{(\w+)\}", path)
    names = [f"(?P<{name}>{'[^/]+' if name == 'id' else '.+'})" for name in parts[1::2]]
    fixed = [re.escape(part) for part in parts[::2]]
    return re.compile("".join(one for pair in zip_longest(fixed, names, fillvalue="") for one in pair), re.DOTALL)


class Guard:
    """What is checked before every call, and written down after one that changed something."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api = api
        self._rate = RateLimit(api.clock, settings.request_rate)
        self._shares = Shares()
        self._audit = AuditLog(api.engine.accounts, api.clock)

    def before(self, route: Route) -> Serve:
        async def serve(request: Request) -> Response:
            caller: Caller | None = None
            try:
                with self._api.watchdog.wait():
                    caller = await self._admit(route, request)
                    with self._shares.of(caller, request.scope):
                        response = await route.call(self._api, request, caller)
            except Exception as error:
                response = problem_of(error, request)
            if caller is not None and route.action is not None:
                await self._write_down(route.action, request, response, caller)
            return response

        return serve

    async def _admit(self, route: Route, request: Request) -> Caller:
        try:
            caller = await self._api.keyring.admit(request)
        except Refused as refused:
            self._api.failed_keys.note(request, str(refused))
            raise
        known(request.scope)
        self._rate.admit(caller)
        check_role(caller, changes=route.action is not None, admin=route.admin)
        refuse_undecodable(request)
        if not route.query:
            refuse_parameters(request)
        return caller

    async def _write_down(self, action: str, request: Request, response: Response, caller: Caller) -> None:
        """What was done, or may have been: what is refused was not, and what failed on our side may have been."""
        failed = response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if response.status_code >= HTTPStatus.BAD_REQUEST and not failed:
            return
        if failed or not account_settled(request):
            self._api.changes.after(action, request, caller)
        if not account_settled(request):
            await self._audit.record(action, request, response, caller)


def _open(api: Api, call: OpenCall) -> Serve:
    async def serve(request: Request) -> Response:
        try:
            return await call(api, request)
        except Exception as error:
            return problem_of(error, request)

    return serve
