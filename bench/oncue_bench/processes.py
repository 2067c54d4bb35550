"""The processes that are measured, started as a user starts them, and always stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from oncue.domain.errors import OncueError
from oncue_bench.notes import ENVIRONMENT

SHOWN_OUTPUT = 2_000  # characters of a process's output that are shown


def told_in(line: str | bytes) -> dict[str, str]:
    """Return what a server printed with `--json` when it was ready, with the admin key, which is in a file."""
    told: dict[str, str] = json.loads(line)
    if kept := told.get("admin_key_file"):
        told["admin_key"] = Path(kept).read_text().strip()
    return told


class BenchFailed(OncueError):
    """Nothing could be measured; the message ends with the output of the processes."""


class Process:
    """A running role, in its own session: Ctrl-C reaches us, and we stop it."""

    def __init__(self, role: str, command: list[str], environment: Mapping[str, str], said: Path) -> None:
        self.role = role
        self._said = said
        with said.open("w") as file:
            self._process = subprocess.Popen(
                command,
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def code(self) -> int | None:
        """Return its exit code, once it has ended."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        return self._said.read_text(errors="replace")[-SHOWN_OUTPUT:].strip()

    def first_line(self) -> bytes:
        """Wait for a line; return an empty one if the process ends before."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def ask_to_end(self) -> None:
        self._process.terminate()

    def end(self) -> None:
        """Stop it: ask it to finish, then to stop at once, then kill it. It is always gone, and its worker with it."""
        with self._process:
            for ask in (self._process.terminate, self._process.terminate, self._process.kill):
                ask()
                try:
                    self._process.wait(10)
                except subprocess.TimeoutExpired:
                    continue
                return


class Processes:
    """Roles on one database, while the block lasts."""

    def __init__(self, url: str, folder: Path, source: str | None = None) -> None:
        """`source`: the `src` of another version, whose code they run."""
        self._environment = {ENVIRONMENT: str(folder)} | ({"PYTHONPATH": source} if source else {})
        self._where = ("--engine", url, "--data-dir", str(folder))
        self._folder = folder
        self._all: list[Process] = []
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ends.__exit__(kind, error, traceback)

    def start(self, role: str, *options: str) -> Process:
        """Start `oncue ROLE`."""
        said = self._folder / f"{len(self._all)}.said"
        line = [sys.executable, "-m", "oncue", role, "--json", *self._where, *options]
        process = Process(role, line, self._environment, said)
        self._all.append(process)
        self._ends.callback(process.end)
        return process

    def stop(self, *processes: Process) -> None:
        """Stop some of them before the others."""
        for process in processes:
            self._all.remove(process)
            process.ask_to_end()
        for process in processes:
            process.end()

    def of(self, *roles: str) -> list[Process]:
        return [process for process in self._all if process.role in roles]

    def opened(self, door: Process) -> dict[str, str]:
        """Return what it prints when it accepts requests: its address, and an admin key."""
        line = door.first_line()
        if not line:
            raise self.failure(f"`oncue {door.role}` did not start")
        return told_in(line)

    def check(self) -> None:
        for process in self._all:
            if process.code is not None:
                raise self.failure(f"`oncue {process.role}` ended with code {process.code}", process)

    def failure(self, what: str, *whose: Process) -> BenchFailed:
        """Return an error with the last output of these, or of all."""
        said = "\n".join(words for process in whose or self._all if (words := process.last_words))
        return BenchFailed(f"{what}. It said:\n{said or '(nothing)'}")
