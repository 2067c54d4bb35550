"""What each engine says of its own database: a file, a server."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import Place

from oncue.clock import SystemClock
from oncue.domain.diagnosis import Diagnosis, State
from oncue.domain.errors import StoreForbidden
from oncue.domain.instants import MINUTE, Duration
from oncue.engines.open import open_engine
from oncue.engines.postgres import diagnosing as of_server
from oncue.engines.postgres.diagnosing import Server, diagnoses
from oncue.engines.sqlite import diagnosing as of_file
from oncue.engines.sqlite.diagnosing import diagnose_file, file_system
from oncue.services.doctor import diagnose
from oncue.settings import Settings

place = outside.place

GOOD = Server(150018, "15.18", "on", "on", connections=79, most_connections=100, may_create=True)


def wrong(found: list[Diagnosis]) -> list[tuple[str, str]]:
    assert all(bool(one.remedy) is (one.state is not State.OK) for one in found)
    return [(one.check, one.state.value) for one in found if one.state is not State.OK]


# ------------------------------------------------------------------------------------------------------------ a server


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"synchronous_commit": "local", "connections": 0, "most_connections": 0}, []),
        ({"version": 140012}, [("version", "problem")]),
        ({"fsync": "off"}, [("durability", "problem")]),
        ({"synchronous_commit": "off"}, [("durability", "problem")]),
        ({"connections": 80}, [("connections", "warning")]),
        ({"connections": 95}, [("connections", "problem")]),
        ({"oldest_transaction": Duration(5 * MINUTE - 1)}, []),
        ({"oldest_transaction": Duration(5 * MINUTE)}, [("transactions", "warning")]),
        ({"dead_rows": (("waiting", 2_000_000),)}, [("dead rows", "warning")]),
        ({"may_create": False}, [("rights", "warning")]),
        ({"old_primaries": ("db1:5432",)}, [("primary", "problem")]),
    ],
)
def test_of_a_server(change: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert wrong(list(diagnoses(replace(GOOD, **change)))) == expected


async def test_a_real_server(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of tests has no fsync. Catches a statement that reads another setting, or nothing."""
    store = await place.store()
    found = {one.check: one for one in await store.engine.diagnose()}
    assert wrong(list(found.values())) == [("durability", "problem")]
    assert "fsync off" in found["durability"].seen
    assert int(found["connections"].seen.split()[0]) >= 2  # the test's own session, and ours
    assert found["version"].seen == f"PostgreSQL {await place.value('show server_version')}"

    await place.value("create table rows_that_die (a int)")
    await place.value("alter table rows_that_die set (autovacuum_enabled = off)")
    await place.value("insert into rows_that_die select generate_series(1, 100)")
    await place.value("delete from rows_that_die")
    await place.value("select pg_stat_force_next_flush()")
    monkeypatch.setattr(of_server, "MANY_DEAD_ROWS", 50)
    monkeypatch.setattr(of_server, "OLD_TRANSACTION", Duration(1))
    async with place.holding("insert into rows_that_die values (1)"):
        found = {one.check: one for one in await store.engine.diagnose()}

    assert [check for check, _ in wrong(list(found.values()))] == ["durability", "transactions", "dead rows"]
    assert found["dead rows"].seen == "100 in rows_that_die"


async def test_a_user_who_may_not_create(place: Place) -> None:
    """As ops/postgres/roles.sql has it for APIs and workers."""
    async with limited(place):
        found = await (await place.store()).engine.diagnose()

    assert ("rights", "warning") in wrong(found)


async def test_a_user_with_too_few_rights(place: Place) -> None:
    """Catches an error of the driver that nothing expects: it would end a process as a crash."""
    async with limited(place, "oncue_migrations"):
        with pytest.raises(StoreForbidden, match=r"table oncue_migrations\); grant .* ops/postgres/roles.sql"):
            await open_engine(Settings(engine=place.url))
        [found] = [one for one in await diagnose(Settings(engine=place.url), SystemClock()) if one.check == "rights"]
    assert (found.state, "roles.sql" in found.remedy) == (State.PROBLEM, True)

    async with limited(place, "workers", "probe"):
        with pytest.raises(StoreForbidden, match=r"these tables: probe, workers; grant .* ops/postgres/roles.sql"):
            await open_engine(Settings(engine=place.url))


async def test_rights_that_are_taken_away_are_an_outage_until_they_are_granted_again(place: Place) -> None:
    async with limited(place) as role:
        store = await place.store()
        await place.value(f"revoke all on probe from {role}")
        with pytest.raises(StoreForbidden, match="permission denied for table probe"):
            await store.engine.probe()
        await place.value(f"grant all on probe to {role}")
        await store.engine.probe()


@asynccontextmanager
async def limited(place: Place, *refused: str) -> AsyncIterator[str]:
    """Connect in this block as a user with the rights of ops/postgres/roles.sql, but none on the tables `refused`;
    yields the name of its role.
    """
    database = await place.value("select current_database()")
    role = f"{database}_app"
    await place.value(f"create role {role}")
    await place.value(f"grant all on all tables in schema public to {role}")
    await place.value(f"grant all on all sequences in schema public to {role}")
    for table in refused:
        await place.value(f"revoke all on {table} from {role}")
    await place.value(f"alter role current_user in database {database} set role {role}")
    try:
        yield role
    finally:
        await place.value(f"alter role current_user in database {database} reset role")
        await place.value(f"drop owned by {role}")
        await place.value(f"drop role {role}")


# -------------------------------------------------------------------------------------------------------------- a file

LOCAL = "/dev/root / ext4 rw 0 0\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = tmp_path / "x.db"
    path.touch(0o600)
    return path


def test_a_file_that_is_well(file: Path) -> None:
    found = diagnose_file(file, LOCAL)

    assert wrong(found) == []
    assert [one.check for one in found] == ["file", "disk space", "write-ahead log", "file system"]


@pytest.mark.parametrize(("mode", "folder"), [(0o640, 0o755), (0o604, 0o755), (0o600, 0o775), (0o600, 0o777)])
def test_others_have_access(file: Path, mode: int, folder: int) -> None:
    file.chmod(mode)
    file.parent.chmod(folder)

    assert wrong(diagnose_file(file, LOCAL)) == [("file", "warning")]


def test_a_folder_where_only_owners_may_replace_files(file: Path) -> None:
    file.parent.chmod(0o1777)

    assert wrong(diagnose_file(file, LOCAL)) == []


def test_no_rights(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # tests may run as root, who may do everything

    assert wrong(diagnose_file(file, LOCAL)) == [("file", "problem")]


@pytest.mark.parametrize(("little", "hardly", "state"), [(1 << 60, 0, "warning"), (1 << 60, 1 << 60, "problem")])
def test_the_disk_is_nearly_full(
    file: Path, monkeypatch: pytest.MonkeyPatch, little: int, hardly: int, state: str
) -> None:
    monkeypatch.setattr(of_file, "LITTLE_SPACE", little)
    monkeypatch.setattr(of_file, "HARDLY_ANY_SPACE", hardly)

    assert wrong(diagnose_file(file, LOCAL)) == [("disk space", state)]


def test_a_large_log(file: Path) -> None:
    with file.with_name("x.db-wal").open("wb") as log:
        log.truncate(of_file.LARGE_LOG + 1)

    assert wrong(diagnose_file(file, LOCAL)) == [("write-ahead log", "warning")]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    assert wrong(diagnose_file(tmp_path / "none.db", LOCAL)) == [("file", "problem")]


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs", "lustre"]
)
def test_a_network_file_system(file: Path, kind: str) -> None:
    mounts = f"{LOCAL}server:/a {str(file.parent).replace(' ', chr(92) + '040')} {kind} rw 0 0\n"

    assert wrong(diagnose_file(file, mounts)) == [("file system", "problem")]


def test_the_nearest_mount_counts() -> None:
    mounts = "a / ext4 rw 0 0\nb /data nfs rw 0 0\nc /data/with\\040blank xfs rw 0 0\nd /dat btrfs rw\ne / overlay rw\n"

    found = [file_system(Path(path), mounts) for path in ("/x.db", "/data/x.db", "/data/with blank/x.db", "/data2/x")]

    assert found == ["overlay", "nfs", "xfs", "overlay"]
    assert file_system(Path("/x"), "") is None
