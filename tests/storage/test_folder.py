"""Object storage in a folder. tests/ops/test_storage.py has the same for a real S3 server."""

import asyncio
import stat
import threading
from pathlib import Path

import pytest
from tests.storage.promises import exercise

from oncue.clock import SystemClock
from oncue.domain.errors import Invalid, ObjectLost, StorageUnavailable
from oncue.domain.reference import Reference
from oncue.metrics.metric import Roles
from oncue.metrics.numbers import Numbers
from oncue.settings import Settings
from oncue.storage.objects import MARK
from oncue.storage.open import open_archive, open_storage, storage_url
from oncue.storage.port import Storage

KEY = "v1/payload/1/2026-11-17/aa"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(Settings(data_dir=str(tmp_path / "data")), SystemClock())


async def test_a_folder_keeps_the_promises(storage: Storage) -> None:
    await exercise(storage)


async def test_the_folder_is_private(storage: Storage, tmp_path: Path) -> None:
    await storage.put(KEY, b"1")
    assert stat.S_IMODE((tmp_path / "data" / "objects").stat().st_mode) == 0o700


async def test_the_first_two_puts_may_come_at_once(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a put that takes the folder, which another thread is about to make, for one that has gone."""
    exists, made = Path.exists, threading.Event()

    def seen_before_it_is_made(path: Path) -> bool:
        there = exists(path)
        if path.name == MARK and not there and not made.is_set():
            made.set()  # the first to look waits until the second has made it
            asyncio.run(storage.put(f"{KEY}b", b"2"))
        return there

    monkeypatch.setattr(Path, "exists", seen_before_it_is_made)
    await storage.put(KEY, b"1")
    assert (await storage.size(KEY), await storage.size(f"{KEY}b")) == (1, 1)


async def test_bytes_that_changed_are_not_returned(storage: Storage, tmp_path: Path) -> None:
    await storage.put(KEY, b"12345")
    (tmp_path / "data" / "objects" / KEY).write_bytes(b"12346")
    with pytest.raises(ObjectLost, match="has changed"):
        await storage.get(Reference.to(KEY, b"12345"))


async def test_what_a_killed_writer_left_goes_with_the_object(storage: Storage, tmp_path: Path) -> None:
    await storage.put(KEY, b"1")
    (tmp_path / "data" / "objects" / f"{KEY}#1").write_bytes(b"half")
    await storage.delete([KEY])
    assert not [one for one in (tmp_path / "data" / "objects" / "v1").rglob("*") if one.is_file()]


async def test_a_folder_that_is_gone_is_unavailable_and_not_made_again(storage: Storage, tmp_path: Path) -> None:
    """Catches a mount that is missing: its objects are not lost, and new ones must not go below it."""
    folder = tmp_path / "data" / "objects"
    await storage.put(KEY, b"1")
    folder.rename(tmp_path / "elsewhere")
    for empty in (False, True):
        if empty:
            folder.mkdir()
        for call in (storage.get(Reference.to(KEY, b"1")), storage.put(f"{KEY}b", b"1"), storage.delete([KEY])):
            with pytest.raises(StorageUnavailable, match="is it mounted"):
                await call
    folder.rmdir()
    (tmp_path / "elsewhere").rename(folder)
    assert await storage.get(Reference.to(KEY, b"1")) == b"1"


async def test_looking_at_a_new_folder_does_not_make_it(storage: Storage, tmp_path: Path) -> None:
    assert await storage.size(KEY) is None
    assert [page async for page in storage.listed("v1")] == []
    await storage.delete([KEY])
    with pytest.raises(StorageUnavailable):
        await storage.get(Reference.to(KEY, b"1"))
    assert not (tmp_path / "data").exists()


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    numbers = Numbers(None, Roles.API)
    storage = open_storage(Settings(data_dir=str(tmp_path / "data")), SystemClock(), numbers)
    with pytest.raises(StorageUnavailable):
        await storage.put(KEY, b"1")
    assert ("oncue_storage_errors_total", ("put", "away"), (1.0,)) in [
        (one.name, one.labels, one.values) for one in numbers.series()
    ]


async def test_an_address_where_nobody_listens_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    settings = Settings(storage="s3://bucket", storage_endpoint="http://127.0.0.1:9", storage_region="x")
    with pytest.raises(StorageUnavailable):
        await open_storage(settings, SystemClock()).put(KEY, b"1")


@pytest.mark.parametrize(
    "url",
    ["/folder", "ftp://host/folder", "s3://key:secret@bucket", "file://relative/x", "file://", "s3://", "s3:///x"],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        open_storage(Settings(storage=url), SystemClock())
    assert refused.value.problems[0].path == "storage"
    with pytest.raises(Invalid) as refused:
        open_archive(Settings(archive=url), SystemClock())
    assert refused.value.problems[0].path == "archive"


def test_without_a_url_it_is_a_folder_in_the_data_folder(tmp_path: Path) -> None:
    assert storage_url(Settings(data_dir=str(tmp_path / "a b"))) == f"file://{tmp_path}/a%20b/objects"


async def test_an_error_names_a_bucket_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    storage = open_storage(Settings(storage="az://container?sig=geheim"), SystemClock())

    with pytest.raises(StorageUnavailable, match=r"head at az://container\?sig=•••:"):
        await storage.size(KEY)
