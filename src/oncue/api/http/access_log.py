"""The access log: one line per answered request, only with the setting `access_log`.

It names the route, not the path, and never the query string: both may hold what users wrote.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncue.clock import Clock
from oncue.domain.instants import MILLISECOND
from oncue.log import log

ROUTE, KEY_ID = "oncue.route", "oncue.key_id"  # keys in a request's scope
LONGEST_METHOD = 20  # characters


class AccessLog:
    """Wraps the application. An event stream is logged when it ends."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._clock.monotonic()
        status: int | None = None

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            log.info(
                "Answered a request",
                kind="request",
                method=scope["method"][:LONGEST_METHOD],
                route=scope.get(ROUTE),
                status=status,
                ms=round((self._clock.monotonic() - began) / MILLISECOND, 1),
                key_id=scope.get(KEY_ID),
            )
