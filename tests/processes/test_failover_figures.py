"""What losing a primary costs under load: a short version of bench/failover.py, which prints the figures."""

from __future__ import annotations

import asyncio

import pytest
from bench.failover import CASES, measure
from tests.processes.fleet import LONG

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

BACK_WITHIN = 10.0  # seconds from the promotion


# What an asynchronous replica lacks is a matter of luck; of an old primary that returns it is none.
LONG_CASES = [case for case in CASES if case.endswith(", sync")] + ["returned, async"]


@pytest.mark.parametrize("case", LONG_CASES if LONG else ["crash, sync"])
def test_a_lost_primary_loses_nothing_that_it_acknowledged_and_work_goes_on(
    postgres_server: PrivatePostgres, case: str
) -> None:
    if not postgres_server.ours:
        pytest.skip("the server that ONCUE_TEST_POSTGRES names is not ours to lose")
    row = asyncio.run(measure(case, rate=20, calm=2, after=4))

    assert row.rto_create_s is not None, row
    assert row.rto_start_s is not None, row
    assert max(row.rto_create_s, row.rto_start_s) < BACK_WITHIN
    assert (row.rpo, row.missed, row.doubled, row.unexplained, row.open) == (0, 0, 0, 0, 0), row
    assert row.acknowledged > 20
