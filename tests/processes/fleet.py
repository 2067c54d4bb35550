"""oncue as real processes: started as a user would, watched from outside, killed, and gone at the end.

Every process that descends from a fleet carries its mark in the environment; commands get it with their payload. So
whoever is left is found in /proc, whatever session or parent it has by then.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

ONCUE = Path(sys.executable).with_name("oncue")
COMMAND = (sys.executable, "-m", "oncue")  # the same program, also with the code of another release
TASKS = Path(__file__).with_name("tasks.py")
FINAL = {"succeeded", "dead", "cancelled", "expired"}
MARK = "FLEET_OF_ONCUE_TESTS"
LONG = os.environ.get("ONCUE_TEST_PROCESSES") == "long"  # more kills, races and load than every day
only_in_the_long_version = pytest.mark.skipif(not LONG, reason="ONCUE_TEST_PROCESSES=long has it")
DEADLINE = 60.0  # seconds: for whatever happens sooner or later. No machine is so busy that a healthy oncue needs it.

MISSED = ("The database lost what this worker had written", "This worker does not own a run any more")

T = TypeVar("T")
Json = dict[str, Any]


class Member:
    """One `oncue` process as a user starts it. A worker's, and that of `up`, keeps another, where tasks run."""

    def __init__(self, role: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.role = role
        self.process = process
        self.pid = process.pid
        self._log = log

    @property
    def inner(self) -> int | None:
        """The process it keeps at this moment."""
        for pid in children_of(self.pid):
            if b"oncue.app\0worker" in read_proc(pid, "cmdline"):
                return pid
        return None

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended(self, within: float = DEADLINE) -> int:
        """Its exit code."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.role} did not end within {within} s:\n{self.said[-3_000:]}") from None


class Witness:
    """What the tasks write down; each line is read once."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._read = 0
        self._events: list[Json] = []
        file.touch()

    def read(self) -> list[Json]:
        with self.file.open("rb") as lines:
            lines.seek(self._read)
            new = lines.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        self._events += map(json.loads, whole.splitlines())
        return self._events


class Fleet:
    def __init__(self, folder: Path, engine: str | None = None) -> None:
        self.folder = folder
        self.engine = engine or f"sqlite:///{folder / 'oncue.db'}"
        self.members: list[Member] = []
        self.mark = secrets.token_hex(8)
        self.port = free_port()
        self.code: Path | None = None  # where another version's package lies, for those that are started next
        self._witness = Witness(folder / "witness.jsonl")
        self._key: str | None = None

    # ------------------------------------------------------------------------------------------------------- processes

    def start(
        self,
        role: str,
        *options: str,
        tasks: Path = TASKS,
        stderr: int | None = None,
        env: dict[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Member:
        """`under` is a program that starts it, with its options."""
        argv = [*under, *COMMAND, role, "--engine", self.engine, "--data-dir", str(self.folder)]
        if role in ("up", "worker"):
            argv += ["--tasks", str(tasks)]
        if role in ("up", "api"):
            argv += ["--port", str(self.port)]
        log = self.folder / f"{len(self.members)}-{role}.log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*argv, *options],
                env={**os.environ, **self.environment, **self._version, "PYTHONUNBUFFERED": "1", **(env or {})},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said if stderr is None else stderr,
                start_new_session=True,
            )
        member = Member(role, process, log)
        self.members.append(member)
        return member

    @property
    def environment(self) -> dict[str, str]:
        """What marks a process as one of ours; for the payload of commands, which inherit next to nothing."""
        return {MARK: self.mark, "WITNESS": str(self._witness.file)}

    @property
    def _version(self) -> dict[str, str]:
        return {} if self.code is None else {"PYTHONPATH": str(self.code)}

    def of(self, code: Path | None) -> Fleet:
        """The same fleet, with members of another version, and an API of that version at a port of its own."""
        other = copy(self)
        other.code, other.port = code, free_port()
        return other

    def up(self, *options: str) -> Member:
        """`oncue up`, ready, with its tasks announced."""
        member = self.start("up", *options)
        self.ready(workers=1)
        return member

    def deploy(self, *options: str, workers: int = 1) -> list[Member]:
        """As users run each engine: `oncue up` and further workers on a file, the roles apart on a server.

        Returned: the members that run tasks, alike in their options.
        """
        if self.engine.startswith("sqlite"):
            able = [self.start("up", *options)]
        else:
            self.start("api")
            self.start("scheduler")
            able = [self.start("worker", *options)]
        able += [self.start("worker", *options) for _ in range(workers - 1)]
        self.ready(workers=workers)
        return able

    def ready(self, *, workers: int) -> None:
        """The API answers, and so many workers are registered."""
        until(lambda: self.raw("GET", "/readyz")[0] == 200, "the API is ready", self.tell)
        until(lambda: len(self.workers()) >= workers, f"{workers} workers are registered", self.tell)

    def processes(self) -> dict[int, str]:
        """All that live and carry our mark, with their command lines."""
        wanted = f"{MARK}={self.mark}".encode()
        alive = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and wanted in read_proc(int(entry.name), "environ").split(b"\0"):
                pid = int(entry.name)
                alive[pid] = read_proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")
        return alive

    def running(self, words: str) -> list[int]:
        """Processes of ours whose command line has these words in it."""
        return [pid for pid, line in self.processes().items() if words in line]

    def tell(self) -> str:
        """What the members said, for whoever has to find out why a test failed."""
        return "\n".join(f"--- {m.role} {m.pid} ({m.process.poll()})\n{m.said[-1_500:]}" for m in self.members[-12:])

    def check_holdings(self) -> None:
        """Each worker compares every five seconds what the store has under its name with what it knows, and says what
        was missing on either side: nothing, as long as no server forgets what it has committed.
        """
        missed = [line for member in self.members for line in member.said.splitlines() if any(map(line.count, MISSED))]
        assert missed == []

    def close(self) -> None:
        """Kill the members, and only them: whatever else is left afterwards has outlived its parents."""
        for member in self.members:
            member.kill()
        try:
            until(lambda: not self.processes(), "nothing is left running", lambda: str(self.processes()))
        finally:
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # ------------------------------------------------------------------------------------------------------------- API

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = 30,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Json, http.client.HTTPMessage]:
        """Status, answer and headers. Status 0: nobody listens."""
        status, answer, told = self._asked(method, path, body, timeout, headers)
        return status, json.loads(answer or b"null"), told

    def text(self, path: str) -> str:
        status, answer, _ = self._asked("GET", "/v1" + path, None, 30)
        assert status == 200, (path, status, answer)
        return answer.decode()

    def _asked(
        self, method: str, path: str, body: Any, timeout: float, more: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(more or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        except ConnectionError:
            return 0, b"", http.client.HTTPMessage()
        finally:
            connection.close()

    @property
    def key(self) -> str:
        if self._key is None and (self.folder / "admin.key").exists():
            self._key = (self.folder / "admin.key").read_text().strip() or None
        return self._key or ""

    def as_user(self, user: str) -> Fleet:
        """The same fleet, with the key of a member of that name."""
        argv = [*COMMAND, "keys", "create", "--engine", self.engine, "--data-dir", str(self.folder), "--init"]
        made = subprocess.run([*argv, "--user", user, "--role", "member", "--json"], capture_output=True, check=True)
        other = copy(self)
        other._key = json.loads(made.stdout)["key"]
        return other

    def call(self, method: str, path: str, body: Any = None) -> Json:
        """The answer; anything but success fails the test."""
        status, answer, _ = self.raw(method, "/v1" + path, body)
        assert 200 <= status < 300, (method, path, body, status, answer)
        return answer

    def batch(self, jobs: list[Json]) -> list[str]:
        """The ids of jobs that are made in one go, however slow the machine is."""
        made: list[str] = self.call("POST", "/jobs/batch", {"jobs": jobs})["job_ids"]
        return made

    def create(self, task: str, payload: Json | None = None, **job: Any) -> str:
        """The id of a job; a one-shot's run has the same."""
        job_id: str = self.call("POST", "/jobs", {"task": task, "payload": payload or {}, **job})["job_id"]
        return job_id

    def command(self, *argv: str, **job: Any) -> str:
        return self.create("command", {"argv": argv, "env": self.environment}, **job)

    def run(self, run_id: str) -> Json:
        return self.call("GET", f"/runs/{run_id}")

    def runs_of(self, job_id: str) -> list[Json]:
        return self._pages(f"/jobs/{job_id}/runs")

    def all_runs(self) -> dict[str, Json]:
        """By their ids."""
        return {run["run_id"]: run for run in self._pages("/runs")}

    def _pages(self, path: str) -> list[Json]:
        found: list[Json] = []
        token = ""
        while True:
            page = self.call("GET", f"{path}?limit=1000{token}")
            found += page["runs"]
            if not page["next_page_token"]:
                return found
            token = f"&page_token={page['next_page_token']}"

    def workers(self) -> list[Json]:
        status, answer, _ = self.raw("GET", "/v1/workers")
        return answer["workers"] if status == 200 else []

    def at_rest(self, run_ids: Iterable[str], within: float = DEADLINE) -> dict[str, Json]:
        """These runs, once all of them are final."""
        done: dict[str, Json] = {}
        left = list(run_ids)

        def look() -> bool:
            """Asks for one after the other, so that waiting for many does not keep the API busy."""
            while left and (run := self.run(left[-1]))["status"] in FINAL:
                done[left.pop()] = run
            return not left

        until(look, "all runs have ended", lambda: f"{[self.run(r) for r in left[-5:]]}\n{self.tell()}", within)
        return done

    # --------------------------------------------------------------------------------------------------------- witness

    def events(self, kind: str | None = None, run: str | None = None) -> list[Json]:
        """What the tasks wrote down, in that order."""
        return [e for e in self._witness.read() if kind in (None, e["kind"]) and run in (None, e["run"])]

    def started(self, *run_ids: str, within: float = DEADLINE) -> list[Json]:
        """The first start of each, once all have started."""
        seen: dict[str, Json] = {}

        def look() -> bool:
            for event in self.events("start"):
                seen.setdefault(event["run"], event)
            return set(run_ids) <= seen.keys()

        until(look, "they have started", lambda: f"missing {set(run_ids) - seen.keys()}\n{self.tell()}", within)
        return [seen[run_id] for run_id in run_ids]


# ---------------------------------------------------------------------------------------------------------- the machine


def until(condition: Callable[[], T], what: str, tell: Callable[[], str] = str, within: float = DEADLINE) -> T:
    """Wait for something to become true. It fails the test when it does not within this many seconds."""
    end = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {within} s: {what}\n{tell()}")
        time.sleep(0.05)
    return found


def alive(pid: int) -> bool:
    """It runs, or could: neither gone nor a zombie."""
    return read_proc(pid, "environ") != b""


def children_of(pid: int) -> list[int]:
    return [int(child) for child in read_proc(pid, f"task/{pid}/children").split()]


def read_proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def free_port() -> int:
    """Below those that the system gives to callers: one of these could be taken again before our API has it."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
