"""One server for all examples, started as the README says."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from tests.examples.server import Up, ask, eventually, up


@pytest.fixture(scope="session")
def mail_door() -> Iterator[socket.socket]:
    """Where the examples send their mail: a door that listens before anybody serves."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door


@pytest.fixture(scope="session")
def oncue(tmp_path_factory: pytest.TempPathFactory, mail_door: socket.socket) -> Iterator[Up]:
    options = ("--allow-commands", "--http-allow", "127.0.0.1/32")
    environment = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(mail_door.getsockname()[1])}
    with up(tmp_path_factory.mktemp("oncue"), *options, **environment) as server:
        asyncio.run(_worker_is_there(server))
        yield server


async def _worker_is_there(server: Up) -> None:
    async with server.client() as client:

        async def announced() -> list[str] | None:
            return [task["name"] for task in (await ask(client, "GET", "/tasks", 200))["tasks"]] or None

        await eventually(announced)


@pytest.fixture
async def client(oncue: Up) -> AsyncIterator[httpx2.AsyncClient]:
    async with oncue.client() as client:
        yield client
