"""The nightly clean-up: a command, on files of real age."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from tests.examples.server import definition, run_now, run_when


def cleanup_of(folder: Path) -> dict[str, Any]:
    job = definition("nightly_cleanup")
    program, _, *rest = job["payload"]["argv"]
    return job | {"payload": {"argv": [program, str(folder), *rest]}}


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_old_files_are_gone_and_the_log_names_them(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    for name, age in {"old.csv": 40, "young.csv": 20}.items():
        (tmp_path / name).touch()
        long_ago = (datetime.now(UTC) - timedelta(days=age)).timestamp()
        os.utime(tmp_path / name, (long_ago, long_ago))

    run_id = await run_now(client, cleanup_of(tmp_path))
    run = await run_when(client, run_id, "succeeded")

    assert names_in(tmp_path) == ["young.csv"]
    assert run["result"] == {"exit_code": 0, "output": f"{tmp_path / 'old.csv'}\n"}
    assert (await client.get(f"/runs/{run_id}/logs")).text == f"{tmp_path / 'old.csv'}\n"


async def test_a_folder_that_is_not_there_is_a_failure_that_says_so(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run_id = await run_now(client, cleanup_of(tmp_path / "nowhere") | {"max_retries": 0})
    run = await run_when(client, run_id, "dead")

    assert run["error_type"] == "ExitCode"
    assert "No such file or directory" in run["error_message"]
