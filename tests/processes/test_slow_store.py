"""The network to PostgreSQL is bad for a while: a short version of bench/slow_store.py, which has all cases."""

from __future__ import annotations

import asyncio

import pytest
from bench.slow_store import measure
from tests.processes.fleet import LONG

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills


def test_behind_a_bad_network_nothing_is_lost_or_doubled_and_no_process_ends(postgres_server: PrivatePostgres) -> None:
    """Connections that die without a word; in the long version also some that are reset while they wait."""
    cases = ["half open", "resets"] if LONG else ["half open"]
    if not postgres_server.ours:
        pytest.skip(
            "the server that ONCUE_TEST_POSTGRES names may be far away, and the proxy reaches only this machine"
        )
    found = asyncio.run(measure(cases, rate=20, calm=4, part=0.25))

    assert found.lost == []
    assert found.ended == []
    assert [(row.case, row.unexplained, row.restarts, row.errors) for row in found.rows] == [
        (case, 0, 0, 0) for case in cases
    ], found.said
