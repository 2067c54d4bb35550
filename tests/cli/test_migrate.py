"""`oncue migrate`: from which schema to which, also when several do it at once, and never backwards."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import apsw
import asyncpg
import pytest
from click.testing import CliRunner, Result

from oncue.cli.main import main
from oncue.engines.sql import migrations
from oncue.engines.sqlite import migrate as sqlite_migrate
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


def test_check_says_what_is_missing_and_changes_nothing(url: str, tmp_path: Path) -> None:
    where = ("--check", "--data-dir", str(tmp_path / "none"))
    empty, as_json = migrate(url, *where), migrate(url, *where, "--json")
    assert [empty.exit_code, as_json.exit_code] == [1, 1]
    assert empty.output.startswith("The database is empty or does not exist.\nMigrations 1, 3, ")
    assert empty.output.endswith(f", {NEWEST} are missing: run `oncue migrate`.\n")
    assert json.loads(as_json.output)["expand"][-1] == NEWEST
    assert list(tmp_path.iterdir()) == []

    migrate(url)
    files = sorted(tmp_path.iterdir())
    then, as_json = migrate(url, *where), migrate(url, *where, "--json")
    assert [then.exit_code, as_json.exit_code] == [0, 0]
    assert then.output == f"The schema is up to date at version {NEWEST}.\n"
    assert json.loads(as_json.output) == {"version": NEWEST, "level": 1, "expand": [], "contract": []}
    assert sorted(tmp_path.iterdir()) == files


def test_contract_and_what_there_is_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = [*migrations("oncue.engines.sqlite"), (99, "-- contract, compatible from: 1\ndrop table probe;")]
    monkeypatch.setattr(sqlite_migrate, "migrations", lambda _: more)
    url = f"sqlite:///{tmp_path / 'x.db'}"
    migrate(url)

    answers = [migrate(url, *options) for options in (["--check"], ["--contract"], ["--contract"], ["--check"])]

    assert [answer.exit_code for answer in answers] == [1, 0, 0, 0]
    assert "Contract migration 99 is missing: when every process runs this version" in answers[0].output
    assert answers[1].output == "Contract migration 99 is applied.\n"
    assert answers[2].output == "There is no contract migration to apply.\n"
    assert migrate(url, "--contract", "--json").output == '{\n  "applied": []\n}\n'
    assert migrate(url, "--contract", "--check").exit_code == 2


def test_check_of_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database" * 100)

    answer = migrate(f"sqlite:///{tmp_path / 'x.db'}", "--check")

    assert answer.exit_code == 1
    assert "is damaged, or is not a SQLite database); restore it from a backup, or correct" in answer.stderr


@pytest.mark.kills
@pytest.mark.parametrize("schema", ["", "?schema=new"])
def test_of_several_at_once_one_does_it(url: str, schema: str) -> None:
    url += schema if url.startswith("postgres") else ""
    argv = [str(ONCUE), "migrate", "--engine", url, "--json"]
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    answers = [json.loads(process.communicate(timeout=120)[0]) for process in started]

    assert [process.returncode for process in started] == [0] * 3
    assert sorted(answer["from_version"] for answer in answers) == [0, *[NEWEST] * 2]


@pytest.mark.kills
@pytest.mark.parametrize(
    ("url", "command"),
    [
        *(("sqlite", command) for command in ("migrate", "up")),
        *(pytest.param("sqlite", command, marks=pytest.mark.long) for command in ("api", "scheduler", "worker")),
        *(
            pytest.param("postgres", command, marks=pytest.mark.postgres)
            for command in ("up", "api", "scheduler", "worker")
        ),
    ],
    indirect=["url"],
)
def test_a_schema_that_needs_newer_code_is_refused_by_all(url: str, command: str, tmp_path: Path) -> None:
    migrate(url)
    make_newer(url)
    door = ["--port", "0"] if command in ("up", "api") else []
    where = ["--engine", url, "--data-dir", str(tmp_path)]

    answer = subprocess.run([str(ONCUE), command, *where, *door], capture_output=True, text=True, timeout=120)

    assert answer.returncode == 1
    assert (
        f"needs a newer version of oncue: its schema has level 99, and this version supports levels up to {NEWEST}"
        in answer.stderr
    )
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""


def test_a_store_that_is_away_is_told() -> None:
    answer = migrate("postgresql://nobody@127.0.0.1:1/none", "--json")

    assert answer.exit_code == 1
    assert "start the server or correct" in json.loads(answer.stderr)["detail"]


# ----------------------------------------------------------------------------------------- a database of something else


def execute(url: str, *statements: str) -> None:
    if url.startswith("sqlite"):
        db = connect_or_create(url)
        for one in statements:
            db.execute(one)
        db.close()
        return

    async def on_server() -> None:
        connection = await asyncpg.connect(url)
        for one in statements:
            await connection.execute(one)
        await connection.close()

    asyncio.run(on_server())


def connect_or_create(url: str) -> apsw.Connection:
    path = Path(url.removeprefix("sqlite:///"))
    path.touch()
    return connect(path, 100)


@pytest.mark.parametrize("more", [(), ("pragma user_version = 7",), ("pragma user_version = 2000000000",)])
@pytest.mark.parametrize("name", ["songs", "jobs"])
def test_a_file_of_another_program_is_left_alone(name: str, more: tuple[str, ...], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    execute(url, f"create table {name} (a int)", *more)
    before = (tmp_path / "x.db").read_bytes()

    for command in (["migrate"], ["migrate", "--check"], ["migrate", "--contract"], ["doctor"], ["scheduler"]):
        answer = CliRunner().invoke(main, [*command, "--engine", url, "--data-dir", str(tmp_path)])

        assert answer.exit_code == 1, answer.output
        assert f"x.db has tables that are not oncue's: {name}. Use another file" in answer.output
    assert (tmp_path / "x.db").read_bytes() == before


@pytest.mark.postgres
def test_a_schema_that_another_program_uses_is_shared_unless_names_clash(postgres_url: str, tmp_path: Path) -> None:
    execute(postgres_url, "create table songs (a int)", "create table jobs (a int)")
    clash, check = migrate(postgres_url), migrate(postgres_url, "--check")
    assert [clash.exit_code, check.exit_code] == [1, 1]
    assert clash.stderr.startswith(
        "this database has tables that are not oncue's: jobs. Use another database or schema"
    )

    execute(postgres_url, "drop table jobs")
    doctor = CliRunner().invoke(main, ["doctor", "--engine", postgres_url, "--data-dir", str(tmp_path)])
    assert doctor.exit_code == 1
    assert "the database has no table of oncue, but other tables: songs. Check --engine." in doctor.stdout
    assert "but other tables: songs.\n" in migrate(postgres_url, "--check").output
    assert migrate(postgres_url).exit_code == 0
    assert migrate(postgres_url, "--check").exit_code == 0


def test_contract_creates_no_database(tmp_path: Path) -> None:
    answer = migrate(f"sqlite:///{tmp_path / 'x.db'}?key=geheim", "--contract", "--data-dir", str(tmp_path / "none"))

    assert answer.exit_code == 1
    assert "there is no database at" in answer.stderr
    assert "geheim" not in answer.stderr
    assert list(tmp_path.iterdir()) == []
