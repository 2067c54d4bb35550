"""Where measuring takes place: a store of our own, `oncue up` on it as a user starts it, and the way to its API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import apsw
import msgspec

from oncue.bench import http_load
from oncue.bench.http_load import Load
from oncue.bench.measures import Step
from oncue.bench.notes import ENVIRONMENT, Noted, Notes
from oncue.client import AsyncClient, ClientError
from oncue.clock import SystemClock
from oncue.domain.errors import OncueError
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant

ENGINES = ("sqlite", "postgres")
TASKS = "oncue.bench.measuring_tasks"
QUEUE = "default"
PATIENCE = Duration(60 * SECOND)  # without any progress
GLANCE = Duration(20 * MILLISECOND)  # between two looks at how far it is
LAST_WORDS = 2_000  # characters of what a process said that are worth showing
SERVER_SETTINGS = {"max_wal_size": "8GB", "shared_buffers": "1GB"}  # as a server that is meant to work has them


class BenchFailed(OncueError):
    """There is nothing to measure; the message ends with what the processes said."""


class Store(msgspec.Struct, frozen=True):
    engine: str
    url: str
    version: str


class Up:
    """A running `oncue up`, in a session of its own: Ctrl-C is for us, and we end it."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._said = folder / "said.txt"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "oncue", "up", "--json", "--port", "0", "--tasks", TASKS),
                    *("--engine", store.url, "--data-dir", str(folder)),
                ],
                env=os.environ | {ENVIRONMENT: str(folder)},
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def opened(self) -> dict[str, str]:
        """What it says when jobs of its tasks are taken: its address, and the key of an administrator."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self.failure("`oncue up` did not start")
        told: dict[str, str] = json.loads(line)
        return told

    def check(self) -> None:
        if self._process.poll() is not None:
            raise self.failure(f"`oncue up` ended with code {self._process.returncode}")

    def failure(self, what: str) -> BenchFailed:
        said = self._said.read_text(errors="replace")[-LAST_WORDS:].strip()
        return BenchFailed(f"{what}. It said:\n{said or '(nothing)'}")

    def end(self) -> None:
        """Asked to finish, then to stop at once, then killed: gone in any case, and its worker with it."""
        with self._process:
            for ask in (self._process.terminate, self._process.terminate, self._process.kill):
                ask()
                try:
                    self._process.wait(10)
                except subprocess.TimeoutExpired:
                    continue
                return


class Stand:
    """What the parts work with, one after the other."""

    def __init__(self, store: Store, up: Up, address: str, key: str, notes: Notes, client: AsyncClient) -> None:
        self.store = store
        self.up = up
        self.client = client
        self.clock = SystemClock()
        self.later = 0  # jobs made here that are due another day
        self.noted = self.early = self.again = 0  # runs, over all parts
        self.fresh_memory: float | None = None
        self._address = address
        self._key = key
        self._notes = notes

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        return http_load.request(self._address, self._key, method, f"/v1/{path}", body)

    async def send(self, requests: list[bytes], connections: int) -> Load:
        """All of them, as fast as they are answered."""
        return self._accepted(await http_load.load(self._address, connections, lambda: iter(requests)))

    async def send_on_time(self, requests: list[tuple[Instant, bytes]], connections: int) -> Load:
        return self._accepted(await http_load.paced(self._address, connections, requests, self.clock))

    def _accepted(self, load: Load) -> Load:
        refused = {status: count for status, count in load.statuses.items() if status >= 300}
        if refused:
            raise self.up.failure(f"the API refused requests, {refused} of each status: {load.refusal}")
        return load

    async def started(self, count: int, what: str, step: Step) -> Noted:
        """The runs that started since this was last asked, once there are so many and all of them are written down."""
        there, since = -1, self.clock.monotonic()
        while (now_there := self._notes.count()) < count:
            step(what, now_there, count)
            self.up.check()
            if now_there > there:
                there, since = now_there, self.clock.monotonic()
            elif self.clock.monotonic() - since > PATIENCE:
                raise self.up.failure(f"{there} of {count} runs have started, and none for a minute")
            await self.clock.sleep(GLANCE)
        await self.settled(step)
        noted = self.take()
        self.again += len(noted) - count
        return noted

    def take(self) -> Noted:
        """The runs that started since they were last taken."""
        noted = self._notes.take()
        self.noted += len(noted)
        self.early += noted.early
        return noted

    async def settled(self, step: Step) -> None:
        """Until nothing is left to do before tomorrow."""
        since = self.clock.monotonic()
        while await self._depth() > self.later:
            step("settling", 0, None)
            self.up.check()
            if self.clock.monotonic() - since > PATIENCE:
                raise self.up.failure("runs have started that do not end")
            await self.clock.sleep(Duration(5 * GLANCE))

    async def _depth(self) -> int:
        return sum(queue.depth for queue in await self.client.queues.list() if queue.name == QUEUE)

    async def until(self, at: Instant, what: str, step: Step) -> None:
        total = at - self.clock.now()
        while (left := at - self.clock.now()) > 0:
            step(what, total - left, total)
            self.up.check()
            await self.clock.sleep(Duration(min(left, 10 * GLANCE)))


@asynccontextmanager
async def standing(engine: str) -> AsyncIterator[Stand]:
    """Everything in this block; nothing of it afterwards."""
    with tempfile.TemporaryDirectory(prefix="oncue-bench-") as name:
        folder = Path(name)
        with _store(engine, folder) as store, _up(store, folder) as up:
            told = up.opened()
            address, key = told["address"], told["admin_key"]
            try:
                async with AsyncClient(address, key, timeout=60) as client:
                    yield Stand(store, up, address, key, Notes(folder), client)
            except (ClientError, ConnectionError) as error:
                raise up.failure(f"`oncue up` does not answer as it should: {error}") from error


@contextmanager
def _up(store: Store, folder: Path) -> Iterator[Up]:
    up = Up(store, folder)
    try:
        yield up
    finally:
        up.end()


@contextmanager
def _store(engine: str, folder: Path) -> Iterator[Store]:
    if engine == "sqlite":
        version = f"SQLite {apsw.sqlite_lib_version()}, WAL, synchronous=FULL"
        yield Store(engine, f"sqlite:///{folder}/bench.db", version)
        return
    from oncue.testing.postgres import PrivatePostgres

    with PrivatePostgres(settings=SERVER_SETTINGS) as server:
        version = f"{server.kind}, fsync and synchronous_commit on"
        yield Store(engine, server.create_database("bench"), version)


def check(engines: Sequence[str]) -> None:
    """Refuse before anything is started, if one of them cannot be: PostgresMissing or BenchFailed says what to do."""
    if "postgres" not in engines:
        return
    try:
        from oncue.testing.postgres import PrivatePostgres
    except ModuleNotFoundError as missing:
        raise BenchFailed("PostgreSQL needs: pip install 'oncue[postgres]'") from missing
    PrivatePostgres(settings=SERVER_SETTINGS)
