"""The API on a port: uvicorn around the application, started and stopped with the block that uses it."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from oncue.api.application import create_app
from oncue.clock import Clock
from oncue.domain.errors import Invalid
from oncue.engines.port import Engine
from oncue.settings import Settings

LAST_ANSWERS = 5  # seconds for requests that are under way when the server is told to stop


class Server(uvicorn.Server):
    """Signals are not its business: whoever runs it says when to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(engine: Engine, clock: Clock, settings: Settings) -> AsyncIterator[str]:
    """Listening inside the block; yields the address."""
    with _listening(settings) as door:
        host, port = door.getsockname()[:2]
        app = create_app(engine, clock, settings)
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=LAST_ANSWERS,
        )
        server = Server(config)
        served = asyncio.create_task(server.serve(sockets=[door]))
        try:
            await server.listening.wait()
            yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
        finally:
            server.should_exit = True
            await app.state.api.watching.close()  # streams have no end of their own
            await served


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    door = socket.socket(family)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((settings.host, settings.port))
        door.set_inheritable(False)
    except OSError as refused:
        door.close()
        if refused.errno == errno.EADDRINUSE:
            problem = f"{settings.port} is taken on {settings.host}: stop what uses it, or choose another --port"
            raise Invalid.of("port", "in_use", problem) from None
        raise Invalid.of("host", "cannot_listen", f"cannot listen on {settings.host}: {refused.strerror}") from None
    return door
