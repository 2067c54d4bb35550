"""Metrics and health on a port of their own, for every role: the same server as the API's, with few calls."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oncue.api.http.answers import AGAIN_SOON, Refused, answer, problem, problem_of
from oncue.api.http.server import listening
from oncue.api.metrics import Metrics, metrics_access
from oncue.clock import Clock
from oncue.domain.instants import SECOND, Duration
from oncue.engines.port import Engine
from oncue.metrics.exposed import Exposed
from oncue.metrics.tick import Tick
from oncue.settings import Settings

LATE = Duration(10 * SECOND)  # an event loop that has not turned for so long is blocked

Check = Callable[[], Awaitable[str | None]]  # tells what is wrong, if anything is


class MetricsApplication:
    """`checks` decide whether the process is ready; one that raises says so, too."""

    def __init__(self, metrics: Metrics, tick: Tick, clock: Clock, checks: Sequence[Check]) -> None:
        self._tick = tick
        self._clock = clock
        self._checks = checks
        self._calls = {**metrics.calls, "/healthz": self._alive, "/readyz": self._ready}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        call = self._calls.get(request.scope["path"])
        if call is None:
            return problem(HTTPStatus.NOT_FOUND, f"There is no resource at this path. Use {', '.join(self._calls)}.")
        if request.method not in ("GET", "HEAD"):
            message = f"{request.method[:20]} is not allowed here. The Allow header lists the methods that are."
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": "GET, HEAD"})
        try:
            return await call(request)
        except Exception as error:
            return problem_of(error, request)

    async def _alive(self, request: Request) -> Response:
        """Never asks the database: a restart of this process would not help it."""
        if self._clock.monotonic() - self._tick.at > LATE:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The event loop was blocked for 10 seconds.", AGAIN_SOON)
        return answer({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        for check in self._checks:
            if (wrong := await check()) is not None:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, wrong, AGAIN_SOON)
        return answer({"status": "ok"})


@asynccontextmanager
async def serving_metrics(
    door: socket.socket,
    exposed: Exposed,
    engine: Engine,
    clock: Clock,
    settings: Settings,
    checks: Sequence[Check],
    *,
    cluster: bool,
) -> AsyncIterator[str]:
    """Serve metrics and health inside the block; yields the address. `cluster`: also those of the whole cluster."""
    of_cluster = None
    if cluster:
        from oncue.api.cluster_metrics import ClusterMetrics  # it needs much of the API

        of_cluster = ClusterMetrics(engine, clock, settings.retention, settings.partition_span)
    metrics = Metrics(exposed, metrics_access(engine, clock, settings), of_cluster)
    async with listening(MetricsApplication(metrics, exposed.tick, clock, checks), door, clock) as address:
        yield address
