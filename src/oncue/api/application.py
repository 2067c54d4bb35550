"""The one path of every request: authenticate, call, audit, and turn errors into answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from http import HTTPStatus
from itertools import zip_longest
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oncue.api import sessions
from oncue.api.audit import WRITTEN_AFTER_A_FAILURE, WRITTEN_WITHIN, AuditLog, audit_entry
from oncue.api.cluster_metrics import ClusterMetrics
from oncue.api.dashboard import Dashboard
from oncue.api.http.access_log import KEY_ID, ROUTE
from oncue.api.http.answers import Answer, Refused, problem, problem_of
from oncue.api.http.auth import Caller, KeyRefused, check_role
from oncue.api.http.connection import known
from oncue.api.http.limits import ApiRequest, RateLimit, Share, Shares
from oncue.api.http.reading import as_uuid, expect_json, refuse_parameters, refuse_undecodable
from oncue.api.http.store_watchdog import WatchedCall
from oncue.api.http.tracing import Serve, traced
from oncue.api.metrics import Metrics, MetricsAccess
from oncue.api.openapi import ITSELF
from oncue.api.routes import OPEN_ROUTES, ROUTES, Change, OpenCall, Route, is_for_viewers
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Interrupted, Line, Outcome
from oncue.clock import Clock
from oncue.domain.errors import Forbidden, QuotaExceeded, WritesStalled
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.engines.port import AuditEntry, Engine
from oncue.metrics.exposed import Exposed
from oncue.metrics.metric import OTHER, Roles
from oncue.metrics.table import HTTP_REQUESTS, HTTP_SECONDS, REFUSED
from oncue.metrics.token import read_token
from oncue.settings import Settings
from oncue.tracing.port import Tracing

CALLS = {(route.method, f"/v1{route.path}"): route for route in ROUTES} | {(ITSELF.method, ITSELF.path): ITSELF}
OPEN_CALLS: dict[str, OpenCall] = {route.path: route.call for route in OPEN_ROUTES}


class Application:
    """The API on an open engine. The caller that opened the engine closes it.

    Most requests have a path without parameters, which is looked up; the other patterns are tried one after the other.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        settings: Settings,
        exposed: Exposed | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        exposed = exposed or Exposed(clock, Roles.API)
        self.api = Api(engine, clock, settings, exposed.numbers)
        self._clock = clock
        self._numbers = exposed.numbers
        guard = Guard(self.api, settings)
        by_path: dict[str, dict[str, Serve]] = defaultdict(dict)
        for (method, path), route in CALLS.items():
            serve = guard.before(path, route)
            if isinstance(route, Change):
                serve = traced(serve, method, path, tracing, settings.trace_baggage)
            by_path[path][method] = serve
        for path, call in OPEN_CALLS.items():
            by_path[path]["GET"] = _unguarded(path, partial(call, self.api))
        if self.api.serves_metrics:
            access = MetricsAccess(self.api.keyring, self.api.watchdog, read_token(settings))
            of_cluster = ClusterMetrics(engine, clock, settings.retention, settings.partition_span)
            for path, text in Metrics(exposed, access, of_cluster).calls.items():
                by_path[path]["GET"] = _unguarded(path, text)
        for path, file in Dashboard().calls.items():
            by_path[path]["GET"] = _unguarded(path, file)
        for serves in by_path.values():
            if "GET" in serves:
                serves["HEAD"] = serves["GET"]
        self._plain = {path: (path, serves) for path, serves in by_path.items() if "{" not in path}
        self._patterns = [(_pattern(path), path, serves) for path, serves in by_path.items() if "{" in path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._clock.monotonic()
        route, serves = self._plain.get(scope["path"]) or self._by_pattern(scope)
        serve = serves.get(scope["method"])
        response = _no_such_call(scope, serves) if serve is None else await serve(ApiRequest(scope, receive))
        try:
            await response(scope, receive, send)
        finally:
            self._count(route, response, began)

    def _by_pattern(self, scope: Scope) -> tuple[str, dict[str, Serve]]:
        """Find the routes whose pattern matches this path, rather with this method: a queue may be called `a/pause`.

        Empty: nothing exists at this path.
        """
        other: tuple[str, dict[str, Serve]] = (OTHER, {})
        for pattern, path, serves in self._patterns:
            if found := pattern.fullmatch(scope["path"]):
                if scope["method"] in serves:
                    scope["path_params"] = found.groupdict()
                    return path, serves
                other = (path, serves) if other[0] == OTHER else other
        return other

    def _count(self, route: str, response: Response, began: Instant) -> None:
        """Count an answer. How long an event stream was open says nothing about the API."""
        self._numbers.add(HTTP_REQUESTS, route, str(int(response.status_code)))
        if isinstance(response, Answer):
            self._numbers.observe(HTTP_SECONDS, route, value=self._clock.monotonic() - began)


def _no_such_call(scope: Scope, serves: Mapping[str, Serve]) -> Response:
    if not serves:
        return problem(HTTPStatus.NOT_FOUND, "There is no resource at this path. GET /openapi.json lists every call.")
    message = f"{scope['method'][:20]} is not allowed here. The Allow header lists the methods that are."
    return problem(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": ", ".join(sorted(serves))})


@cache
def _pattern(path: str) -> re.Pattern[str]:
    """Compile a path. An id matches everything but a slash; queue names and job keys may contain slashes."""
    parts = re.split(r"\{(\w+)\}", path)
    names = [f"(?P<{name}>{'[^/]+' if name == 'id' else '.+'})" for name in parts[1::2]]
    fixed = [re.escape(part) for part in parts[::2]]
    return re.compile("".join(one for pair in zip_longest(fixed, names, fillvalue="") for one in pair), re.DOTALL)


class Guard:
    """Checks every call before it runs; hints to watchers and writes the audit log after one that changed something."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api = api
        self._rate = RateLimit(api.clock, settings.rate_limit)
        self._shares = Shares()
        self._audit = AuditLog(api.engine.audit, api.clock)

    def before(self, path: str, route: Route) -> Serve:
        changes, watchdog = isinstance(route, Change), self._api.watchdog

        async def serve(request: ApiRequest) -> Response:
            caller: Caller | None = None
            request.scope[ROUTE] = path
            try:
                with WatchedCall(watchdog, None if route.long else watchdog.patience(), changes=changes):
                    caller = await self._admit(route, request)
                    if changes:
                        watchdog.refuse_stalled()
                    with Share(self._shares, caller.uid) as request.share:
                        outcome = await route.call(self._api, request, caller)
            except Exception as error:
                return await self._failed(route.action, request, caller, error)
            if isinstance(outcome, Response):
                return outcome
            assert isinstance(route, Change)
            await self._write_down(route.action, request, caller, outcome)
            return outcome.answer

        return serve

    async def _admit(self, route: Route, request: Request) -> Caller:
        caller = await self._authenticate(route, request)
        known(request.scope)
        request.scope[KEY_ID] = caller.key_id
        self._rate.admit(caller)
        check_role(caller, changes=not is_for_viewers(route), admin=route.admin)
        self._api.last_uses.note(caller)
        refuse_undecodable(request)
        if not route.query:
            refuse_parameters(request)
        return caller

    async def _authenticate(self, route: Route, request: Request) -> Caller:
        try:
            if route.signs_in:
                return await sessions.admit(self._api, request)
            caller = await self._api.keyring.admit(request)
        except KeyRefused as refused:
            self._api.failed_keys.note(request, refused)
            raise
        if caller.session is not None and "content-type" in request.headers:  # what a form sends has another one
            expect_json(request)
        return caller

    async def _write_down(self, action: str, request: Request, caller: Caller, done: Outcome) -> None:
        for changed in done.changed:
            self._api.changes.note(changed)
        if isinstance(done.audit, Line):
            made = done.answer.headers.get("location", "").rpartition("/")[2]
            entry = self._entry(action, request, caller, done.changed, done.audit.detail, made)
            await self._audit.record(entry, WRITTEN_WITHIN)

    async def _failed(self, action: str | None, request: Request, caller: Caller | None, error: Exception) -> Response:
        """Audit a failed call. A refusal changed nothing. After a server error the line says: outcome unknown."""
        cut = error if isinstance(error, Interrupted) else Interrupted(error, (), Line())
        if (why := _refused_for(cut.why)) is not None:
            self._api.numbers.add(REFUSED, why)
        response = problem_of(cut.why, request)
        unknown = response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR and not _is_untried(cut.why)
        if caller is None or action is None or not (unknown or cut.changed):
            return response
        for changed in cut.changed or (_supposed(action, request, caller),):
            self._api.changes.note(changed)
        if isinstance(cut.audit, Line):
            detail = cut.audit.detail | ({"outcome": "unknown"} if unknown else {})
            entry = self._entry(action, request, caller, cut.changed, detail)
            await self._audit.record(entry, WRITTEN_AFTER_A_FAILURE if unknown else WRITTEN_WITHIN)
        return response

    def _entry(
        self,
        action: str,
        request: Request,
        caller: Caller,
        changed: Sequence[Changed],
        detail: dict[str, Any],
        made: str = "",
    ) -> AuditEntry:
        """Build the audit entry. Its object is the id in the path, the one created object, or the one changed job."""
        named = request.path_params.get("id") or made
        jobs = [one.job_id for one in changed]
        about = as_uuid(named) if named else jobs[0] if len(jobs) == 1 else None
        return audit_entry(action, request, caller, about, self._api.clock.now(), detail)


def _supposed(action: str, request: Request, caller: Caller) -> Changed:
    """Guess what a call may have changed that failed before it could report it."""
    if not action.startswith("job."):
        return Changed(caller.uid)
    job_id = as_uuid(request.path_params.get("id", ""))
    return Changed(caller.uid, jobs=True) if job_id is None else Changed(caller.uid, JobId(job_id))


def _is_untried(error: Exception) -> bool:
    return isinstance(error, WritesStalled) and not error.tried


def _refused_for(error: Exception) -> str | None:
    """Why a call was refused, as a label. None: not for who calls or how often."""
    match error:
        case QuotaExceeded():
            return "quota"
        case KeyRefused():
            return "key"
        case Forbidden() | Refused(status=HTTPStatus.FORBIDDEN):
            return "role"
        case Refused(status=HTTPStatus.TOO_MANY_REQUESTS):
            return "rate"
        case _:
            return None


def _unguarded(path: str, call: Callable[[Request], Awaitable[Response]]) -> Serve:
    """A call that checks its callers itself, or not at all."""

    async def serve(request: Request) -> Response:
        request.scope[ROUTE] = path
        try:
            return await call(request)
        except Exception as error:
            return problem_of(error, request)

    return serve
