"""`oncue migrate`: from which schema to which, also when several do it at once, and never backwards."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
from click.testing import CliRunner, Result

from oncue.cli.main import main
from oncue.engines.sql import migrations
from oncue.engines.sqlite.store import connect

NEWEST = migrations("oncue.engines.sqlite")[-1][0]
ONCUE = Path(sys.executable).with_name("oncue")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store."""
    on_file = request.param == "sqlite"
    found: str = f"sqlite:///{tmp_path / 'x.db'}" if on_file else request.getfixturevalue("postgres_url")
    return found


def migrate(url: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["migrate", "--engine", url, *options])


def make_newer(url: str) -> None:
    if url.startswith("sqlite"):
        db = connect(Path(url.removeprefix("sqlite:///")), 100)
        db.pragma("user_version", 99)
        db.close()
        return

    async def insert() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("insert into oncue_schema values (99)")
        await connection.close()

    asyncio.run(insert())


def test_it_says_from_where_to_where_and_then_that_nothing_is_to_do(url: str) -> None:
    first, second, as_json = migrate(url), migrate(url), migrate(url, "--json")

    assert [answer.exit_code for answer in (first, second, as_json)] == [0, 0, 0]
    assert first.output == f"Migrated the schema from version 0 to version {NEWEST}.\n"
    assert second.output == f"The schema is up to date at version {NEWEST}.\n"
    assert json.loads(as_json.output) == {"from_version": NEWEST, "to_version": NEWEST}


def test_of_several_at_once_one_does_it(url: str) -> None:
    argv = [str(ONCUE), "migrate", "--engine", url, "--json"]
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    answers = [json.loads(process.communicate(timeout=30)[0]) for process in started]

    assert [process.returncode for process in started] == [0] * 3
    assert sorted(answer["from_version"] for answer in answers) == [0, *[NEWEST] * 2]


@pytest.mark.parametrize(
    ("url", "command"),
    [
        *(("sqlite", command) for command in ("migrate", "up", "api", "scheduler", "worker")),
        pytest.param("postgres", "up", marks=pytest.mark.postgres),
        *(
            pytest.param("postgres", command, marks=[pytest.mark.postgres, pytest.mark.again])
            for command in ("migrate", "api", "scheduler", "worker")
        ),
    ],
    indirect=["url"],
)
def test_a_schema_that_needs_newer_code_is_refused_by_all(url: str, command: str, tmp_path: Path) -> None:
    migrate(url)
    make_newer(url)
    door = ["--port", "0"] if command in ("up", "api") else []
    where = ["--engine", url, "--data-dir", str(tmp_path)]

    answer = subprocess.run([str(ONCUE), command, *where, *door], capture_output=True, text=True, timeout=30)

    assert answer.returncode == 1
    assert f"an oncue that knows schema 99, and this one knows up to {NEWEST}: install a newer one" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""


def test_a_store_that_is_away_is_told() -> None:
    answer = migrate("postgresql://nobody@127.0.0.1:1/none", "--json")

    assert answer.exit_code == 1
    assert "start the server or correct" in json.loads(answer.stderr)["detail"]
