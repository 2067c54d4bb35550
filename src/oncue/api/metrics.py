"""`GET /metrics` and `GET /metrics/cluster`: what this process counts, and what the database tells of all.

A client sends the metrics token, which needs no database, or an admin key.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import Answer
from oncue.api.http.auth import Keyring, bearer, check_role
from oncue.api.http.browsers import Browsers
from oncue.api.http.connection import known
from oncue.api.http.store_watchdog import StoreWatchdog, WatchedCall
from oncue.clock import Clock
from oncue.domain.instants import MINUTE, Duration
from oncue.engines.port import Engine
from oncue.metrics.exposed import Exposed
from oncue.metrics.exposition import CONTENT_TYPE
from oncue.metrics.token import read_token
from oncue.settings import Settings

if TYPE_CHECKING:  # only an API needs it, and with it much of the API
    from oncue.api.cluster_metrics import ClusterMetrics

PROCESS, CLUSTER = "/metrics", "/metrics/cluster"

Call = Callable[[Request], Awaitable[Response]]

TRUSTED_FOR = Duration(5 * MINUTE)  # how long an admin key is accepted without the database, for /metrics only


class MetricsAccess:
    """Decides who may read metrics."""

    def __init__(self, keyring: Keyring, watchdog: StoreWatchdog, token: str | None, *, is_open: bool = False) -> None:
        self._keyring = keyring
        self._watchdog = watchdog
        self._token = None if token is None else _digest(token)
        self._is_open = is_open

    async def check(self, request: Request, trusted_for: Duration) -> None:
        """Refused: neither the token nor an admin key. StoreUnavailable: the key cannot be looked up, and was not valid
        within `trusted_for`.
        """
        if self._is_open or self._has_token(request):
            known(request.scope)
            return
        with WatchedCall(self._watchdog):
            caller = await self._keyring.admit(request, trusted_for)
        check_role(caller, changes=False, admin=True)
        known(request.scope)

    def _has_token(self, request: Request) -> bool:
        """Compare digests: how long that takes tells nothing of the token."""
        return self._token is not None and hmac.compare_digest(_digest(bearer(request) or ""), self._token)


class Metrics:
    """The calls."""

    def __init__(self, exposed: Exposed, access: MetricsAccess, of_cluster: ClusterMetrics | None = None) -> None:
        self._exposed = exposed
        self._access = access
        self._of_cluster = of_cluster
        self.calls: dict[str, Call] = {PROCESS: self.process}
        if of_cluster is not None:
            self.calls[CLUSTER] = self.cluster

    async def process(self, request: Request) -> Response:
        await self._access.check(request, TRUSTED_FOR)
        return Answer(self._exposed.shared_text(), media_type=CONTENT_TYPE)

    async def cluster(self, request: Request) -> Response:
        assert self._of_cluster is not None
        await self._access.check(request, Duration(0))
        return Answer(await self._of_cluster.text(), media_type=CONTENT_TYPE)


def metrics_access(engine: Engine, clock: Clock, settings: Settings) -> MetricsAccess:
    """Return who may read the metrics that have a port of their own."""
    keyring = Keyring(engine, clock, Browsers(settings.public_url))
    watchdog = StoreWatchdog(engine.ping, clock)
    return MetricsAccess(keyring, watchdog, read_token(settings), is_open=settings.metrics_open)


def _digest(text: str) -> bytes:
    return sha256(text.encode(errors="surrogateescape")).digest()
