"""The network to PostgreSQL is bad for a while: a short version of bench/slow_store.py, which has all cases."""

from __future__ import annotations

import asyncio

import pytest
from bench.slow_store import measure

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills


def test_behind_a_bad_network_nothing_is_lost_or_doubled_and_no_process_ends(postgres_server: PrivatePostgres) -> None:
    """Connections that die without a word, and then some that are reset while they wait for an answer."""
    if not postgres_server.ours:
        pytest.skip(
            "the server that ONCUE_TEST_POSTGRES names may be far away, and the proxy reaches only this machine"
        )
    found = asyncio.run(measure(["half open", "resets"], rate=20, calm=4, part=0.25))

    assert found.lost == []
    assert found.ended == []
    assert [(row.case, row.unexplained, row.restarts, row.errors) for row in found.rows] == [
        ("half open", 0, 0, 0),
        ("resets", 0, 0, 0),
    ], found.said
