"""What every test may ask for. How tests get their PostgreSQL is told in docs/testing.md."""

import asyncio
import gc
import os
import secrets
import shutil
import signal
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings
from tests.databases import Databases

from oncue.domain.instants import DAY, Duration
from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue.testing.clock import SOME_DAY
from oncue.testing.conformance import EmptyStore
from oncue.testing.postgres import PostgresFailed, PostgresMissing, PrivatePostgres
from oncue.testing.postgres_replica import ReplicatedPostgres
from oncue_conformance.store import Open

IN_CI = bool(os.environ.get("CI"))

# What the person who runs the tests has signed in to is none of the tests' business.
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
os.environ.pop("ONCUE_CONTEXT", None)

# Stores of tests lie in memory, because commits wait for the disk and no test depends on one: what a killed process has
# written stays there, too.
IN_MEMORY = Path("/dev/shm")
if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

settings.register_profile("default", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True, print_blob=True)
settings.register_profile("more", deadline=None, max_examples=100, print_blob=True)
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
        if not {"postgres_server", "replicated_postgres"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.postgres)
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: the garbage collector need not look at all of it again and again, and seldom
    at the rest."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        gc.enable()


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


@pytest.fixture
def replicated_postgres() -> Iterator[ReplicatedPostgres]:
    """A primary and its streaming replica, for one test, which may lose either. Made in a second."""
    try:
        servers = ReplicatedPostgres()
    except (PostgresMissing, PostgresFailed) as missing:
        if IN_CI:
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with servers:
        yield servers


# ------------------------------------------------------------------------------------------ stores, each time empty

TEMPLATE = "oncue_with_schema"


def opener(url: str) -> Open:
    async def open_one() -> Engine:
        return await open_engine(Settings(engine=url, pool_size=4))

    return open_one


async def prepared(url: str) -> None:
    """A store with the schema and room for history: copying it takes a fraction of the time that making it does."""
    engine = await opener(url)()
    await engine.maintenance.maintain(SOME_DAY, Duration(365 * DAY))
    await engine.close()


def in_a_thread(work: Coroutine[None, None, None]) -> None:
    """There may be a loop in this one."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "oncue.db"
    in_a_thread(prepared(f"sqlite:///{path}"))
    return path


@pytest.fixture
def empty_sqlite(tmp_path: Path, sqlite_template: Path) -> EmptyStore:
    async def make() -> Open:
        path = tmp_path / f"{secrets.token_hex(4)}.db"
        shutil.copy(sqlite_template, path)
        return opener(f"sqlite:///{path}")

    return make


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PrivatePostgres) -> str:
    in_a_thread(prepared(postgres_server.create_database(TEMPLATE)))
    return TEMPLATE


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: PrivatePostgres, postgres_template: str) -> Iterator[Databases]:
    databases = Databases(postgres_server, postgres_template)
    yield databases
    databases.close()


@pytest.fixture
def empty_postgres(postgres_databases: Databases) -> Iterator[EmptyStore]:
    taken: list[str] = []

    async def make() -> Open:
        while taken:  # of a test that makes many, one after the other
            postgres_databases.give_back(taken.pop())
        taken.append(postgres_databases.take())
        return opener(taken[-1])

    yield make
    for url in taken:
        postgres_databases.give_back(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def empty_store(engine_name: str, request: pytest.FixtureRequest) -> EmptyStore:
    make: EmptyStore = request.getfixturevalue(f"empty_{engine_name}")
    return make
