"""Serve the API on a port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from oncue.api.application import Application
from oncue.api.http.access_log import AccessLog
from oncue.api.http.server import listening
from oncue.clock import Clock
from oncue.engines.port import Engine
from oncue.metrics.exposed import Exposed
from oncue.settings import Settings
from oncue.tracing.port import Tracing


@asynccontextmanager
async def serving(
    engine: Engine,
    clock: Clock,
    settings: Settings,
    door: socket.socket,
    awaited: asyncio.Event,
    exposed: Exposed | None = None,
    tracing: Tracing | None = None,
) -> AsyncIterator[str]:
    """Serve the API inside the block; yields its address. `/readyz` fails until all that is awaited has happened."""
    app = Application(engine, clock, settings, exposed, tracing)
    app.api.awaited = awaited
    logged = AccessLog(app, clock) if settings.access_log else app
    async with listening(logged, door, clock, app.api.watching.close) as address:  # streams do not end on their own
        yield address
