"""PostgreSQL with two roles: who owns the tables, and who may only read and write rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.ops.programs import OPS, beside, run
from tests.processes.fleet import Fleet

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.ops


@pytest.fixture
def roles(postgres_server: PrivatePostgres, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """URLs of the owner and of the application, on a server of their own: roles belong to all its databases."""
    if not postgres_server.ours:
        pytest.skip("roles are not made on a server that is not ours")
    with PrivatePostgres(fast=True) as server:
        url = server.create_database("jobs")
        variables = ("--variable=owner_password=o", "--variable=app_password=a")
        script = OPS / "postgres" / "roles.sql"
        run("psql", "--no-psqlrc", *variables, f"--file={script}", url, path=beside(server))
        yield tuple(
            urlsplit(url)._replace(netloc=f"{user}@127.0.0.1:{urlsplit(url).port}").geturl()
            for user in ("oncue_owner", "oncue_app")
        )  # type: ignore[misc]


def test_every_role_works_with_no_more_rights_than_it_needs(roles: tuple[str, str], tmp_path: Path) -> None:
    owner, app = roles
    run("oncue", "migrate", "--engine", owner, "--data-dir", tmp_path)
    fleet, planning = Fleet(tmp_path, app), Fleet(tmp_path, owner)
    try:
        planning.start("scheduler")
        fleet.start("api")
        fleet.start("worker")
        fleet.ready(workers=1)

        once = fleet.create("mark")
        fleet.at_rest([once])
        every = fleet.create("mark", schedule="every 1s")
        fleet.started(*[run["run_id"] for run in fleet.runs_of(every)][:1])
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            asyncio.run(drop(app))
    finally:
        fleet.close()
        planning.close()


async def drop(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("drop table oncue.jobs")
    finally:
        await connection.close()
