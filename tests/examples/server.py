"""A real `oncue up`, by default with the example tasks, and what a user does with it from outside."""

import asyncio
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PATIENCE = 30.0  # seconds: far more than anything here takes, so that a busy machine fails no test

T = TypeVar("T")


class Up:
    def __init__(self, process: subprocess.Popen[str], address: str, data_dir: Path) -> None:
        self.process = process
        self.address = address
        self.key_file = data_dir / "admin.key"
        self.log = data_dir / "stderr.txt"

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=f"{self.address}/v1",
            headers={"Authorization": f"Bearer {self.key_file.read_text().strip()}"},
            timeout=PATIENCE,
            verify=False,
        )


@contextmanager
def up(data_dir: Path, *options: str, tasks: Path = EXAMPLES / "tasks.py", **environment: str) -> Iterator[Up]:
    """Listening in the block. Afterwards Ctrl-C, which it must obey, cleanly."""
    with (data_dir / "stderr.txt").open("w") as stderr:
        process = subprocess.Popen(
            [
                *(Path(sys.executable).with_name("oncue"), "up", "--tasks", tasks),
                *("--data-dir", data_dir, "--port", "0", *options),
            ],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **environment},
        )
    with process:
        try:
            yield Up(process, _address(process, data_dir), data_dir)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0, (data_dir / "stderr.txt").read_text()
        finally:
            process.kill()


def _address(process: subprocess.Popen[str], data_dir: Path) -> str:
    """From the first line it prints."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline() if readable else ""
    found = re.fullmatch(r"oncue listens at (\S+)\n", line)
    assert found, (line, (data_dir / "stderr.txt").read_text())
    return found[1]


def definition(name: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((EXAMPLES / f"{name}.json").read_bytes())
    return found


async def ask(client: httpx2.AsyncClient, method: str, path: str, status: int, **request: Any) -> Any:
    answer = await client.request(method, path, **request)
    assert answer.status_code == status, answer.text
    return answer.json()


async def create(client: httpx2.AsyncClient, job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = await ask(client, "POST", "/jobs", 201, json=job)
    return found


async def run_now(client: httpx2.AsyncClient, job: dict[str, Any]) -> str:
    """The id of a run of this job that starts at once. Its schedule begins tomorrow: nothing else of it runs here."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    made = await create(client, job | {"schedule": job["schedule"] | {"start_at": tomorrow}})
    started = await ask(client, "POST", f"/jobs/{made['job_id']}/runNow", 202)
    run_id: str = started["run_id"]
    return run_id


async def run_when(client: httpx2.AsyncClient, run_id: str, *statuses: str) -> dict[str, Any]:
    """The run, as soon as its status is one of these."""

    async def look() -> dict[str, Any] | None:
        run: dict[str, Any] = await ask(client, "GET", f"/runs/{run_id}", 200)
        assert run["status"] in statuses or run["end_time"] is None, run
        return run if run["status"] in statuses else None

    return await eventually(look)


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """What it finds, once it finds something."""
    until = time.monotonic() + PATIENCE
    while (found := await look()) is None:
        assert time.monotonic() < until, "it did not happen in time"
        await asyncio.sleep(0.02)
    return found
