"""What every test may ask for. How tests get their PostgreSQL is told in docs/testing.md."""

import os
import secrets
from collections.abc import Iterator

import pytest
from hypothesis import settings

from oncue.testing.postgres import PostgresMissing, PrivatePostgres

IN_CI = bool(os.environ.get("CI"))

settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("ci", deadline=None, max_examples=200, derandomize=True, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("ci" if IN_CI else "default")


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
