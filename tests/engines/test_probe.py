"""Whether a write would be kept, asked of a store that something has happened to."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.engines.sqlite.engine import SqliteEngine
from oncue.settings import Settings

SHORT = Duration(2 * SECOND)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "oncue.db"


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[SqliteEngine]:
    engine = await SqliteEngine.open(Settings(engine=f"sqlite:///{path}"))
    yield engine
    await engine.close()


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path, to: Path) -> None:
    path.replace(to)


def content(path: Path) -> bytes:
    return path.read_bytes()


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(os.urandom(path.stat().st_size))


def fill(folder: Path) -> Path:
    """Until there is no room left."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return folder / "filler"


async def many(engine: Engine) -> None:
    """More than the log still has room for."""
    for _ in range(1_000):
        await engine.probe()


async def refused(engine: Engine, why: str) -> None:
    with pytest.raises(StoreUnavailable, match=why):
        await engine.probe()
    with pytest.raises(StoreUnavailable, match=why):
        await engine.fleet.pause_queue("q", await engine.now())


async def test_a_file_that_was_deleted_takes_no_jobs(engine: SqliteEngine, path: Path) -> None:
    await engine.probe()
    delete(path)

    await refused(engine, "deleted, moved or replaced")


async def test_a_file_that_was_replaced_takes_no_jobs_and_is_left_alone(engine: SqliteEngine, path: Path) -> None:
    other = path.with_name("other.db")
    await (await SqliteEngine.open(Settings(engine=f"sqlite:///{other}"))).close()
    before = content(other)
    move(other, path)

    await refused(engine, "deleted, moved or replaced")
    assert content(path) == before


async def test_a_file_that_was_put_back_is_used_again(engine: SqliteEngine, path: Path) -> None:
    move(path, path.with_name("aside.db"))
    await refused(engine, "deleted, moved or replaced")
    move(path.with_name("aside.db"), path)

    await engine.probe()


async def test_a_file_that_is_no_database_any_more_is_not_ready(engine: SqliteEngine, path: Path) -> None:
    await engine.probe()
    await engine._store.write(lambda db: None)
    for file in (path, path.with_name("oncue.db-wal")):
        overwrite(file)

    with pytest.raises(StoreUnavailable, match="damaged"):
        await engine.probe()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("only root may mount a disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def test_a_full_disk_is_not_ready_and_one_with_room_again_is(small_disk: Path) -> None:
    engine = await SqliteEngine.open(Settings(engine=f"sqlite:///{small_disk}/oncue.db"))
    try:
        await engine.probe()
        filler = fill(small_disk)
        with pytest.raises(StoreUnavailable, match=r"full|read or write error"):
            await many(engine)
        delete(filler)
        await engine.probe()
    finally:
        await engine.close()


async def test_a_server_that_became_read_only_is_not_ready(postgres_url: str) -> None:
    engine = await open_engine(Settings(engine=postgres_url, store_timeout=SHORT))
    session = await asyncpg.connect(postgres_url)
    name = await session.fetchval("select current_database()")
    try:
        await engine.probe()
        await session.execute(f"alter database {name} set default_transaction_read_only = on")
        await session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            " and datname = current_database()"
        )
        with pytest.raises(StoreUnavailable, match=r"read-only|connection was lost"):
            await engine.probe()
        with pytest.raises(StoreUnavailable, match="read-only"):
            await engine.probe()
    finally:
        await session.execute("set default_transaction_read_only = off")
        await session.execute(f"alter database {name} reset default_transaction_read_only")
        await session.close()
        await engine.close()
