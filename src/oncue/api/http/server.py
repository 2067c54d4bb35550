"""A web server on a port: uvicorn around an application, started and stopped with the block that uses it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from oncue.api.http.address import url_of
from oncue.api.http.connection import Connection, Connections, most_connections
from oncue.clock import Clock
from oncue.restarting import Supervised

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.server_state.stopping = True
        await super().shutdown(sockets)

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


async def _nothing() -> None:
    """Nothing ends with the server."""


@asynccontextmanager
async def listening(
    app: ASGIApp, door: socket.socket, clock: Clock, close: Callable[[], Awaitable[None]] = _nothing
) -> AsyncIterator[str]:
    """Listen inside the block; yields the address. `close` is called when the server has been told to stop."""
    server = Server(app, most_connections())
    served = Supervised("web server", lambda: server.serve(sockets=[door]), clock, most_ends=1)
    try:
        await server.listening.wait()
        yield url_of(door)
    finally:
        server.should_exit = True
        await close()
        await served.stop(within=2 * LAST_ANSWERS)
