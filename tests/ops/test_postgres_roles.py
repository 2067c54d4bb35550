"""PostgreSQL with two roles: who owns the tables, and who may only read and write rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.ops.programs import OPS, beside, run
from tests.processes.fleet import Fleet

from oncue.testing.postgres import PrivatePostgres, execute

pytestmark = pytest.mark.ops


@pytest.fixture
def url(postgres_server: PrivatePostgres, tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    """URLs of a user and a database, on a server of their own: roles belong to all its databases."""
    if not postgres_server.ours:
        pytest.skip("roles are not made on a server that is not ours")
    with PrivatePostgres(fast=True) as server:
        bare = {name: server.create_database(name) for name in ("jobs", "scratch")}
        variables = ("--variable=owner_password=o", "--variable=app_password=a")
        script = OPS / "postgres" / "roles.sql"
        run("psql", "--no-psqlrc", *variables, f"--file={script}", bare["jobs"], path=beside(server))
        execute(bare["scratch"], "create schema oncue authorization oncue_owner")
        yield lambda user, name: bare[name].replace("://postgres@", f"://{user}@")


def test_every_role_works_with_no_more_rights_than_it_needs(
    url: Callable[[str, str], str], postgres_server: PrivatePostgres, tmp_path: Path
) -> None:
    owner, app, path = url("oncue_owner", "jobs"), url("oncue_app", "jobs"), beside(postgres_server)
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

        fleet.batch([{"task": "mark"}] * 1000)  # some run while the backups are taken
        by_app, by_owner, copy = (
            tmp_path / "by the application",
            tmp_path / "by the owner",
            url("oncue_owner", "scratch"),
        )
        run("oncue", "backup", by_app, "--engine", app, path=path)
        with pytest.raises(AssertionError, match="permission denied"):
            run("oncue", "restore", by_app, "--engine", url("oncue_app", "scratch"), path=path)
        run("oncue", "backup", by_owner, "--engine", owner, "--drill", copy, path=path)
        assert execute(copy, "select has_table_privilege('oncue_app', 'oncue.jobs', 'insert')") is True
    finally:
        fleet.close()
        planning.close()


async def drop(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("drop table oncue.jobs")
    finally:
        await connection.close()
