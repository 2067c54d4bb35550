"""`oncue backup` and `oncue restore`, on files, and in databases where oncue has a schema of its own or not."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import apsw
import asyncpg
import pytest
from click.testing import CliRunner, Result
from tests.ops.programs import beside, program, run
from tests.processes.fleet import ONCUE

from oncue.cli.main import main
from oncue.domain.errors import OncueError
from oncue.domain.run import State
from oncue.engines.open import open_engine
from oncue.engines.sql import migrations
from oncue.engines.sqlite import backup
from oncue.settings import Settings
from oncue.testing.postgres import PrivatePostgres, execute
from oncue_conformance.store import Store

SCHEMA = "?schema=oncue"
ODD = "p@ss:w/o'r d\\%$`\"é#&"  # a password


def oncue(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def oncue_apart(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """As a process of its own."""
    return subprocess.run([ONCUE, *words], capture_output=True, text=True)


def asked(*words: str | Path) -> Any:
    done = oncue(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def postgres(url: str, *statements: str) -> list[Any]:
    return [execute(url, statement) for statement in statements]


class Place:
    """Where stores of one kind are made. A URL of each leads to it as every command takes it."""

    def __init__(self, folder: Path, server: PrivatePostgres | None = None, query: str = "") -> None:
        self.folder, self.server, self.query = folder, server, query
        self._made: list[str] = []

    def url(self, name: str) -> str:
        if self.server is None:
            return f"sqlite:///{self.folder}/{name}.db"
        if name not in self._made:
            self.server.create_database(f"backup {name}")
            self._made.append(name)
        return urlsplit(self.server.url)._replace(path=f"/backup%20{name}").geturl() + self.query

    def bare(self, name: str) -> str:
        """The URL for the driver."""
        return self.url(name).partition("?")[0]

    def close(self) -> None:
        for name in self._made:
            assert self.server is not None
            self.server.drop_database(f"backup {name}")


@pytest.fixture(params=["sqlite", *(pytest.param(p, marks=pytest.mark.postgres) for p in ("public", "oncue"))])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(tmp_path)
        return
    server = served(request, monkeypatch)
    place = Place(tmp_path, server, SCHEMA if request.param == "oncue" else "")
    yield place
    place.close()


both_engines = pytest.mark.parametrize(
    "place", ["sqlite", pytest.param("oncue", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def in_schema(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(tmp_path, served(request, monkeypatch), SCHEMA)
    yield place
    place.close()


def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PrivatePostgres:
    server: PrivatePostgres = request.getfixturevalue("postgres_server")
    program("pg_dump", beside(server))
    monkeypatch.setenv("PATH", beside(server))
    return server


def filled(url: str) -> str:
    """A store with a bit of everything: runs that wait, run and have ended, a job with a schedule, a key."""

    async def fill() -> None:
        store = await Store.on(lambda: open_engine(Settings(engine=url)))
        worker = await store.worker()
        for run_id in await store.one_shots(3):
            await store.end(run_id, State.SUCCEEDED)
        await store.claim_one(worker, await store.one_shot())
        await store.one_shots(20, 3_600_000_000)
        await store.recurring()
        await store.close()

    asyncio.run(fill())
    made = oncue("keys", "create", "--engine", url, "--data-dir", "data", "--user", "root", "--role", "admin", "--init")
    assert made.exit_code == 0, made.output
    return url


COUNTED = {"jobs": 1, "runs": 24, "keys": 1}


def counts(summary: dict[str, Any]) -> dict[str, int]:
    return {name: summary[name] for name in COUNTED}


def tables(place: Place, name: str) -> dict[str, list[str]]:
    """Every row of every table of oncue."""
    if place.server is None:
        with closing(apsw.Connection(str(place.folder / f"{name}.db"))) as db:
            names = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
            return {name: sorted(map(repr, db.execute(f"select * from {name}"))) for name in names}

    async def read() -> dict[str, list[str]]:
        connection = await asyncpg.connect(place.bare(name))
        found = "select relnamespace::regnamespace::text || '.' || relname from pg_class where relkind = 'r'"
        names = await connection.fetch(f"{found} and relnamespace::regnamespace::text !~ '^(pg_|information)'")
        rows = {name: await connection.fetch(f"select t::text from {name} t") for (name,) in names}
        await connection.close()
        return {name: sorted(text for (text,) in found) for name, found in rows.items()}

    return asyncio.run(read())


def shape(place: Place, name: str) -> list[Any]:
    """Every table, column, view, index, sequence, function and trigger, as the database describes it."""
    if place.server is None:
        with closing(apsw.Connection(str(place.folder / f"{name}.db"))) as db:
            return sorted(map(repr, db.execute("select * from sqlite_master").fetchall()))
    ours = "::regnamespace::text in ('public', 'oncue')"
    return postgres(
        place.bare(name),
        f"""select array_agg(concat_ws(' ', relname, relkind, reloptions, relacl, case when relkind = 'i' then
            pg_get_indexdef(oid) when relkind = 'v' then pg_get_viewdef(oid) end) order by relname)
            from pg_class where relnamespace{ours}""",
        f"""select array_agg(pg_get_functiondef(oid) || coalesce(proacl::text, '') order by proname) from pg_proc
            where pronamespace{ours}""",
        "select array_agg(pg_get_triggerdef(oid) order by tgname) from pg_trigger where not tgisinternal",
        f"""select array_agg(conname || pg_get_constraintdef(oid) order by conname) from pg_constraint
            where connamespace{ours} and contype <> 'n'""",  # of partitions: pg_dump gives these other names
        f"""select array_agg(concat_ws(' ', relname, attname, atttypid::regtype, attnotnull, attidentity)
            order by relname, attnum) from pg_attribute join pg_class c on c.oid = attrelid where relnamespace{ours}""",
    )


def test_everything_is_there_again(place: Place, tmp_path: Path) -> None:
    url, copy, file = filled(place.url("lost")), place.url("found"), tmp_path / "backup"

    saved = asked("backup", file, "--engine", url)
    restored = asked("restore", file, "--engine", copy)

    assert counts(saved) == counts(restored) == COUNTED
    assert saved["digest"] == restored["digest"]
    assert saved["bytes"] == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tables(place, "found") == tables(place, "lost"), "and nothing else: no second store anywhere"
    assert shape(place, "found") == shape(place, "lost")
    assert oncue("migrate", "--check", "--engine", copy).exit_code == 0


def test_nothing_is_overwritten(place: Place, tmp_path: Path) -> None:
    url, file = filled(place.url("lost")), tmp_path / "backup"
    first = oncue("backup", file, "--engine", url)
    before = file.read_bytes()

    again, restored = oncue("backup", file, "--engine", url), oncue("restore", file, "--engine", url)

    assert (first.exit_code, again.exit_code, restored.exit_code) == (0, 1, 1)
    assert again.output == f"{file} exists: name another file, or move it away\n"
    assert "exists: name another" in restored.output or "has tables with the names of oncue's" in restored.output
    assert file.read_bytes() == before

    drilled = oncue("backup", tmp_path / "other", "--engine", url, "--drill", url)
    assert drilled.exit_code == 1
    assert drilled.output.startswith(f"Wrote {tmp_path / 'other'}: "), "the backup is there all the same"


def test_a_drill_fails_if_the_copy_is_emptied(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = filled(place.url("lost"))
    well = oncue("backup", tmp_path / "one", "--engine", url, "--drill", place.url("well"))
    assert well.exit_code == 0, well.output
    assert well.output.splitlines()[1].startswith("Restored ")
    assert well.output.splitlines()[2] == "Compared: 1 recurring job, 24 runs and 1 key are equal."
    if place.server is None:
        assert [one.name for one in tmp_path.iterdir() if one.name.startswith("well")] == []
        assert oncue("backup", tmp_path / "next", "--engine", url, "--drill", place.url("well")).exit_code == 0
    else:
        assert "Drop what is in postgresql://" in well.output

    if place.server is None:
        checked = backup._check

        def emptied(copy: apsw.Connection, source: Path, tell: Callable[[str], None]) -> None:
            checked(copy, source, tell)
            if source.name == "two":
                copy.execute("delete from jobs; delete from runs where run_id not in (select run_id from running)")

        monkeypatch.setattr(backup, "_check", emptied)
    else:
        empty = "set search_path = oncue, public; delete from jobs; delete from waiting"
        target = "for one; do [[ $one != --dbname=* ]] || target=${one#--dbname=}; done"
        then = f'"$real" "$@"; {target}; psql --no-psqlrc --quiet "$target" --command="{empty}"'
        fake(tmp_path, "pg_restore", then, only_if="--single-transaction")
    ill = oncue("backup", tmp_path / "two", "--engine", url, "--drill", place.url("ill"))

    assert ill.exit_code == 1
    assert "The restored copy differs: 1 jobs in the backup, 0 in the copy." in ill.output
    assert "The restored copy differs: 24 runs in the backup, 4 in the copy." in ill.output
    assert "Compared" not in ill.output
    assert place.server is not None or (tmp_path / "ill.db").exists(), "to look at"


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("echo half > \"${file}\"; echo 'pg_dump: error: the moon' >&2; exit 1", "pg_dump failed: the moon"),
        ('echo half > "${file}"; kill -KILL $$', "pg_dump failed: it was killed by signal 9"),
    ],
)
def test_a_backup_that_failed_leaves_no_file(in_schema: Place, does: str, says: str, tmp_path: Path) -> None:
    url, folder = filled(in_schema.url("lost")), tmp_path / "backups"
    folder.mkdir()
    path = os.environ["PATH"]
    fake(tmp_path, "pg_dump", FILE + does, only_if="--format")
    failed = oncue("backup", folder / "today", "--engine", url)
    assert (failed.exit_code, failed.output) == (1, f"{says}\n")
    assert list(folder.iterdir()) == []

    os.environ["PATH"] = path
    assert oncue("backup", folder / "today", "--engine", url).exit_code == 0
    assert [file.name for file in folder.iterdir()] == ["today"]


@both_engines
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_backup_that_was_stopped_leaves_no_file(place: Place, number: signal.Signals, tmp_path: Path) -> None:
    url, folder = filled(place.url("lost")), tmp_path / "backups"
    folder.mkdir()
    if place.server is None:
        with closing(apsw.Connection(str(tmp_path / "lost.db"))) as db:
            db.execute("create table filler as select zeroblob(200000000)")
    else:
        fake(tmp_path, "pg_dump", FILE + 'echo half > "${file}"; exec sleep 600', only_if="--format")

    words: list[str | Path] = [ONCUE, "backup", folder / "today", "--engine", url]
    if number == signal.SIGTERM:  # as `oncue backup … &` in a script, which Ctrl-C does not reach
        words = ["bash", "-c", "trap '' INT; exec \"$@\"", "bash", *words]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        until(lambda: any(file.stat().st_size for file in folder.iterdir()))
        process.send_signal(number)
        try:
            assert process.wait(60) == 130
        finally:
            process.kill()
    assert list(folder.iterdir()) == []


@both_engines
def test_a_full_disk_leaves_no_file(place: Place, tmp_path: Path) -> None:
    """A limit on the size of files, instead."""
    url, folder = filled(place.url("lost")), tmp_path / "backups"
    folder.mkdir()
    argv: list[str | Path] = ["prlimit", "--fsize=50000", ONCUE, "backup", folder / "today", "--engine", url]
    done = subprocess.run([program("prlimit"), *argv[1:]], capture_output=True, text=True)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    says = f"cannot be copied to the folder {folder} (" if place.server is None else "pg_dump failed: "
    assert says in done.stderr
    assert list(folder.iterdir()) == []


@both_engines
@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 100],
        lambda whole: whole[: len(whole) // 100 * 99],
        lambda whole: (at := len(whole) // 2**14 * 2**12) and whole[:at] + b"GARBAGE " * 512 + whole[at + 2**12 :],
    ],
    ids=["beginning", "cut", "overwritten"],
)
def test_a_damaged_file_is_not_restored(place: Place, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    url, copy, file = filled(place.url("lost")), place.url("found"), tmp_path / "backup"
    asked("backup", file, "--engine", url)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))

    refused = oncue("restore", file, "--engine", copy)
    assert refused.exit_code == 1
    assert refused.output.startswith(f"{file} ")
    assert "damaged" in refused.output, refused.output
    assert refused.output.count("\n") == 1

    file.write_bytes(whole)
    assert counts(asked("restore", file, "--engine", copy)) == COUNTED


@both_engines
@pytest.mark.parametrize("text", [b"", b"select 1;\n"])
def test_what_is_no_backup_is_not_restored(place: Place, text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    missing = oncue("restore", file, "--engine", place.url("found"))
    file.write_bytes(text)
    wrong = oncue("restore", file, "--engine", place.url("found"))
    os.mkfifo(tmp_path / "pipe")
    pipe = subprocess.run([ONCUE, "restore", tmp_path / "pipe", "--engine", place.url("found")], timeout=60)

    assert pipe.returncode == 1
    assert missing.output.startswith(f"cannot read the backup {file} (No such file or directory)")
    assert wrong.output == f"{file} is no backup of oncue: name a file that `oncue backup` wrote\n"


def test_an_older_backup_is_migrated_and_a_newer_one_refused(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = place.url("older"), place.url("newer")
    with monkeypatch.context() as patch:
        for engine in ("sqlite", "postgres"):
            known = migrations(f"oncue.engines.{engine}")[:-1]
            patch.setattr(f"oncue.engines.{engine}.migrate.migrations", lambda _, known=known: known)
        assert oncue("migrate", "--engine", older).exit_code == 0
    asked("backup", tmp_path / "old", "--engine", older)
    assert oncue("migrate", "--engine", newer).exit_code == 0
    if place.server is None:
        asked("backup", tmp_path / "new", "--engine", newer)
        with closing(apsw.Connection(str(tmp_path / "new"))) as db:
            db.execute("insert into oncue_migrations values (99); pragma user_version = 99")
    else:
        postgres(place.bare("newer"), f"insert into {place.query[8:] or 'public'}.oncue_schema values (99)")
        bare = place.bare("newer")
        run("pg_dump", "--format=custom", f"--file={tmp_path / 'new'}", bare, path=os.environ["PATH"])
        assert "needs a newer version" in oncue("backup", tmp_path / "newest", "--engine", newer).output
    restored = asked("restore", tmp_path / "old", "--engine", place.url("found"))
    refused = oncue("restore", tmp_path / "new", "--engine", place.url("not there"))

    assert restored["from_version"] < restored["schema_version"] == migrations("oncue.engines.sqlite")[-1][0]
    assert refused.exit_code == 1
    assert "needs a newer version of oncue: its schema has level 99" in refused.output
    assert place.server is not None or not (tmp_path / "not there.db").exists()
    assert place.server is None or tables(place, "not there") == {}


@pytest.mark.postgres
def test_a_schema_is_restored_where_the_url_leads_and_nowhere_else(in_schema: Place, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    asked("backup", file, "--engine", filled(in_schema.url("lost")))

    refused = oncue("restore", file, "--engine", in_schema.bare("found") or in_schema.url("found"))

    assert refused.exit_code == 1
    assert "is a backup of the schema oncue, and this URL leads to the schema public" in refused.output
    assert "(?schema=oncue)" in refused.output
    assert tables(in_schema, "found") == {}


@pytest.mark.postgres
def test_the_tables_of_an_application_are_left_alone(in_schema: Place, tmp_path: Path) -> None:
    """In a schema that both use."""
    in_schema.query = ""
    url, copy = filled(in_schema.url("lost")), in_schema.url("found")
    for one in (url, copy):
        postgres(one, "create table orders (id serial primary key)", "create view new_orders as select * from orders")
        postgres(one, "insert into orders default values", "create table parts (id int) partition by list (id)")
        postgres(one, "create table part_1 partition of parts for values in (1)", "create sequence numbers")

    asked("backup", tmp_path / "backup", "--engine", url)

    assert counts(asked("restore", tmp_path / "backup", "--engine", copy)) == COUNTED
    assert tables(in_schema, "found") == tables(in_schema, "lost")


@pytest.mark.postgres
def test_programs_get_what_they_understand_and_no_password_where_others_see_it(
    in_schema: Place, tmp_path: Path
) -> None:
    bare = urlsplit(filled(in_schema.url("lost")))
    user = f"{bare.username}:{quote(ODD, safe='')}"
    parameters = "schema=oncue&prepared_statements=off&sslmode=prefer&statement_timeout=7s&application_name=mine"
    nowhere = "127.0.0.1:1"
    one = f"{user}@{bare.hostname}:{bare.port}"
    for number, netloc in enumerate((f"{one}", f"{user}@{nowhere},{bare.hostname}:{bare.port}")):
        listen = f"&listen={bare.hostname}:{bare.port}"
        url = bare._replace(netloc=netloc, query=parameters + listen * number).geturl()
        note = f"printf '%s\\n' \"$@\" > {tmp_path}/words; env > {tmp_path}/environment; "
        fake(tmp_path, "pg_dump", note + 'exec "$real" "$@"', only_if="--format")

        asked("backup", tmp_path / f"backup {number}", "--engine", url)

        words, environment = (tmp_path / "words").read_text(), (tmp_path / "environment").read_text()
        assert ODD not in words
        assert quote(ODD, safe="") not in words
        assert f"PGPASSWORD={ODD}\n" in environment
        assert "PGSSLMODE=prefer\n" in environment
        assert "PGOPTIONS=-c statement_timeout=7s\n" in environment
        assert "ONCUE" not in environment


@pytest.mark.postgres
def test_a_schema_with_an_odd_name(in_schema: Place, tmp_path: Path) -> None:
    """One to which the search_path leads: in a URL it could not be named."""
    in_schema.query, odd = "", '"Ode to ""joy"".*"'
    for name in ("lost", "found"):
        set_path = f"alter database {quoted(in_schema, name)} set search_path = {odd.replace('%', '%%')}"
        postgres(in_schema.url(name), set_path)
    postgres(in_schema.url("lost"), f"create schema {odd}")
    url = filled(in_schema.url("lost"))

    done = asked("backup", tmp_path / "backup", "--engine", url, "--drill", in_schema.url("found"))

    assert done["drill"]["differences"] == []
    assert tables(in_schema, "found") == tables(in_schema, "lost")


def quoted(place: Place, name: str) -> str:
    place.url(name)
    return f'"backup {name}"'


@pytest.mark.postgres
def test_programs_that_are_missing_or_too_old_are_named(
    in_schema: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = filled(in_schema.url("lost"))
    fake(tmp_path, "pg_dump", "echo 'pg_dump (PostgreSQL) 9.6.24'", only_if="--version")
    old = oncue("backup", tmp_path / "backup", "--engine", url)
    monkeypatch.setenv("PATH", "/nowhere")
    missing = oncue("backup", tmp_path / "backup", "--engine", url)

    assert (old.exit_code, missing.exit_code) == (1, 1)
    assert old.output.startswith("pg_dump has version 9, which cannot read a server of version 1")
    assert missing.output.startswith("there is no pg_dump: install the client programs of PostgreSQL 1")
    assert "apt install postgresql-client" in missing.output
    assert not (tmp_path / "backup").exists()


@pytest.mark.postgres
def test_nothing_is_restored_under_processes_of_oncue(in_schema: Place, tmp_path: Path) -> None:
    """They would go on with numbers of classes that mean something else in the backup."""
    asked("backup", tmp_path / "backup", "--engine", filled(in_schema.url("lost")))

    async def restored_beside(name: str) -> subprocess.CompletedProcess[str]:
        session = await asyncpg.connect(in_schema.bare("found"), server_settings={"application_name": name})
        try:
            return oncue_apart("restore", tmp_path / "backup", "--engine", in_schema.url("found"))
        finally:
            await session.close()

    in_schema.url("found")
    refused = asyncio.run(restored_beside("oncue worker"))
    assert refused.returncode == 1
    assert "processes of oncue use this database: oncue worker (1 connections). Stop them" in refused.stderr
    assert tables(in_schema, "found") == {}


@pytest.mark.postgres
def test_what_is_restored_and_not_migrated_is_said(
    in_schema: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked("backup", tmp_path / "backup", "--engine", filled(in_schema.url("lost")))
    copy = in_schema.url("found")

    async def refused(*_: object) -> None:
        raise OncueError("the table jobs is locked")

    with monkeypatch.context() as patch:
        patch.setattr("oncue.engines.postgres.backup.migrate", refused)
        failed = oncue("restore", tmp_path / "backup", "--engine", copy)

    said = "the backup is restored, but not migrated (the table jobs is locked): run `oncue migrate`\n"
    assert (failed.exit_code, failed.output) == (1, said)
    assert oncue("migrate", "--engine", copy).exit_code == 0


FILE = "for one; do [[ $one != --file=* ]] || file=${one#--file=}; done; "


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def fake(folder: Path, name: str, does: str, *, only_if: str = "") -> None:
    """Put a program of this name before the real one, which is "$real". The fixture restores the path."""
    (folder / "bin").mkdir(exist_ok=True)
    script = folder / "bin" / name
    if not script.exists():
        os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
    real = next(found for found in map(Path, os.environ["PATH"].split(":")[1:]) if (found / name).exists()) / name
    script.write_text(f'#!/bin/bash\nreal={real}\n[[ "$*" == *"{only_if}"* ]] || exec "$real" "$@"\n{does}\n')
    script.chmod(0o755)
