"""Fleets of real processes, each gone without a trace when its test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes.fleet import Fleet, only_in_the_long_version

from oncue.testing.postgres import PrivatePostgres


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """On a SQLite file."""
    yield from closing(Fleet(tmp_path))


@pytest.fixture
def postgres_fleet(tmp_path: Path, postgres_url: str) -> Iterator[Fleet]:
    yield from closing(Fleet(tmp_path, postgres_url))


@pytest.fixture
def crashable_postgres(postgres_server: PrivatePostgres) -> Iterator[PrivatePostgres]:
    """A server that may be crashed without harm to other tests."""
    if not postgres_server.ours:
        pytest.skip("the server is not ours to crash")
    with PrivatePostgres(fast=True) as server:
        yield server


@pytest.fixture(
    params=[
        pytest.param("fleet", marks=only_in_the_long_version, id="sqlite"),
        pytest.param("postgres_fleet", id="postgres"),
    ]
)
def any_fleet(request: pytest.FixtureRequest) -> Fleet:
    """On each engine: for stories in which the store has a part. Every day on PostgreSQL: most others are on SQLite."""
    fleet: Fleet = request.getfixturevalue(request.param)
    return fleet


def closing(fleet: Fleet) -> Iterator[Fleet]:
    try:
        yield fleet
        fleet.check_holdings()
    finally:
        fleet.close()
