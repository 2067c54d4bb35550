"""Stores for tests of services: each engine, each time empty, with whatever the services send and what they log."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.services.archive_site import Site

from oncue.domain.instants import Duration
from oncue.engines.port import Hint
from oncue.testing.conformance import EmptyStore, Store
from oncue.testing.logs import capture_logs


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=(pytest.mark.postgres, pytest.mark.again))])
def engine_name(request: pytest.FixtureRequest) -> str:
    """Both, but every day only SQLite: what differs between engines is tried by the conformance suite on both."""
    name: str = request.param
    return name


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
def site(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A store with an archive, where nobody waits."""

    async def at_once(length: Duration) -> None:
        store.advance(1)

    monkeypatch.setattr(store.clock, "sleep", at_once)
    return Site(store, tmp_path / "archive")


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines
