"""Hints are only hints: whatever becomes of them, each run starts, and once.

Three workers, so that they share the sweeps while they have no work. A proxy of the database loses or doubles hints.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import pytest
from bench.store_proxy import Link, StoreProxy
from tests.processes.fleet import Fleet, Member, rfc3339, until

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

WORKERS = 3
RUNS = 30
NOTIFICATION = b"A"  # what PostgreSQL sends to those who listen
NO_TLS = b"N"  # a whole answer, the only one that has no length


class HintProxy(StoreProxy):
    """Passes on each hint so many times."""

    times = 1

    async def _answers(self, answers: asyncio.StreamReader, link: Link) -> None:
        try:
            if (first := await answers.readexactly(1)) == NO_TLS:
                link.client.write(first)
                first = await answers.readexactly(1)
            while True:
                length = await answers.readexactly(4)
                message = first + length + await answers.readexactly(int.from_bytes(length) - 4)
                link.client.write(message * (self.times if first == NOTIFICATION else 1))
                first = await answers.readexactly(1)
        except (asyncio.IncompleteReadError, ConnectionError):
            link.client.close()


def working(fleet: Fleet, *options: str) -> list[Member]:
    """Return the workers; each role is there, and has done something."""
    workers = fleet.deploy(*options, workers=WORKERS)
    fleet.started(fleet.create("mark"))
    return workers


def each_starts_once(fleet: Fleet) -> None:
    """Due at once, and due when no hint is sent any more."""
    runs = [fleet.create("mark") for _ in range(RUNS)]
    runs += [fleet.create("mark", schedule=rfc3339(time.time() + 1.5)) for _ in range(RUNS)]
    fleet.started(*runs)
    until(lambda: all(fleet.run(run)["status"] == "succeeded" for run in runs), "all have ended", fleet.tell)
    starts = [event["run"] for event in fleet.events("start")]
    assert [run for run in runs if starts.count(run) != 1] == []


@pytest.mark.parametrize("times", [pytest.param(0, id="lost"), pytest.param(2, id="doubled")])
async def test_hints_that_are_lost_or_doubled_cost_no_run(
    postgres_fleet: Fleet, postgres_server: PrivatePostgres, times: int
) -> None:
    """Catches a worker that waits for hints, and one that starts what it was told twice."""
    if not postgres_server.ours:
        pytest.skip("the server of ONCUE_TEST_POSTGRES may be far away, and the proxy reaches only this machine")
    fleet, address = postgres_fleet, urlsplit(postgres_fleet.engine)
    assert address.port is not None
    proxy = HintProxy(address.port)
    async with proxy.listening() as port:
        fleet.engine = address._replace(netloc=address.netloc.replace(f":{address.port}", f":{port}")).geturl()
        await asyncio.to_thread(working, fleet)
        proxy.times = times
        await asyncio.to_thread(each_starts_once, fleet)


def test_hints_to_the_dead_cost_no_run(postgres_fleet: Fleet) -> None:
    """Those who send hints take the killed ones for alive for some more seconds."""
    workers = working(postgres_fleet)
    for worker in workers[1:]:
        worker.kill()

    each_starts_once(postgres_fleet)


def test_hints_to_the_full_cost_no_run(postgres_fleet: Fleet) -> None:
    """Two of three have no room left, and those who send hints learn it with the next heartbeats."""
    fleet = postgres_fleet
    working(fleet, "--concurrency", "1")
    gate = fleet.folder / "gate"
    held = [fleet.create("gated", {"gate": str(gate)}) for _ in range(WORKERS - 1)]
    fleet.started(*held)

    each_starts_once(fleet)
    assert {fleet.run(run)["status"] for run in held} == {"running"}
