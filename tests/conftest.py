"""What every test may ask for. How tests get their PostgreSQL is told in docs/testing.md."""

import asyncio
import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings

from oncue.domain.instants import DAY, Duration
from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue.testing.clock import SOME_DAY
from oncue.testing.conformance import EmptyStore
from oncue.testing.conformance.store import Open
from oncue.testing.postgres import PostgresMissing, PrivatePostgres

IN_CI = bool(os.environ.get("CI"))

# Stores of tests lie in memory, because commits wait for the disk and no test depends on one: what a killed process has
# written stays there, too.
IN_MEMORY = Path("/dev/shm")
if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("ci", deadline=None, max_examples=200, derandomize=True, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("ci" if IN_CI else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failures-to", type=Path, help="append the id of each test that fails to this file")


class _FailureList:
    """Writes which tests failed, so that `.ci/run` can run those again alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self._path.open("a") as file:
                file.write(f"{report.nodeid}\n")


def pytest_configure(config: pytest.Config) -> None:
    """A shell that runs the tests in the background has Ctrl-C ignored, and so would every process they start."""
    if (path := config.getoption("--failures-to")) is not None:
        config.pluginmanager.register(_FailureList(path))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a PostgreSQL server is marked `postgres`, so that `make test-postgres` finds it."""
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgres)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": False}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PrivatePostgres]:
    """One server for the whole run, or for each worker process of xdist; started by the first test that asks."""
    try:
        server = PrivatePostgres(fast=True)
    except PostgresMissing as missing:
        if IN_CI:
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PrivatePostgres) -> Iterator[str]:
    """A fresh, empty database of the test's own."""
    name = f"oncue_test_{secrets.token_hex(8)}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


# ------------------------------------------------------------------------------------------ stores, each time empty

TEMPLATE = "oncue_with_schema"


def opener(url: str) -> Open:
    async def open_one() -> Engine:
        return await open_engine(Settings(engine=url, pool_size=4))

    return open_one


@pytest.fixture
def empty_sqlite(tmp_path: Path) -> EmptyStore:
    async def make() -> Open:
        return opener(f"sqlite:///{tmp_path / secrets.token_hex(4)}.db")

    return make


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PrivatePostgres) -> str:
    """A database with the schema and room for history: copying it takes a fifth of the time that making it does."""
    url = postgres_server.create_database(TEMPLATE)

    async def prepare() -> None:
        engine = await opener(url)()
        await engine.maintenance.maintain(SOME_DAY, Duration(365 * DAY))
        await engine.close()

    with ThreadPoolExecutor(max_workers=1) as thread:  # there may be a loop in this one
        thread.submit(asyncio.run, prepare()).result()
    return TEMPLATE


@pytest.fixture
def empty_postgres(postgres_server: PrivatePostgres, postgres_template: str) -> Iterator[EmptyStore]:
    name = f"{TEMPLATE}_{secrets.token_hex(8)}"

    async def make() -> Open:
        postgres_server.drop_database(name)  # of a test that makes many, one after the other
        return opener(postgres_server.create_database(name, template=postgres_template))

    yield make
    postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def empty_store(engine_name: str, request: pytest.FixtureRequest) -> EmptyStore:
    make: EmptyStore = request.getfixturevalue(f"empty_{engine_name}")
    return make
