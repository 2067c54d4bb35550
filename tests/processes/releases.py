"""Releases of before, beside this version: their code, and load on both."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.processes.fleet import ONCUE, Fleet, Member, until

# The newest commit of the release before this one. It moves on with each release.
PREVIOUS = "05e522e"  # 0.1.0
LANDED = "ba2c27a7"  # has what 0.1.0 has not: objects, notices, the outbox


def package_of(commit: str, folder: Path) -> Path:
    """The package of a commit as its wheel has it: nothing in it is built."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=Path(__file__).parents[2], capture_output=True)
    if packed.returncode:
        message = f"{commit} is not in this clone (git fetch --unshallow brings it): {packed.stderr.decode()}"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    code = folder / "src"
    subprocess.run([sys.executable, "-m", "compileall", "-q", code], check=True)  # else each process compiles it all
    look = [sys.executable, "-c", "import oncue; print(oncue.__file__)"]
    found = subprocess.run(
        look, env={**os.environ, "PYTHONPATH": str(code)}, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(code)
    return code


class Load:
    """Makes a job every few milliseconds, with each API in turn; who is refused or finds nobody asks again."""

    def __init__(self, *apis: Fleet) -> None:
        self.apis = list(apis)
        self.made: list[str] = []

    @contextmanager
    def going(self) -> Iterator[None]:
        enough = threading.Event()
        thread = threading.Thread(target=self._make, args=(enough,))
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def _make(self, enough: threading.Event) -> None:
        while not enough.wait(0.02):
            api = self.apis[len(self.made) % len(self.apis)]
            status, answer, _ = api.raw("POST", "/v1/jobs", {"task": "mark"})
            if status == 201:
                self.made.append(answer["job_id"])

    def goes_on(self, fleet: Fleet, jobs: int = 10) -> None:
        """So many that are made from now on have run."""
        first = len(self.made)
        until(lambda: len(self.made) >= first + jobs, "jobs are accepted", fleet.tell)
        fleet.started(*self.made[first : first + jobs])


def migrate(fleet: Fleet) -> str:
    done = subprocess.run([str(ONCUE), "migrate", "--engine", fleet.engine], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def stop(member: Member) -> None:
    member.send(signal.SIGTERM)
    assert member.ended() == 0, member.said
