"""What clients are told of a key has an order though servers are killed: a short version of bench/linearizable."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.linearizable.__main__ import PLANTED_KEYS, measure
from bench.linearizable.faults import FAULTS
from tests.processes.fleet import LONG

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

EVERY_DAY = ("another's change",)  # of the planted faults
KEYS, KILLS, CALLS = (40, 8, 100) if LONG else (4, 3, 60)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest) -> str:
    """On PostgreSQL: on a server of its own, which is crashed."""
    if request.param == "postgres":
        server: PrivatePostgres = request.getfixturevalue("postgres_server")
        if not server.ours:
            pytest.skip("the server is not ours to crash")
    return str(request.param)


def test_what_clients_are_answered_has_an_order_though_servers_are_killed(engine: str, tmp_path: Path) -> None:
    found = measure(engine, KEYS, KILLS, seed=1, calls=CALLS, kept=tmp_path)

    assert found.failed == []
    assert found.wrong == [], [file.read_text() for file in tmp_path.iterdir()]
    assert (found.keys, found.kills.total()) == (KEYS, KILLS)
    assert found.counts["ok"] > CALLS


@pytest.mark.parametrize("fault", FAULTS if LONG else EVERY_DAY)
def test_a_fault_that_is_planted_in_the_servers_is_found(engine: str, fault: str) -> None:
    found = measure(engine, PLANTED_KEYS, kills=0, seed=1, fault=fault)

    assert (len(found.wrong), found.failed) == (1, [])
