"""`oncue archive`: what was archived, whether it is still as it was, and out with it again."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.storage.old_history import fill

from oncue.cli.main import main
from oncue.domain.archive import TURN
from oncue.domain.instants import DAY, MINUTE, Duration
from oncue.domain.reference import Reference
from oncue.domain.run import State
from oncue.engines.open import open_engine
from oncue.services.archiving import Archiving
from oncue.settings import Settings
from oncue.storage.open import open_archive, open_storage
from oncue_conformance.store import Store

LARGE = b'"large"'


class Archived:
    def __init__(self, folder: Path) -> None:
        self.archive = folder / "archive"
        self.settings = Settings(
            engine=f"sqlite:///{folder / 'oncue.db'}",
            archive=self.archive.as_uri(),
            storage=(folder / "objects").as_uri(),
            retention=DAY,
        )
        self.rows: dict[str, list[str]] = {"ada": [], "bob": []}

    async def fill(self) -> None:
        async def opened():  # type: ignore[no-untyped-def]  # an engine
            return await open_engine(self.settings)

        async with await Store.on(opened) as store:
            objects = open_storage(self.settings, store.clock)
            for _ in range(2):
                large = Reference.to(f"v1/payload/{store.uid}/{store.now}", LARGE)
                await objects.put(large.key, LARGE)
                for name, uid, payload in (("ada", store.uid, large.encoded()), ("bob", store.stranger, b"{}")):
                    run_id = await store.one_shot(uid=uid, payload=payload)
                    await store.end(run_id, State.SUCCEEDED)
                    self.rows[name].append(str(run_id))
                store.advance(DAY)
            store.advance(2 * DAY)
            storage = open_archive(self.settings, store.clock)
            await Archiving(store.engine, storage, objects, store.clock, self.settings).run_once()

    async def begin(self) -> None:
        """As if a scheduler had tried."""
        engine = await open_engine(self.settings)
        await engine.maintenance.take_turn(TURN, await engine.now(), Duration(MINUTE))
        await engine.close()

    def skip(self, *words: str, answer: str = "") -> Result:
        return CliRunner().invoke(main, ["archive", "skip", *words, "--engine", self.settings.engine], input=answer)

    def command(self, *words: str) -> Result:
        where = ["--engine", self.settings.engine, "--archive", self.settings.archive]
        return CliRunner().invoke(main, ["archive", *words, *where])


@pytest.fixture
def archived(tmp_path: Path) -> Archived:
    found = Archived(tmp_path)
    asyncio.run(found.fill())
    return found


def test_it_lists_what_is_there(archived: Archived) -> None:
    found = json.loads(archived.command("list", "--json").output)

    assert [one["rows"] for one in found] == [2, 2]
    assert [one["table"] for one in found] == ["history", "history"]
    for one in found:
        content = (archived.archive / one["manifest"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == one["sha256"]
    assert "2 archived partitions" in archived.command("list").output


def test_it_exports_the_rows_of_a_user_and_of_no_other(archived: Archived, tmp_path: Path) -> None:
    of_ada = archived.command("export", "--user", "ada")
    everything = archived.command("export", "--to", str(tmp_path / "all.jsonl"))

    assert of_ada.exit_code == everything.exit_code == 0
    assert [json.loads(line)["run_id"] for line in of_ada.output.splitlines()] == archived.rows["ada"]
    told = [json.loads(line)["run_id"] for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert sorted(told) == sorted(archived.rows["ada"] + archived.rows["bob"])
    refused = archived.command("export", "--user", "eve")
    assert refused.exit_code == 1
    assert "eve" in refused.output


def test_it_exports_large_values_to_a_folder(archived: Archived, tmp_path: Path) -> None:
    done = archived.command("export", "--user", "ada", "--large", str(tmp_path / "values" / "of ada"))

    assert done.exit_code == 0
    [file] = (tmp_path / "values" / "of ada").iterdir()
    assert (file.read_bytes(), file.name) == (LARGE, hashlib.sha256(LARGE).hexdigest())
    assert [line["objects"]["payload"]["sha256"] for line in map(json.loads, done.output.splitlines())] == [
        file.name
    ] * 2
    assert "2 large values" in archived.command("verify").output
    (tmp_path / "in the way").touch()
    assert archived.command("export", "--large", str(tmp_path / "in the way")).exit_code == 2


def test_a_byte_that_changed_is_found(archived: Archived) -> None:
    assert archived.command("verify").exit_code == 0
    file = sorted(archived.archive.rglob("*.zst"))[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    found = archived.command("verify")

    assert found.exit_code == 1
    assert f"WRONG  {file.relative_to(archived.archive)}" in found.output
    assert json.loads(archived.command("verify", "--json").output)["rows"] == 4


def test_duckdb_understands_what_it_prints(archived: Archived, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    statement = archived.command("sql").output.rstrip().rstrip(";")
    [(n,)] = duckdb.sql(f"select count(distinct run_id) from ({statement})").fetchall()
    assert n == 4

    file = tmp_path / "o'hara.parquet"
    duckdb.sql(archived.command("sql", "--parquet", str(file)).output)
    quoted = str(file).replace("'", "''")
    assert duckdb.sql(f"select count(*) from '{quoted}'").fetchall() == [(4,)]


def test_a_partition_is_skipped_after_a_question_and_listed(tmp_path: Path) -> None:
    site = Archived(tmp_path)
    asyncio.run(fill(site.settings))
    asyncio.run(site.begin())
    name = site.skip("history-1").output.partition("Next are: ")[2].split(",")[-1].strip(" .\n")

    asked = site.skip(name, answer="n\n")
    assert (asked.exit_code, "Lose 6 rows" in asked.output) == (1, True)
    assert site.skip(name).exit_code == 1, "nobody is there to answer"
    assert json.loads(site.command("list", "--json").output) == []
    done = json.loads(site.skip(name, "--yes", "--json").output)

    [listed] = json.loads(site.command("list", "--json").output)
    assert (listed["piece"], listed["rows"], listed["manifest"]) == (name, 6, None)
    assert listed["skip_time"] == done["skip_time"]
    assert "0 archived partitions, 1 skipped" in site.command("list").output
    again = site.skip(name, "--yes")
    assert (again.exit_code, f"'{name}' is unknown, archived already" in again.output) == (1, True)


def test_without_an_archive_it_says_what_to_name(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["archive", "list", "--engine", f"sqlite:///{tmp_path / 'x.db'}"])

    assert found.exit_code == 1
    assert "--archive" in found.output


@pytest.mark.parametrize("command", ["list", "verify", "export"])
def test_a_mistyped_database_or_archive_is_not_made(command: str, tmp_path: Path) -> None:
    """Catches an empty database that says that all is well."""
    where = ["--engine", f"sqlite:///{tmp_path}/no/such.db", "--archive", f"file://{tmp_path}/nowhere"]

    found = CliRunner().invoke(main, ["archive", command, *where, *(["--user", "ada"] if command == "export" else [])])

    assert (found.exit_code, "there is no database here" in found.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []
