"""A backup is taken while jobs run, everything is lost, the backup is restored, and all that was in it goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ops.programs import OPS, PATH, beside, program
from tests.processes.fleet import Fleet

from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.ops

LEASE = "--lease=2s"  # of a worker that was alive in the backup, and is not any more


class Place:
    """Where an engine's databases can be made, and how the drill is called there."""

    def __init__(self, folder: Path, server: PrivatePostgres | None, query: str = "") -> None:
        self._folder, self._server, self._query = folder, server, query

    def database(self, name: str) -> str:
        if self._server is None:
            return f"sqlite:///{self._folder}/{name}.db"
        return self._server.create_database(f"drill_{name}") + self._query

    def drill(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        path = PATH if self._server is None else beside(self._server)
        command = [str(OPS / "drill.sh"), *map(str, arguments)]
        env = {**os.environ, "PATH": path}
        return subprocess.run(command, cwd=self._folder, env=env, capture_output=True, text=True)


@pytest.fixture(params=["sqlite", *(pytest.param(p, marks=pytest.mark.postgres) for p in ("public", "oncue"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(tmp_path, None)
        return
    server: PrivatePostgres = request.getfixturevalue("postgres_server")
    program("pg_restore", beside(server))
    yield Place(tmp_path, server, "" if request.param == "public" else "?schema=oncue")
    for name in ("lost", "restored"):
        server.drop_database(f"drill_{name}")


def test_what_was_in_the_backup_goes_on(place: Place, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    gate, backup = tmp_path / "gate", tmp_path / "backup"

    lost = Fleet(tmp_path / "before", place.database("lost"))
    try:
        lost.deploy(LEASE)
        finished = lost.create("relay", {"lengths": [0]})
        dead = lost.create("fail", max_retries=0)
        running = lost.create("gated", {"gate": str(gate)})
        waiting = lost.batch([{"task": "mark", "queue": "for later"}] * 100)
        lost.at_rest([finished, dead])
        lost.started(running)
        said = place.drill("backup", lost.engine, backup)
        assert said.returncode == 0, said.stderr
        after = lost.create("mark")
        key, result = lost.key, lost.run(finished)["result"]
    finally:
        lost.close()
    gate.touch()

    engine = place.database("restored")
    said = place.drill("restore", backup, engine)
    assert said.returncode == 0, said.stderr

    restored = Fleet(tmp_path / "after", engine)
    (tmp_path / "after" / "admin.key").write_text(key)
    try:
        restored.deploy(LEASE, "--queues=default,for later")
        ended = restored.at_rest([running, *waiting])
        assert {run["status"] for run in ended.values()} == {"succeeded"}
        assert ended[running]["attempt_number"] == 2, "its worker was lost with the machine"
        assert restored.run(finished)["result"] == result
        assert restored.run(dead)["status"] == "dead"
        assert restored.raw("GET", f"/v1/runs/{after}")[0] == 404
        assert len(restored.events("start")) == 101, "what had ended did not start again"
    finally:
        restored.close()

    assert place.drill("restore", backup, engine).returncode == 1, "a database that is there is not overwritten"


def test_a_drill_beside_running_jobs_compares_what_was_there(place: Place, tmp_path: Path) -> None:
    """Also when more is created and ends while the backup is taken."""
    fleet = Fleet(tmp_path, place.database("lost"))
    try:
        fleet.deploy()
        fleet.create("mark", schedule="every 1s")
        with subprocess.Popen([sys.executable, "-c", CREATING, str(fleet.port), fleet.key]) as creating:
            fleet.batch([{"task": "mark"}] * 200)
            said = place.drill("drill", fleet.engine, place.database("restored"))
            creating.kill()
    finally:
        fleet.close()

    assert said.returncode == 0, said.stdout + said.stderr
    summary = r"1 recurring job, (\d+) runs, 1 key, schema version \d+"
    found = re.search(rf"Wrote .*: {summary}, .* MB, in .* s\.\nRestored .*: {summary}, in .* s\.\n", said.stdout)
    assert found, said.stdout
    assert int(found[1]) == int(found[2]) > 200


CREATING = """
import sys
from oncue.client import Client
with Client(f"http://127.0.0.1:{sys.argv[1]}", sys.argv[2]) as client:
    while True:
        client.jobs.create("mark")
"""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "drill.sh backup ENGINE FILE"),
        (("backup", "mysql://x", "backup"), 2, "is not a supported engine"),
        (("backup", "sqlite:////nowhere/oncue.db", "backup"), 1, "there is no database here"),
        (("restore", "/nowhere/backup", "sqlite:///oncue.db"), 1, "cannot read the backup"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], code: int, says: str, tmp_path: Path) -> None:
    said = Place(tmp_path, None).drill(*arguments)

    assert said.returncode == code
    assert says in said.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["oncue.db", "oncue.db-wal"])
def test_nothing_is_restored_over_what_is_there(name: str, tmp_path: Path) -> None:
    """SQLite would write an old -wal into the restored file."""
    (tmp_path / name).write_bytes(b"precious")
    (tmp_path / "backup").write_bytes(b"SQLite format 3\0")

    said = Place(tmp_path, None).drill("restore", "backup", "sqlite:///oncue.db")

    assert said.stderr == f"{name} exists: name another file, or move it away\n"
    assert {file.name for file in tmp_path.iterdir()} == {name, "backup"}


def test_a_damaged_backup_is_not_taken_for_one(tmp_path: Path) -> None:
    place = Place(tmp_path, None)
    (tmp_path / "lost.db").write_bytes(b"SQLite format 3\0" + bytes(5_000))

    said = place.drill("backup", place.database("lost"), tmp_path / "backup")

    assert said.returncode != 0
    assert said.stderr != ""
