"""Somebody who reads a page and does what it says, on a machine on which only the wheel is installed.

Whatever stands in a block of `sh` or behind a `$` is typed as it stands there, and so is a command in the text. Code
after "Create `file`:" is that file, after "Add to `file`:" its end; other Python goes into the file that the page names
for it. Lines of `text` must appear in the output of the commands before them; other commands must succeed. What starts
a server is typed into a terminal of its own. "press Ctrl-C" stops the servers, which must obey.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.test_docs import ROOT

from oncue.testing.postgres_binaries import find_binaries

DEADLINE = 60.0  # seconds: for whatever happens sooner or later
STEP = re.compile(
    r"(?:(?P<how>Create|Add to) `(?P<file>[\w.]+)`:\n\n)?"
    r"^ *```(?P<language>\w*)\n(?P<block>.*?)^ *```$"
    r"|`(?P<inline>(?:(?:oncue|python3?|pip|make|uvicorn|curl) |\.venv/bin/oncue)[^`\n]*)`"
    r"|(?P<stop>press Ctrl-C)",
    re.DOTALL | re.MULTILINE,
)
SERVER = re.compile(r"(?:oncue (?:dev|up|worker)\b|make (?:run|demo)|uvicorn )")
BESIDE = re.compile(r"(?:oncue worker|uvicorn) ")  # servers that take the place of no other
ROLE = re.compile(r"oncue (?:api|dev|scheduler|up|worker)")  # in the text: only its name
SAYS = {"oncue worker": "started", "uvicorn": "Uvicorn running", "make demo": "Ctrl-C"}  # others their address
BARE = re.compile(r"(?:\.venv/bin/)?oncue(?: [a-z]+)*")
LOOKING = re.compile(r"(?:export|echo|cat|curl(?! .*-[Xd] )|oncue (?:\w+ )?(?:list|problems|show|top))\b")
CONTINUED = re.compile(r" *\\\n *")
AN_ID = re.compile(r"(oncue (\w+) .*)\b84359e35\b")
RELOADED = "reload: the worker has restarted"
NOT_NEEDED = re.compile(r"oncue|\.pth$|schemathesis|xdist")  # what pytest would load takes half of the time
VENV = f"""\
[ "$1 $2" = "-m venv" ] || exec {sys.executable} "$@"
{sys.executable} "$@" --without-pip && cp "$(dirname "$0")/for_venv/pip" "$3/bin"
"""  # in a tenth of the time
PROGRAMS = {
    "python3": VENV,
    "for_venv/pip": 'exec "$(dirname "$0")/python" -m pip "$@"',
    "uvicorn": 'exec python -m uvicorn "$@"',
    "crontab": r"printf 'CRON_TZ=Europe/Berlin\n0 3 * * * /usr/local/bin/backup.sh --all\n'",
}


class Machine:
    """Has the wheel, and the packages that it needs, as an index would; but no checkout, and no network."""

    def __init__(self, folder: Path) -> None:
        self.wheels, self.packages, self.programs = folder / "wheels", folder / "packages", folder / "programs"
        self.venv = folder / "venv"

    def install(self) -> None:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
        build = ("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", self.wheels, ROOT)
        subprocess.run([*pip, *build], check=True)
        self.packages.mkdir()
        for package in Path(sysconfig.get_path("purelib")).iterdir():
            if NOT_NEEDED.search(package.name) is None:
                (self.packages / package.name).symlink_to(package)
        (self.programs / "for_venv").mkdir(parents=True)
        for name, does in PROGRAMS.items():
            (self.programs / name).write_text(f"#!/bin/sh\n{does}\n")
            (self.programs / name).chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        subprocess.run([*pip, "--python", self.venv, "install", "--no-deps", *self.wheels.iterdir()], check=True)

    def environment(self, home: Path) -> dict[str, str]:
        """As of somebody who has not installed oncue yet."""
        home.mkdir()
        (home / ".curlrc").write_text("fail-with-body\n")
        there = [one for one in os.environ["PATH"].split(":") if not Path(one, "oncue").exists()]
        return {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": ":".join(map(str, (self.programs, *there, find_binaries().folder))),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_INDEX": "1",
            "PYTHONPATH": str(self.packages),
            "SHELL": "/bin/bash",
        }


@dataclass(frozen=True)
class Page:
    """What a reader needs to know beside what the page says. All of it must occur in the page."""

    path: str
    has: Mapping[str, str] = field(default_factory=dict)  # files that a reader has before
    code: str = ""  # the file of Python that the page names no file for
    once_saved: Mapping[str, str] = field(default_factory=dict)  # commands, typed when that file has this in it
    before: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what makes a command meaningful
    shows: Mapping[str, str] = field(default_factory=dict)  # what the page says in words that a command prints
    own: Mapping[str, str] = field(default_factory=dict)  # what a reader puts in the place of these words
    not_typed: Mapping[str, str] = field(default_factory=dict)  # with the reason

    def steps(self) -> Iterator[tuple[re.Match[str], str]]:
        """Each with the output that the page shows behind it."""
        steps = list(STEP.finditer((ROOT / self.path).read_text()))
        for step, after in zip_longest(steps, steps[1:]):
            yield step, after["block"] if after is not None and after["language"] == "text" else ""


class Reader:
    def __init__(self, folder: Path, environment: Mapping[str, str], enter: Sequence[str] = ()):
        self.folder, self.environment, self._enter = folder, dict(environment), enter
        self.address = f"http://127.0.0.1:{environment.get('ONCUE_PORT', '8470')}"
        self.read: set[str] = set()  # commands, as the page has them
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self._state = folder.with_name(f"{folder.name}.state")
        self._logs = folder.with_name(f"{folder.name}.logs")
        self._logs.mkdir()
        folder.mkdir(exist_ok=True)

    def follow(self, page: Page) -> None:
        for name, text in page.has.items():
            self.write(name, text)
        for step, shown in page.steps():
            block = textwrap.dedent(step["block"] or "")
            if step["stop"]:
                self.stop()
            elif step["file"]:
                self.write(step["file"], block, add=step["how"] == "Add to")
            elif step["inline"]:
                self._mentioned(page, step["inline"])
            elif step["language"] == "sh":
                self._block(page, commands_of(block), shown)
            elif step["language"] == "console":
                for command, output in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
                    self._block(page, [command], output)
            elif step["language"] == "python" and page.code:
                self._save(page, block)
        known = {*page.once_saved, *page.before, *page.shows, *page.not_typed}
        assert known - self.read == set(), f"{page.path} has this no more"

    def _save(self, page: Page, code: str) -> None:
        self.write(page.code, code)
        for command in [command for command, has in page.once_saved.items() if has in code]:
            if SERVER.match(command):
                self.stop()  # it has the code of before
            self._do(page, command)

    def _mentioned(self, page: Page, command: str) -> None:
        """In the text, once. What needs more than its name is the name of a command, and says so."""
        if command in page.once_saved or command in self.read:
            return
        if ROLE.fullmatch(command):
            self.type([f"{command} --help"])
        elif BARE.fullmatch(command) and command not in {*page.shows, *page.not_typed}:
            code, printed = self.run(command)
            needs_more = re.search(rf"(Usage: |See `){command.removeprefix('.venv/bin/')}\b", printed)
            assert code == 0 or (code == 2 and needs_more), printed
        else:
            self._do(page, command)
        self.read.add(command)

    def _block(self, page: Page, commands: Sequence[str], shown: str) -> None:
        if shown:
            self.read.update(commands)
            self.type([self._own(page, command) for command in commands if command not in page.not_typed], shown)
        else:
            typed = [command for command in commands if command not in page.not_typed]
            assert not any(SERVER.match(command) for command in typed[:-1]), f"what follows a server waits: {typed}"
            for command in commands:
                self._do(page, command)

    def _do(self, page: Page, command: str) -> None:
        self.read.add(command)
        if command in page.not_typed:
            return
        for first in page.before.get(command, ()):
            self._do(page, first)
        own = self._own(page, command)
        if SERVER.match(own):
            self.start(own)
        else:
            self.type([own], page.shows.get(command, ""))

    def _own(self, page: Page, command: str) -> str:
        for theirs, own in page.own.items():
            command = command.replace(theirs, own)
        return AN_ID.sub(r"\1$(oncue \2 list -q | head -1)", command).replace("http://127.0.0.1:8470", self.address)

    def write(self, name: str, text: str, *, add: bool = False) -> None:
        """Save a file. `oncue dev` notices; whoever reads its lines goes on when it says that it has."""
        file, before = self.here / name, self.logs().count(RELOADED)
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{file.read_text()}\n\n{text}" if add else text)
        if name.endswith(".py") and any(command.startswith("oncue dev") for command in self.servers):
            self.look_for(lambda: self.logs().count(RELOADED) > before)

    @property
    def here(self) -> Path:
        return Path(self.environment.get("PWD", self.folder))

    def start(self, command: str) -> None:
        """Type it into a terminal of its own, and wait until it says where it is: then it takes jobs."""
        if command in self.servers:
            return
        for other in [] if BESIDE.match(command) else [one for one in self.servers if not BESIDE.match(one)]:
            self._end(other)
        log = self._logs / f"{len(list(self._logs.iterdir()))}.txt"
        with log.open("wb") as output:
            self.servers[command] = subprocess.Popen(
                self._shell(f"exec {made(command)}"),
                cwd=self.here,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        words = next((words for begin, words in SAYS.items() if command.startswith(begin)), self.address)
        self.look_for(lambda: words in log.read_text(), self.servers[command])

    def stop(self) -> None:
        for command in list(self.servers):
            self._end(command)

    def _end(self, command: str) -> None:
        server = self.servers.pop(command)
        os.killpg(server.pid, signal.SIGINT)
        code = server.wait(DEADLINE)
        assert code == 0 or not command.startswith("oncue"), f"{command}: {code}\n{self.logs()}"

    def type(self, commands: Sequence[str], wanted: str = "") -> str:
        """Type these, which show what the page says, or else, if that is nothing, succeed. Who only looks looks again
        until it is there."""
        until = time.monotonic() + DEADLINE
        while True:
            ran = [self._look(command, until) if len(commands) > 1 else self.run(command) for command in commands]
            output = "".join(printed for _, printed in ran)
            missing = [line for line in wanted.splitlines() if line not in output]
            if not missing if wanted else not any(code for code, _ in ran):
                return output
            told = "\n".join((*commands, output, *missing, self.logs()))
            assert wanted, told
            assert all(LOOKING.match(command) for command in commands), told
            assert time.monotonic() < until, told

    def _look(self, command: str, until: float) -> tuple[int, str]:
        while True:
            code, printed = self.run(command)
            if code == 0 or not LOOKING.match(command) or time.monotonic() > until:
                return code, printed

    def run(self, command: str) -> tuple[int, str]:
        """Type it into the terminal, whose folder and variables stay as it leaves them."""
        state = self._state
        keep = f"trap 'set -- $?; env -0 >{state}; exit $1' EXIT"
        ran = subprocess.run(
            self._shell(f"set -a -o pipefail\n{keep}\n{command}"),
            cwd=self.here,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        self.environment = dict(one.split("=", 1) for one in state.read_text().split("\0") if one)
        return ran.returncode, ran.stdout

    def _shell(self, script: str) -> list[str]:
        return [*self._enter, "bash", "-c", script]

    def look_for(self, happened: Callable[[], Any], server: subprocess.Popen[bytes] | None = None) -> None:
        until = time.monotonic() + DEADLINE
        while not happened():
            assert server is None or server.poll() is None, self.logs()
            assert time.monotonic() < until, self.logs()
            time.sleep(0.05)

    def logs(self) -> str:
        return "\n".join(file.read_text() for file in sorted(self._logs.iterdir()))

    def leave(self) -> None:
        for server in self.servers.values():
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def commands_of(block: str) -> list[str]:
    """Without the comments behind them."""
    lines = (re.sub(r"\s+# .*$", "", line).strip() for line in CONTINUED.sub(" ", block).splitlines())
    return [line for line in lines if line]


def made(command: str) -> str:
    """What `make` runs, once all is installed; other commands as they are."""
    called = re.fullmatch(r"make (\w+)(?: ARGS=\"(.*)\")?", command)
    if called is None:
        return command
    found = re.search(rf"^{called[1]}:.*\n\t@(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].replace("$(ARGS)", called[2] or "")
