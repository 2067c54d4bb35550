"""Two projects on one machine, each with its server, and a current context that points elsewhere: who reaches whom."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import pytest
from tests.cli.standin import Standin, standing_in
from tests.cli.terminal import ONCUE, on_a_terminal
from tests.examples.server import EXAMPLES, PATIENCE

from oncue.client import Client

OURS = ("ONCUE_URL", "ONCUE_API_KEY", "ONCUE_DATA_DIR", "ONCUE_CONTEXT", "ONCUE_CONFIG", "ONCUE_ENGINE")
MISSING = "API key missing. Send the header Authorization: Bearer <key>."  # what the API says
PROGRAM = """
import asyncio
import oncue
from oncue.client import AsyncClient, Client

tasks = oncue.Tasks()

@tasks.task
async def hello(name: str = "world") -> None: ...

async def waiting() -> None:
    async with AsyncClient() as client:
        await client.jobs.create(task="hello", name="{name} by AsyncClient")

with Client() as client:
    client.jobs.create(task="hello", name="{name} by Client")
asyncio.run(waiting())
hello.using(name="{name} by a handle").sync.enqueue()
"""


class Project:
    """A folder in which somebody has started `oncue up`."""

    def __init__(self, folder: Path, data_dir: str, home: Path) -> None:
        self.folder, self.data_dir = folder, folder / data_dir
        self.environment = {name: value for name, value in os.environ.items() if name not in OURS}
        self.environment |= {"XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
        self.address = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self, port: str = "0") -> None:
        arguments = [ONCUE, "up", "--tasks", EXAMPLES / "tasks.py", "--port", port]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                arguments, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if readable else ""
        assert line.startswith("oncue listens at "), (self.folder / "log").read_text()
        self.address = line.split()[-1]
        until = time.monotonic() + PATIENCE
        with self.client() as client:
            while not client.tasks.list():
                assert time.monotonic() < until, "no worker came"
                time.sleep(0.02)

    def stop(self, how: int = signal.SIGINT) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.communicate(timeout=PATIENCE)
            self.process = None

    def client(self) -> Client:
        return Client(self.address, (self.data_dir / "admin.key").read_text().strip(), timeout=PATIENCE)

    def run(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        said = {**self.environment, **environment}
        return subprocess.run(arguments, cwd=self.folder, env=said, capture_output=True, text=True, timeout=60)

    def oncue(self, *arguments: str, **environment: str) -> str:
        ended = self.run(ONCUE, *arguments, **environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def jobs(self) -> set[str | None]:
        with self.client() as client:
            return {job.name for job in client.jobs.list()}


@contextmanager
def project(folder: Path, data_dir: str, home: Path) -> Iterator[Project]:
    folder.mkdir()
    if data_dir != ".oncue":
        (folder / "oncue.toml").write_text(f'data_dir = "${{WHERE}}{data_dir}"\n')
    made = Project(folder, data_dir, home)
    made.environment["WHERE"] = ""
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[list[Project]]:
    """One as oncue comes, and one whose oncue.toml names its data directory."""
    where = tmp_path_factory.mktemp("projects")
    with ExitStack() as stack:
        folders = {"first": ".oncue", "second": ".oncue-shop"}
        yield [stack.enter_context(project(where / name, data, home)) for name, data in folders.items()]


@pytest.fixture
def prod(home: Path) -> Iterator[Standin]:
    """Somewhere else, which is the current context. It takes every job."""
    made = {"job_id": "01990000-0000-7000-8000-0000000000c1", "task": "hello", "status": "active"}
    me = {"user_id": "ada", "role": "admin", "key_id": made["job_id"]}
    answers = {"me": me, "tasks": {"tasks": []}, "openapi.json": {"info": {"version": "0"}}}
    with standing_in(Standin(lambda request: (200, answers.get(request.path.rpartition("/")[2], made)))) as server:
        (home / "oncue").mkdir(exist_ok=True)
        (home / "oncue" / "config.toml").write_text(
            f'current = "prod"\n[contexts.prod]\nurl = "{server.url}"\nkey = "oc_prod"\n'
        )
        yield server


def test_commands_and_programs_reach_the_server_of_their_folder(projects: list[Project], prod: Standin) -> None:
    for one in projects:
        name = one.folder.name
        one.oncue("jobs", "create", "--task", "hello", "--name", f"{name} by command")
        ended = one.run(sys.executable, "-c", PROGRAM.format(name=name))
        assert ended.returncode == 0, ended.stderr
        doctor = {check["check"]: check["seen"] for check in json.loads(one.run(ONCUE, "doctor", "--json").stdout)}
        assert doctor["server"] == f"{one.address} runs in this folder"
        assert one.data_dir.name in doctor["data directory"]
        assert one.oncue("jobs", "list", "-q", ONCUE_URL=one.address.replace("127.0.0.1", "localhost"))

    assert [one.jobs() for one in projects] == [
        {f"{name} by {what}" for what in ("command", "Client", "AsyncClient", "a handle")}
        for name in ("first", "second")
    ]
    assert prod.requests == []


def test_what_is_named_goes_first(projects: list[Project], prod: Standin) -> None:
    one, other = projects
    create = ("jobs", "create", "--task", "hello", "--name")

    [named] = json.loads(one.run(ONCUE, "doctor", "--json", "--context", "prod").stdout)[:1]
    assert named["seen"].startswith(f"{prod.url} (context prod) answered in ")
    prod.requests.clear()
    one.oncue(*create, "by option", "--context", "prod")
    one.oncue(*create, "by variable", ONCUE_CONTEXT="prod")
    assert one.run(sys.executable, "-c", PROGRAM.format(name="named"), ONCUE_CONTEXT="prod").returncode == 0
    assert {request.headers["Authorization"] for request in prod.requests} == {"Bearer oc_prod"}
    assert len(prod.requests) == 5
    refused = one.run(ONCUE, *create, "with the key of another", "--url", other.address)
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (1, "API key missing.")
    key = (other.data_dir / "admin.key").read_text().strip()
    one.oncue(*create, "by address", ONCUE_URL=other.address, ONCUE_API_KEY=key)

    assert "by address" in other.jobs()
    assert not {"by option", "by variable", "by address", "named by Client"} & one.jobs()


def test_a_server_that_is_gone_is_not_taken_for_one_that_has_its_port(
    tmp_path: Path, home: Path, prod: Standin
) -> None:
    with project(tmp_path / "gone", ".oncue", home) as one:
        [file] = one.data_dir.glob("address.*")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        one.stop(signal.SIGKILL)
        assert one.run(ONCUE, "jobs", "create", "--task", "hello").returncode == 0
        assert prod.lines == ["POST /v1/jobs"], "the current context is next"
        refused = one.run(sys.executable, "-c", PROGRAM.format(name="x"))
        assert "programs use a context only by name: set ONCUE_CONTEXT=prod" in refused.stderr

        (home / "oncue" / "config.toml").unlink()
        none = one.run(ONCUE, "jobs", "create", "--task", "hello")
        assert (none.returncode, f"No server at {one.address}. Start one with" in none.stderr) == (3, True)
        port = int(one.address.rpartition(":")[2])
        with taking(port) as another:
            said = one.run(ONCUE, "jobs", "list")
            assert (said.returncode, f"the one at {one.address} is another" in said.stderr) == (3, True)
            said = one.run(sys.executable, "-c", PROGRAM.format(name="x"))
            assert f"the server of this folder (data directory {one.data_dir}) does not run here" in said.stderr
            assert another.requests == [], "what was not meant for it does not reach it"
            said = one.run(ONCUE, "jobs", "list", "--url", one.address)
            assert said.stderr.startswith("API key missing.\nSign in with `oncue login URL`")
            assert [request.headers.get("Authorization") for request in another.requests] == [None]

        one.start()
        assert [found.read_text().splitlines()[0] for found in one.data_dir.glob("address.*")] == [one.address]
        one.oncue("jobs", "list")


def test_a_program_is_not_refused_while_its_server_restarts(
    projects: list[Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither at the end nor at the beginning does the server answer when it is not known to run."""
    one = projects[1]
    monkeypatch.chdir(one.folder)
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WHERE", "")
    ended = Event()

    def ask() -> int:
        asked = 0
        with Client(one.address, retries=100, retry_for=PATIENCE) as client:
            while not ended.is_set():
                client.jobs.page(limit=1)
                asked += 1
        return asked

    with ThreadPoolExecutor() as threads:
        asking = threads.submit(ask)
        try:
            one.stop()
            one.start(one.address.rpartition(":")[2])
        finally:
            ended.set()
        assert asking.result() > 1


@contextmanager
def taking(port: int) -> Iterator[Standin]:
    """Another project's server, which has got this port."""
    other = Standin(lambda request: (401, {"title": "Unauthorized", "detail": MISSING}))
    with standing_in(other, port) as server:
        yield server


def test_a_terminal_says_where_changes_go_unless_to_the_folders_own_server(
    projects: list[Project], prod: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = projects
    monkeypatch.chdir(one.folder)
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    create = ("jobs", "create", "--task", "hello")

    def said(*arguments: str, **environment: str) -> str:
        return on_a_terminal(*arguments, **{**one.environment, **environment})

    first, second = said(*create), said(*create)
    assert f"commands use its own server, {one.address}, and not the current context prod" in " ".join(first.split())
    assert "context" not in second
    assert one.run(ONCUE, "context", "use", "prod").returncode == 0
    assert "not the current context prod" in " ".join(said(*create).split()), "chosen again, so said again"
    assert "Server:" not in first + second
    assert f"Server: {prod.url} (context prod)" in said(*create, "--context", "prod")
    assert f"Server: {prod.url} (context prod)" in said(*create, ONCUE_CONTEXT="prod")
    key = (other.data_dir / "admin.key").read_text().strip()
    named = {"ONCUE_URL": other.address, "ONCUE_API_KEY": key}
    assert f"Server: {other.address}" in said(*create, **named)
    assert "Server:" not in said("jobs", "list", **named)
    said(*create, "--schedule", "in 1h", **named)
    asked = said("jobs", "cancel", "--all", "--status", "active", typed="n\n", ends=1, **named)
    assert 0 <= asked.find(f"Server: {other.address}") < asked.find("Cancel 1 job")
    assert one.run(ONCUE, *create, "--context", "prod").stderr == ""
