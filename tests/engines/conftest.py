"""Where the conformance suite gets its stores from: each engine, each time empty."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue.domain.instants import DAY, Duration
from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue.testing.clock import SOME_DAY
from oncue.testing.conformance import EmptyStore
from oncue.testing.conformance.store import Open
from oncue.testing.postgres import PrivatePostgres

TEMPLATE = "oncue_conformance_template"


def opener(url: str) -> Open:
    async def open_one() -> Engine:
        return await open_engine(Settings(engine=url, pool_size=4))

    return open_one


@pytest.fixture
def empty_sqlite(tmp_path: Path) -> EmptyStore:
    async def make() -> Open:
        return opener(f"sqlite:///{tmp_path / secrets.token_hex(4)}.db")

    return make


@pytest.fixture
async def postgres_template(postgres_server: PrivatePostgres) -> str:
    """A database with the schema and room for history: copying it takes a tenth of the time that migrating does."""
    if TEMPLATE not in _made:
        engine = await opener(postgres_server.create_database(TEMPLATE))()
        await engine.history.tend(SOME_DAY, Duration(365 * DAY))
        await engine.close()
        _made.add(TEMPLATE)
    return TEMPLATE


_made: set[str] = set()


@pytest.fixture
def empty_postgres(postgres_server: PrivatePostgres, postgres_template: str) -> Iterator[EmptyStore]:
    names: list[str] = []

    async def make() -> Open:
        names.append(f"oncue_conformance_{secrets.token_hex(8)}")
        return opener(postgres_server.create_database(names[-1], template=postgres_template))

    yield make
    for name in names:
        postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def empty_store(request: pytest.FixtureRequest) -> EmptyStore:
    make: EmptyStore = request.getfixturevalue(f"empty_{request.param}")
    return make
