"""docs/tutorial.md is followed to the letter, in an empty folder: its files are written, its commands typed.

Code after "Create `file`:" is that file, after "Add to `file`:" its end. `sh` is typed; what starts a server, in a
terminal of its own. Lines of `text` must appear in the output of the commands before them. "press Ctrl-C" stops the
servers, which must obey. What installs Python packages and creates the database is skipped.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.processes.fleet import free_port
from tests.test_docs import ROOT

pytestmark = pytest.mark.kills

DEADLINE = 60.0  # seconds: for whatever happens sooner or later
STEP = re.compile(
    r"(?:(?P<how>Create|Add to) `(?P<file>[\w.]+)`:\n\n)?"
    r"^```(?P<language>\w+)\n(?P<block>.*?)^```$|(?P<stop>press Ctrl-C)",
    re.DOTALL | re.MULTILINE,
)
SERVER = re.compile(r"oncue (?:dev|up|worker)\b")
LOOKING = re.compile(r"(?:(?:export|echo|oncue (?:jobs|workers)) .*\n)+")
RELOADED = "reload: the worker has restarted"
NOT_TYPED = re.compile(r"pip install '|createdb ")


class Reader:
    """Somebody who does what the page says, with an `oncue` that is installed already."""

    def __init__(self, folder: Path, postgres_url: str) -> None:
        self.folder = folder
        self.servers: list[subprocess.Popen[bytes]] = []
        self.reloads = False
        self.typed: list[str] = []
        port = free_port()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ONCUE_", "PYTEST"))}
        self.environment = clean | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ONCUE_PORT": str(port),
            "ONCUE_URL": f"http://127.0.0.1:{port}",
            "DATABASE_URL": postgres_url,
            "XDG_CONFIG_HOME": str(folder / "home"),
            "PYTEST_ADDOPTS": "-p no:schemathesis",  # half of the time, and no part of the page
        }

    def write(self, name: str, text: str, *, add: bool) -> None:
        """Save a file. `oncue dev` notices; whoever reads its lines goes on when it says that it has."""
        file, before = self.folder / name, self.logs().count(RELOADED)
        file.write_text(f"{file.read_text()}\n\n{text}" if add else text)
        if self.servers and name.endswith(".py") and self.reloads:
            self.look_for(lambda: self.logs().count(RELOADED) > before)

    def start(self, command: str) -> None:
        """Type it into a terminal of its own, and wait until it says where it is: then it takes jobs."""
        log = self.folder / f"server{len(list(self.folder.glob('server*.txt')))}.txt"
        with log.open("wb") as output:
            started = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=output, stderr=output
            )
        self.servers.append(started)
        self.reloads = command.startswith("oncue dev")
        said = "started" if command.startswith("oncue worker") else self.environment["ONCUE_URL"]
        self.look_for(lambda: said in log.read_text())

    def type(self, block: str, wanted: str) -> None:
        """Type these commands, which show what the page says, or else, if that is nothing, succeed. Who only looks
        looks again until it is there."""
        self.typed.append(block)
        until = time.monotonic() + DEADLINE
        while True:
            ran = subprocess.run(
                ["bash", "-c", block],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            output = ran.stdout + ran.stderr
            if not self.missing(wanted, output) if wanted else ran.returncode == 0:
                break
            assert LOOKING.fullmatch(block), f"{block}\n{self.missing(wanted, output)}\n{output}\n{self.logs()}"
            assert time.monotonic() < until, f"{block}\n{self.missing(wanted, output)}\n{output}\n{self.logs()}"

    def look_for(self, happened: Callable[[], bool]) -> None:
        until = time.monotonic() + DEADLINE
        while not happened():
            assert time.monotonic() < until, self.logs()
            time.sleep(0.05)

    @staticmethod
    def missing(wanted: str, output: str) -> list[str]:
        return [line for line in wanted.splitlines() if line not in output]

    def stop(self) -> None:
        for server in self.servers:
            server.send_signal(signal.SIGINT)
        assert [server.wait(DEADLINE) for server in self.servers] == [0] * len(self.servers), self.logs()
        self.servers.clear()

    def logs(self) -> str:
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("server*.txt")))


@contextmanager
def reader(folder: Path, postgres_url: str) -> Iterator[Reader]:
    found = Reader(folder, postgres_url)
    try:
        yield found
    finally:
        for server in found.servers:
            server.kill()
            server.wait()


def test_the_tutorial_works_as_it_is_written(tmp_path: Path, postgres_url: str) -> None:
    steps = list(STEP.finditer((ROOT / "docs" / "tutorial.md").read_text()))
    with reader(tmp_path, postgres_url) as somebody:
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            block = step["block"]
            if step["stop"]:
                somebody.stop()
            elif step["file"]:
                somebody.write(step["file"], block, add=step["how"] == "Add to")
            elif step["language"] == "sh" and not NOT_TYPED.search(block):
                if SERVER.match(block):
                    somebody.start(block.strip())
                else:
                    shows = after is not None and after["language"] == "text"
                    somebody.type(block, after["block"] if after is not None and shows else "")
        assert somebody.servers == [], "the page ends with Ctrl-C"
    assert len(somebody.typed) >= 12
