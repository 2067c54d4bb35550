"""Object storage on a real S3 server: SeaweedFS. S3-compatible, which is not the same as tried on Amazon's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.promises import exercise
from tests.storage.seaweed import Seaweed, seaweed, settings_for

from oncue.clock import SystemClock
from oncue.domain.errors import StorageRefused, StorageUnavailable
from oncue.storage.open import open_storage

pytestmark = [pytest.mark.ops, pytest.mark.xdist_group("seaweed")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running


@pytest.fixture(autouse=True)
def _keys(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


async def test_s3_keeps_the_promises(server: Seaweed) -> None:
    await exercise(open_storage(settings_for(server), SystemClock()))


async def test_a_wrong_key_is_refused_at_once(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(StorageRefused):
        await open_storage(settings_for(server), SystemClock()).put("v1/payload/1/2026-11-17/aa", b"1")


async def test_a_server_that_is_stopped_is_unavailable_and_then_back(tmp_path: Path) -> None:
    with seaweed(tmp_path / "weed") as server:
        storage = open_storage(settings_for(server), SystemClock())
        await storage.put("v1/payload/1/2026-11-17/aa", b"1")
        server.stop()
        with pytest.raises(StorageUnavailable):
            await storage.put("v1/payload/1/2026-11-17/bb", b"1")
        server.start()
        await storage.put("v1/payload/1/2026-11-17/bb", b"1")
