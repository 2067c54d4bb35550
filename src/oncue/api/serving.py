"""Serve the API on a port: uvicorn around the application, started and stopped with the block that uses it."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from oncue.api.application import Application
from oncue.api.http.access_log import AccessLog
from oncue.api.http.connection import Connection, Connections, most_connections
from oncue.clock import Clock
from oncue.domain.errors import Invalid
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue.supervised import Supervised
from oncue.tracing.port import Tracing

LAST_ANSWERS = 5  # seconds for requests in progress when the server is told to stop


class Server(uvicorn.Server):
    """Handles no signals: its caller tells it when to stop."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        super().__init__(_config(app))
        self.server_state: Connections = Connections(most)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def on_tick(self, counter: int) -> bool:
        self.server_state.look()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # any process of this machine could write any address into the audit log
        timeout_graceful_shutdown=LAST_ANSWERS,
    )


@asynccontextmanager
async def serving(
    engine: Engine,
    clock: Clock,
    settings: Settings,
    door: socket.socket,
    awaited: asyncio.Event,
    tracing: Tracing | None = None,
) -> AsyncIterator[str]:
    """Listen inside the block; yields the address. `/readyz` fails until all that is awaited has happened."""
    host, port = door.getsockname()[:2]
    app = Application(engine, clock, settings, tracing)
    app.api.awaited = awaited
    server = Server(AccessLog(app, clock) if settings.access_log else app, most_connections())
    served = Supervised("web server", lambda: server.serve(sockets=[door]), clock, most_ends=1)
    try:
        await server.listening.wait()
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        server.should_exit = True
        await app.api.watching.close()  # streams do not end on their own
        await served.stop(within=2 * LAST_ANSWERS)


def take_address(settings: Settings) -> socket.socket:
    """Bind without listening: connections are refused until a server listens."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio sets no TCP_NODELAY
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((settings.host, settings.port))
        door.set_inheritable(False)
    except OSError as refused:
        door.close()
        if refused.errno == errno.EADDRINUSE:
            problem = f"{settings.port} is in use on {settings.host}; stop the other program, or choose another --port"
            raise Invalid.of("port", "in_use", problem) from None
        raise Invalid.of("host", "cannot_listen", f"cannot listen on {settings.host}: {refused.strerror}") from None
    return door
