"""`oncue storage check` on a database and a folder."""

import json
import os
from pathlib import Path

from click.testing import CliRunner, Result

from oncue.cli.main import main

LONG_AGO = 1_000_000_000


def check(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["storage", "check", "--data-dir", str(folder), *words])


def migrated(folder: Path) -> Path:
    assert CliRunner().invoke(main, ["migrate", "--data-dir", str(folder)]).exit_code == 0
    return folder


def test_all_is_well(tmp_path: Path) -> None:
    found = check(migrated(tmp_path))
    assert (found.exit_code, found.output) == (
        0,
        "0 objects in the database, 0 in storage with 0 bytes: all is well\n",
    )


def test_something_is_wrong(tmp_path: Path) -> None:
    key = "v1/result/1/2001-09-09/aa"
    file = migrated(tmp_path) / "objects" / key
    file.parent.mkdir(parents=True)
    file.write_bytes(b"12345")
    os.utime(file, (LONG_AGO, LONG_AGO))

    shown, told = check(tmp_path), check(tmp_path, "--json")

    assert (shown.exit_code, told.exit_code) == (1, 1)
    assert "1 unknown" in shown.output.splitlines()[0]
    assert shown.output.splitlines()[-1].split() == ["unknown", "5", key]
    assert json.loads(told.output) == {
        "known": 0,
        "stored": 1,
        "bytes": 5,
        "wrong": {"unknown": 1},
        "findings": [{"wrong": "unknown", "key": key, "size": 5, "expected": None}],
    }


def test_without_a_database_it_says_so_and_makes_none(tmp_path: Path) -> None:
    found = check(tmp_path / "nothing")
    assert (found.exit_code, "there is no database" in found.output) == (1, True)
    assert not (tmp_path / "nothing").exists()
