"""How many connections each role has, as the server counts them; and how a worker starts where there is none left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
from tests.processes.fleet import DEADLINE, Fleet, until
from tests.processes.test_many_processes import STARTED, as_user
from tests.test_docs import ROOT

from oncue import app
from oncue.engines.postgres.store import HOT_CONNECTIONS, PING_CONNECTIONS, POOL_SIZE
from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

NONE_LEFT = '"kind": "connections_used_up"'
OF_A_WORKER = 3  # connections: its supervisor's, its own, and the one for hints
COUNT = """
    select split_part(application_name, ' signals', 1), count(*)::int from pg_stat_activity
    where datname = current_database() and application_name like 'oncue%' group by 1"""


def stated() -> dict[str, tuple[int, int]]:
    """What docs/operations.md says of each name: how many idle, and how many at most."""
    lines = (ROOT / "docs" / "operations.md").read_text().splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| `oncue ")]
    return {row[1].strip(" `"): (int(row[3]), int(row[4])) for row in rows}


def test_the_most_that_is_stated_is_what_the_pools_allow() -> None:
    hot, listener, dropping = HOT_CONNECTIONS + PING_CONNECTIONS, 1, 1
    assert {name: most for name, (_, most) in stated().items()} == {
        "oncue api": POOL_SIZE + hot + listener,
        "oncue scheduler": app.SCHEDULER_POOL + hot + listener + dropping,
        "oncue supervisor": app.SUPERVISOR_POOL + hot,
        "oncue worker": app.WORKER_POOL + hot + listener,
    }


@pytest.mark.alone
async def test_idle_roles_have_as_many_as_stated_and_a_worker_waits_for_its_own(
    postgres_server: PrivatePostgres, tmp_path: Path
) -> None:
    """Catches a call of an idle process that needs a connection of its own, and a worker that ends on a full server."""
    url = await as_user(postgres_server, "frugal")
    session = await asyncpg.connect(postgres_server.url)
    await session.execute(f"alter role frugal connection limit {OF_A_WORKER}")
    others = [await asyncpg.connect(url) for _ in range(OF_A_WORKER)]
    fleet = Fleet(tmp_path, url)
    try:
        worker = fleet.start("worker")
        until(lambda: worker.said.count(NONE_LEFT) > 1, "it says, once for each try, that there is none", fleet.tell)
        for other in others:
            await other.close()
        until(lambda: STARTED in worker.said, "it has found some", fleet.tell)
        await session.execute("alter role frugal connection limit -1")
        for role in ("api", "scheduler"):
            fleet.start(role)
        await counted(url, {name: idle for name, (idle, _) in stated().items()}, fleet)
    finally:
        fleet.close()
        await session.execute("drop database frugal with (force)")
        await session.execute("drop role frugal")
        await session.close()


async def counted(url: str, stated: dict[str, int], fleet: Fleet) -> None:
    """Wait until all roles are there, and none has more than is stated for it."""
    session = await asyncpg.connect(url, server_settings={"application_name": "counting"})
    found: dict[str, int] = {}
    try:
        async with asyncio.timeout(DEADLINE):
            while found.keys() != stated.keys() or any(found[name] > most for name, most in stated.items()):
                await asyncio.sleep(0.1)
                found = dict(await session.fetch(COUNT))
    except TimeoutError:
        raise AssertionError(f"{found} instead of {stated}\n{fleet.tell()}") from None
    finally:
        await session.close()
