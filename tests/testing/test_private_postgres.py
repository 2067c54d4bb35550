"""The private server itself: from every source this machine has, and as whoever runs the tests."""

import asyncio
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

pytestmark = pytest.mark.postgres

SOURCES: dict[str, Callable[[], postgres_binaries.Binaries | None]] = {
    "machine": postgres_binaries.newest_on_machine,
    "wheel": postgres_binaries.newest_in_wheel,
}

# Starts a server, tells where it is, and waits to be killed.
VICTIM = """
import sys
from oncue.testing.postgres import PrivatePostgres
server = PrivatePostgres("", fast=True).__enter__()
print(server.url, *server.folders, flush=True)
sys.stdin.read()
"""

UNTIL_GONE = 'n=0; for f; do while [ -e "$f" ]; do [ $n -lt 400 ] || exit 1; sleep 0.05; n=$((n + 1)); done; done'


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


async def test_without_fast_the_server_is_honest_and_takes_settings() -> None:
    with PrivatePostgres("", settings={"max_connections": 17, "application_name": "it's \\ odd"}) as server:
        assert await fetch(server.url, "show fsync") == "on"
        assert await fetch(server.url, "show synchronous_commit") == "on"
        assert await fetch(server.url, "show full_page_writes") == "on"
        assert await fetch(server.url, "show max_connections") == "17"
        assert await fetch(server.url, "select reset_val from pg_settings where name = 'application_name'") == (
            "it's \\ odd"
        )


def test_leaving_removes_everything() -> None:
    with PrivatePostgres("", fast=True) as server:
        folders = server.folders
        assert all(folder.is_dir() for folder in folders)

    assert not any(folder.exists() for folder in folders)
    with pytest.raises(PostgresFailed, match="not been started"):
        _ = server.url


def test_a_server_that_cannot_start_shows_its_log_and_leaves_nothing() -> None:
    server = PrivatePostgres("", fast=True, settings={"shared_buffers": "nonsense"})

    with pytest.raises(PostgresFailed, match='invalid value for parameter "shared_buffers"'), server:
        pass

    assert server.folders == ()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_takes_its_server_along(how: signal.Signals) -> None:
    command = [sys.executable, "-c", VICTIM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as victim:
        assert victim.stdout is not None
        url, *folders = victim.stdout.readline().decode().split()
        assert asyncio.run(fetch(url, "select 1")) == 1

        victim.send_signal(how)

    subprocess.run(["/bin/sh", "-c", UNTIL_GONE, "sh", *folders], timeout=60, check=True)
    with pytest.raises(OSError):
        asyncio.run(fetch(url, "select 1"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has programs that the server's user may not read")
def test_programs_that_its_user_may_not_read_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = postgres_binaries.newest_in_wheel()
    if wheel is None:
        pytest.skip("no PostgreSQL from the wheel")
    closed = wheel.copied_to(tmp_path)
    tmp_path.chmod(0o700)
    (tmp_path / postgres_binaries.WHEEL_PACKAGE / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    with PrivatePostgres("wheel", fast=True) as server:
        assert str(closed.folder) in server.kind
        assert asyncio.run(fetch(server.url, "select 1")) == 1


class TestOnARunningServer:
    """`ONCUE_TEST_POSTGRES` holds the URL of a server that is not ours."""

    @pytest.fixture
    def foreign(self, server: PrivatePostgres, monkeypatch: pytest.MonkeyPatch) -> PrivatePostgres:
        monkeypatch.setenv("ONCUE_TEST_POSTGRES", f"{server.url}?application_name=guest")
        return PrivatePostgres(fast=True)

    async def test_databases_are_made_there(self, server: PrivatePostgres, foreign: PrivatePostgres) -> None:
        with foreign:
            url = foreign.create_database("guest")
            assert await fetch(url, "select current_database() || ' ' || current_setting('application_name')") == (
                "guest guest"
            )
            foreign.drop_database("guest")

        assert foreign.kind.startswith(" ".join(server.kind.split()[:2]))
        assert await fetch(server.url, "select 1") == 1  # leaving did not stop it

    @pytest.mark.parametrize("verb", ["start", "stop", "restart"])
    def test_it_is_not_ours_to_stop(self, foreign: PrivatePostgres, verb: str) -> None:
        assert not foreign.ours
        with pytest.raises(PostgresFailed, match=f"cannot {verb} the server that ONCUE_TEST_POSTGRES names"):
            getattr(foreign, verb)()

    def test_nor_to_change(self, server: PrivatePostgres) -> None:
        with pytest.raises(PostgresFailed, match="cannot change the settings"):
            PrivatePostgres(server.url, settings={"work_mem": "1MB"})


def test_nothing_found_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres_binaries, "MACHINE_PATTERNS", ())
    monkeypatch.setattr(postgres_binaries, "WHEEL_PACKAGE", "no_such_package")
    monkeypatch.setenv("PATH", str(tmp_path))

    for source in ("", "wheel", str(tmp_path)):
        with pytest.raises(PostgresMissing, match=r"PostgreSQL 15 or later is needed: .* ONCUE_TEST_POSTGRES"):
            PrivatePostgres(source)


def test_a_server_that_is_too_old_is_not_taken(tmp_path: Path) -> None:
    for version, folder in (("14.9", "old"), ("15.1", "new")):
        (tmp_path / folder).mkdir()
        for program in postgres_binaries.PROGRAMS:
            script = tmp_path / folder / program
            script.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version} (Toy)'\n")
            script.chmod(0o755)

    assert postgres_binaries.find_binaries(str(tmp_path / "new")).version == "15.1"
    with pytest.raises(PostgresMissing):
        postgres_binaries.find_binaries(str(tmp_path / "old"))


class TestFixtures:
    """What tests/conftest.py hands out."""

    async def test_a_test_gets_an_empty_database(self, postgres_url: str) -> None:
        assert (
            await fetch(postgres_url, "select count(*) from pg_class where relnamespace = 'public'::regnamespace") == 0
        )
        await fetch(postgres_url, "create table t as select 1")

    async def test_of_its_own(self, postgres_url: str) -> None:
        assert await fetch(postgres_url, "select to_regclass('t')") is None

    def test_and_is_marked(self, postgres_server: PrivatePostgres, request: pytest.FixtureRequest) -> None:
        assert request.node.get_closest_marker("postgres")
