"""Stores for tests of services: each engine, each time empty, with whatever the services send and what they log."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.services.archive_site import Site
from tests.services.worker_loops import STAGED, check_holdings

from oncue.domain.instants import Duration
from oncue.engines.port import Hint
from oncue.testing.conformance import EmptyStore, Store
from oncue.testing.logs import capture_logs

HERE = Path(__file__).parent
# Where several processes want the same rows, and where PostgreSQL's own ways have a part. The rest follows from verbs
# that the conformance suite tries on both engines.
DIFFER = {
    "test_archiving",
    "test_bulk_work",
    "test_declared_schedules",
    "test_holdings",
    "test_overlap",
    "test_reaper",
    "test_scheduler",
    "test_sharing",
    "test_worker",
}
assert all((HERE / f"{name}.py").exists() for name in DIFFER), "a file that has another name by now"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On PostgreSQL only what may differ there; the rest when everything is run."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if item.path.parent != HERE or item.path.stem in DIFFER or callspec is None:
            continue
        if callspec.params.get("engine_name") == "postgres":
            item.add_marker(pytest.mark.long)


@pytest.fixture
async def store(empty_store: EmptyStore) -> AsyncIterator[Store]:
    STAGED.clear()
    async with await Store.on(await empty_store()) as store:
        yield store
        await check_holdings(store)


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
