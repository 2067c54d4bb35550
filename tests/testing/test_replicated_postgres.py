"""The private primary with a replica: either can be lost, and what was acknowledged is where it should be."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from oncue.testing.postgres import execute
from oncue.testing.postgres_replica import ReplicatedPostgres

pytestmark = pytest.mark.postgres

# Starts both, silences the first, tells where they are, and waits to be killed.
VICTIM = """
import sys
from oncue.testing.postgres_replica import ReplicatedPostgres
servers = ReplicatedPostgres().__enter__()
print(*servers.first.silence(), *servers.folders, flush=True)
sys.stdin.read()
"""


def test_a_killed_primary_leaves_what_it_acknowledged_to_its_replica(replicated_postgres: ReplicatedPostgres) -> None:
    servers = replicated_postgres
    servers.first.set_synchronous(servers.second)
    url = servers.create_database("kept")
    execute(url, "create table t as select 42 as n")

    servers.first.kill()
    servers.second.promote()
    assert execute(servers.second.url("kept"), "select n from t") == 42
    execute(servers.second.url("kept"), "insert into t values (43)")

    servers.first.start()  # as a service manager does: two primaries
    assert not servers.first.is_replica
    assert not servers.second.is_replica
    assert execute(servers.first.url("kept"), "select count(*) from t") == 1

    servers.first.follow(servers.second)
    assert servers.first.is_replica
    assert execute(servers.first.url("kept"), "select count(*) from t") == 2


async def test_a_silent_replica_holds_up_commits_until_it_wakes(replicated_postgres: ReplicatedPostgres) -> None:
    servers = replicated_postgres
    servers.first.set_synchronous(servers.second)
    url = servers.create_database("kept")
    connection = await asyncpg.connect(url)
    await connection.execute("create table t (n int)")

    servers.second.silence()
    insert = asyncio.ensure_future(connection.execute("insert into t values (1)"))
    waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
    while await asyncio.to_thread(servers.first.ask, waiting) == 0:
        assert not insert.done()
    servers.second.wake()

    async with asyncio.timeout(60):
        await insert
    await connection.close()


def test_a_replica_that_is_detached_falls_behind_and_a_planned_switch_loses_nothing(
    replicated_postgres: ReplicatedPostgres,
) -> None:
    servers = replicated_postgres
    url = servers.create_database("kept")
    execute(servers.first.url("kept"), "create table t as select 1 as n")
    servers.switch()
    assert execute(url, "select n from t") == 1
    servers.first.follow(servers.second)

    servers.first.detach()
    execute(servers.second.url("kept"), "insert into t values (2)")
    servers.second.kill()
    servers.first.promote()

    assert execute(url, "select count(*) from t") == 1


def test_a_killed_process_takes_both_along_also_a_silent_one() -> None:
    with subprocess.Popen([sys.executable, "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        told = victim.stdout.readline().decode().split()
        os.kill(victim.pid, signal.SIGKILL)
    folders = [Path(one) for one in told if one.startswith("/")]

    assert len(folders) == 4
    end = time.monotonic() + 60
    while any(folder.exists() for folder in folders) or any(_runs(pid) for pid in told if not pid.startswith("/")):
        assert time.monotonic() < end, folders
        time.sleep(0.05)


def _runs(pid: str) -> bool:
    return b"postgres" in (Path(f"/proc/{pid}/cmdline").read_bytes() if Path(f"/proc/{pid}").exists() else b"")
