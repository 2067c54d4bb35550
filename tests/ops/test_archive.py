"""The archive on a real S3 server, SeaweedFS, by a real scheduler and the commands that users have."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
import pytest
from click.testing import CliRunner, Result
from obstore.store import S3Store
from tests.processes.fleet import Fleet, Member, until
from tests.storage.old_history import Old, fill, left_in_store
from tests.storage.seaweed import BUCKET, KEY, SECRET, Seaweed, seaweed, settings_for

from oncue.cli.main import main

pytestmark = [pytest.mark.ops, pytest.mark.xdist_group("seaweed")]

FAULTS = Path(__file__).parent.parent / "storage" / "faults"
ARCHIVE = f"s3://{BUCKET}/kept"


class Site:
    """A scheduler whose archive and object storage are buckets, with old history in its database."""

    def __init__(self, fleet: Fleet, server: Seaweed) -> None:
        self.fleet = fleet
        self.server = server
        self.settings = settings_for(server, engine=fleet.engine, data_dir=str(fleet.folder))
        self.where = [
            *("--storage-endpoint", server.endpoint, "--storage-region", "us-east-1", "--storage-path-style"),
            *("--archive", ARCHIVE),
        ]
        self.old: Old = asyncio.run(fill(self.settings))

    def scheduler(self) -> Member:
        env = {**self.server.environment, "PYTHONPATH": str(FAULTS), "FAULT_QUICK": "1"}
        storage = str(self.settings.storage)
        return self.fleet.start("scheduler", *self.where, "--storage", storage, "--retention", "1d", env=env)

    def in_store(self) -> list[str]:
        return asyncio.run(left_in_store(self.settings))

    def command(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["archive", *words, "--engine", self.fleet.engine, *self.where])

    def shown(self, *words: str) -> Any:
        done = self.command(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    def exported(self, *words: str) -> list[Any]:
        done = self.command("export", *words)
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.output.splitlines()]

    @property
    def bucket(self) -> S3Store:
        keys = {"access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1"}
        return S3Store(BUCKET, endpoint=self.server.endpoint, client_options={"allow_http": True}, **keys)

    def keys(self) -> list[str]:
        return sorted(one["path"] for page in obstore.list(self.bucket, "kept") for one in page)

    def download(self, folder: Path) -> None:
        for key in self.keys():
            file = folder / key.removeprefix("kept/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(obstore.get(self.bucket, key).bytes())


@contextmanager
def started(folder: Path) -> Iterator[Site]:
    fleet = Fleet(folder)
    with pytest.MonkeyPatch.context() as environment, seaweed(folder / "weed") as server:
        for name, value in server.environment.items():
            environment.setenv(name, value)
        try:
            yield Site(fleet, server)
        finally:
            fleet.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with started(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One whose history is in the archive, for those who only read."""
    with started(tmp_path_factory.mktemp("archived")) as found:
        found.scheduler()
        until(lambda: not found.in_store(), "all of it is archived and dropped", found.fleet.tell)
        yield found


def test_what_is_dropped_is_in_the_bucket_and_comes_out_as_it_was(archived: Site, tmp_path: Path) -> None:
    listed, found = archived.shown("list"), archived.shown("verify")
    assert (found["rows"], found["large"], found["wrong"]) == (len(archived.old.all_runs), 4, [])
    assert sum(one["rows"] for one in listed) == found["rows"]
    assert len(archived.keys()) == found["files"] + found["large"] + len(listed), "nothing else is there"
    for one in listed:
        content = bytes(obstore.get(archived.bucket, f"kept/{one['manifest']}").bytes())
        assert hashlib.sha256(content).hexdigest() == one["sha256"]

    values = tmp_path / "values"
    lines = archived.exported("--large", str(values))
    assert sorted(map(row_of, lines)) == sorted(archived.old.rows)
    assert sorted(line["run_id"] for line in archived.exported("--user", "ada")) == sorted(archived.old.runs["ada"])
    large = sorted(archived.old.large["ada"] + archived.old.large["bob"])
    assert sorted(line["objects"]["payload"]["sha256"] for line in lines if line["objects"]) == large
    assert sorted(path.name for path in values.iterdir()) == large
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in values.iterdir())


def row_of(line: Any) -> tuple[str, str, str]:
    """The run, its user and the SHA-256 of its payload, as `fill` noted them."""
    large = line["objects"].get("payload")
    found = hashlib.sha256(json.dumps(line["payload"]).encode()).hexdigest() if large is None else large["sha256"]
    return line["run_id"], line["user_id"], found


def test_duckdb_reads_what_was_downloaded(archived: Site, tmp_path: Path) -> None:
    """DuckDB reads S3 itself with an extension that it downloads; its statement is the same for a folder."""
    duckdb = pytest.importorskip("duckdb")
    archived.download(tmp_path / "copy")

    statement = archived.shown("sql")["sql"].rstrip(";")
    assert f"'{ARCHIVE}/archive/v1/history/" in statement
    rows = duckdb.sql(statement.replace(ARCHIVE, str(tmp_path / "copy")))
    told = rows.select("run_id, user_id, status, objects->'payload'->>'sha256'").fetchall()

    assert sorted(row[0] for row in told) == archived.old.all_runs
    assert sorted(row[3] for row in told if row[3]) == sorted(archived.old.large["ada"] + archived.old.large["bob"])
    assert {row[2] for row in told} == {"succeeded"}


def test_while_the_server_is_stopped_nothing_is_dropped_and_then_it_goes_on(site: Site) -> None:
    site.server.stop()
    scheduler = site.scheduler()
    until(lambda: scheduler.said.count("archive_failed") >= 2, "it has tried", site.fleet.tell)
    assert site.in_store() == site.old.all_runs

    site.server.start()
    until(lambda: not site.in_store(), "all of it is archived and dropped", site.fleet.tell)
    assert sorted(line["run_id"] for line in site.exported()) == site.old.all_runs
    assert site.shown("verify")["wrong"] == []


def test_a_byte_that_changed_in_the_bucket_is_named(archived: Site) -> None:
    keys = archived.keys()
    file = next(key for key in keys if "/history/" in key and "user=1" in key)
    value = next(key for key in keys if "/large/" in key and "user=2" in key)
    stored = {key: bytes(obstore.get(archived.bucket, key).bytes()) for key in (file, value)}
    for key, content in stored.items():
        obstore.put(archived.bucket, key, content[:-1] + bytes([content[-1] ^ 1]))

    done = archived.command("verify")

    for key, content in stored.items():
        obstore.put(archived.bucket, key, content)
        assert f"WRONG  {key.removeprefix('kept/')}: " in done.output
    assert (done.exit_code, done.output.count("WRONG")) == (1, 2)
    assert archived.command("verify").exit_code == 0
