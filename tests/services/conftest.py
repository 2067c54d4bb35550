"""Stores for tests of services: each engine, each time empty, with whatever the services send and what they log."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from oncue.domain.instants import DAY, Duration
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Hint
from oncue.settings import Settings
from oncue.testing.clock import SOME_DAY
from oncue.testing.conformance import EmptyStore, Store
from oncue.testing.conformance.store import Open
from oncue.testing.postgres import PrivatePostgres


def opener(url: str) -> Open:
    async def open_one() -> Engine:
        return await open_engine(Settings(engine=url, pool_size=4))

    return open_one


@cache
def template(server: PrivatePostgres) -> str:
    name = "oncue_services"
    url = server.create_database(name)

    async def prepare() -> None:
        engine = await opener(url)()
        await engine.history.tend(SOME_DAY, Duration(365 * DAY))
        await engine.close()

    with ThreadPoolExecutor(max_workers=1) as thread:  # there may be a loop in this one
        thread.submit(asyncio.run, prepare()).result()
    return name


def on_sqlite(folder: Path) -> EmptyStore:
    async def make() -> Open:
        return opener(f"sqlite:///{folder / secrets.token_hex(4)}.db")

    return make


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmptyStore]:
    if request.param == "sqlite":
        yield on_sqlite(tmp_path)
        return
    server: PrivatePostgres = request.getfixturevalue("postgres_server")
    name = f"oncue_services_{secrets.token_hex(8)}"

    async def make() -> Open:
        server.drop_database(name)
        return opener(server.create_database(name, template=template(server)))

    yield make
    server.drop_database(name)


@pytest.fixture
async def store(empty_store: EmptyStore) -> AsyncIterator[Store]:
    async with await Store.on(await empty_store()) as store:
        yield store


@pytest.fixture
def hints(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Hint]:
    """What is sent, in order."""
    sent: list[Hint] = []

    async def send(some: list[Hint]) -> None:
        sent.extend(some)

    monkeypatch.setattr(store.engine.signals, "send", send)
    return sent


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines
