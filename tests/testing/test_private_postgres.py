"""The private server itself: from every source this machine has, and as whoever runs the tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from oncue.testing import postgres_binaries
from oncue.testing.postgres import PostgresFailed, PostgresMissing, PrivatePostgres

SOURCES: dict[str, Callable[[], postgres_binaries.Binaries | None]] = {
    "machine": postgres_binaries.newest_on_machine,
    "wheel": postgres_binaries.newest_in_wheel,
}

# Starts a server, tells where it is, and waits to be killed.
VICTIM = """
import sys
from oncue.testing.postgres import PrivatePostgres
server = PrivatePostgres(sys.argv[1], fast=True).__enter__()
print(server.pid, *server.folders, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", params=list(SOURCES))
def source(request: pytest.FixtureRequest) -> str:
    """Each place a server can come from, as a value of ONCUE_TEST_POSTGRES."""
    binaries = SOURCES[request.param]()
    if binaries is None:
        pytest.skip(f"no PostgreSQL from the {request.param}")
    return "wheel" if request.param == "wheel" else str(binaries.folder)


@pytest.fixture(scope="module")
def server(source: str) -> Iterator[PrivatePostgres]:
    with PrivatePostgres(source, fast=True) as server:
        yield server


async def fetch(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_tells_which_server_it_is(server: PrivatePostgres) -> None:
    version = await fetch(server.url, "show server_version")

    assert isinstance(version, str)
    assert server.kind.startswith(f"PostgreSQL {version.split()[0]} (")


async def test_a_database_has_its_own_url_and_can_be_dropped(server: PrivatePostgres) -> None:
    url = server.create_database('odd "name"/%')

    assert await fetch(url, "select current_database()") == 'odd "name"/%'
    server.drop_database('odd "name"/%')
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await fetch(url, "select 1")


async def test_a_database_is_dropped_under_open_connections(server: PrivatePostgres) -> None:
    connection = await asyncpg.connect(server.create_database("in_use"))

    server.drop_database("in_use")

    with pytest.raises(asyncpg.PostgresConnectionError):
        await connection.fetchval("select 1")


async def test_an_immediate_restart_keeps_the_address_and_every_commit(server: PrivatePostgres) -> None:
    url, pid = server.create_database("durable"), server.pid
    await fetch(url, "create table t as select 42 as n")

    server.restart("immediate")

    assert server.pid != pid
    assert await fetch(url, "select n from t") == 42


async def test_data_survives_stop_and_start(server: PrivatePostgres) -> None:
    url = server.create_database("kept")
    await fetch(url, "create table t as select 42 as n")

    server.stop()
    with pytest.raises(OSError):
        await fetch(url, "select 1")
    server.start()

    assert await fetch(url, "select n from t") == 42


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_the_server_never_runs_as_root(server: PrivatePostgres) -> None:
    owner = Path(f"/proc/{server.pid}").stat().st_uid

    assert owner != 0
    assert owner == os.geteuid() or os.geteuid() == 0


async def test_fast_gives_up_syncing_but_not_synchronous_commits(server: PrivatePostgres) -> None:
    assert await fetch(server.url, "show fsync") == "off"
    assert await fetch(server.url, "show synchronous_commit") == "on"


async def test_without_fast_the_server_is_honest_and_takes_settings(source: str) -> None:
    with PrivatePostgres(source, settings={"max_connections": 17, "application_name": "it's \\ odd"}) as server:
        assert await fetch(server.url, "show fsync") == "on"
        assert await fetch(server.url, "show synchronous_commit") == "on"
        assert await fetch(server.url, "show full_page_writes") == "on"
        assert await fetch(server.url, "show max_connections") == "17"
        assert await fetch(server.url, "select reset_val from pg_settings where name = 'application_name'") == (
            "it's \\ odd"
        )


def test_leaving_removes_everything(source: str) -> None:
    with PrivatePostgres(source, fast=True) as server:
        folders = server.folders
        assert all(folder.is_dir() for folder in folders)
        url = server.url

    assert not any(folder.exists() for folder in folders)
    with pytest.raises(PostgresFailed, match="not been started"):
        _ = server.url
    assert url.startswith("postgresql://")


def test_a_server_that_cannot_start_shows_its_log_and_leaves_nothing(source: str, tmp_path: Path) -> None:
    server = PrivatePostgres(source, fast=True, settings={"shared_buffers": "nonsense"})

    with pytest.raises(PostgresFailed, match='invalid value for parameter "shared_buffers"'), server:
        pass

    assert server.folders == ()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_takes_its_server_along(source: str, how: signal.Signals) -> None:
    command = [sys.executable, "-c", VICTIM, source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as victim:
        assert victim.stdout is not None
        pid, *folders = victim.stdout.readline().decode().split()
        assert Path(folders[0]).is_dir()

        victim.send_signal(how)
        victim.wait(timeout=30)
        wait_for_end(int(pid), folders)

    assert not any(Path(folder).exists() for folder in folders)


def wait_for_end(pid: int, folders: list[str]) -> None:
    """Until the guard has removed the last folder; it works on by itself after the victim is gone."""
    script = 'n=0; for f; do while [ -e "$f" ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done; done'
    subprocess.run(["/bin/sh", "-c", script, "sh", *folders], timeout=60, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
