"""The test bed: a private database, oncue on it as a user starts it, and a client of its API.

Requests as bytes, encoded before any clock starts.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import apsw
import msgspec

from oncue.client import AsyncClient, ClientError
from oncue.clock import SystemClock
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant, rfc3339
from oncue_bench import http_load
from oncue_bench.http_load import Load
from oncue_bench.measures import Options, Step
from oncue_bench.measuring_tasks import TASK
from oncue_bench.notes import Noted, Notes
from oncue_bench.processes import BenchFailed, Process, Processes

ENGINES = ("sqlite", "postgres")
WORK = ("--tasks", "oncue_bench.measuring_tasks")
QUEUE = "default"
PROGRESS_TIMEOUT = Duration(60 * SECOND)  # without any progress
POLL_INTERVAL = Duration(20 * MILLISECOND)  # between two reads of the progress
SERVER_SETTINGS = {"max_wal_size": "8GB", "shared_buffers": "1GB"}  # as on a production server


class Store(msgspec.Struct, frozen=True):
    engine: str
    url: str
    version: str
    pid: int | None = None
    """Of the server, if there is one."""


class Stand:
    """What the parts work with, one after the other."""

    def __init__(self, store: Store, processes: Processes, door: Process, told: dict[str, str], folder: Path) -> None:
        self._address, self._key = told["address"], told["admin_key"]
        self.store = store
        self.processes = processes
        self.door = door
        self.client = AsyncClient(self._address, self._key, timeout=60)
        self.clock = SystemClock()
        self.later = 0  # jobs created here that are due another day
        self.noted = self.early = self.again = 0  # runs, over all parts
        self.fresh_memory: float | None = None
        self._notes = Notes(folder)

    def request(self, method: str, path: str, body: bytes = b"", idempotency_key: str = "") -> bytes:
        return http_load.request(self._address, self._key, method, f"/v1/{path}", body, idempotency_key)

    async def send(self, requests: list[bytes], connections: int) -> Load:
        """Send all requests, as fast as they are answered."""
        return self._accepted(await http_load.load(self._address, connections, lambda: iter(requests)))

    async def send_on_time(self, requests: Iterable[tuple[Instant, bytes]], connections: int) -> Load:
        return self._accepted(await http_load.paced(self._address, connections, requests, self.clock))

    def _accepted(self, load: Load) -> Load:
        if load.refused:
            raise self.processes.failure(f"the API refused requests, {load.refused} of each status: {load.refusal}")
        return load

    async def started(self, count: int, what: str, step: Step) -> Noted:
        """Return the runs that started since the last call, once there are `count` and all have their note."""
        there, since = -1, self.clock.monotonic()
        while (now_there := self._notes.count()) < count:
            step(what, now_there, count)
            self.processes.check()
            if now_there > there:
                there, since = now_there, self.clock.monotonic()
            elif self.clock.monotonic() - since > PROGRESS_TIMEOUT:
                raise self.processes.failure(f"{there} of {count} runs have started, and none for a minute")
            await self.clock.sleep(POLL_INTERVAL)
        await self.settled(step)
        noted = self.take()
        self.again += len(noted) - count
        return noted

    def take(self) -> Noted:
        """Return the runs that started since they were last taken."""
        noted = self._notes.take()
        self.noted += len(noted)
        self.early += noted.early
        return noted

    async def settled(self, step: Step) -> None:
        """Wait until nothing is left to do before tomorrow."""
        since = self.clock.monotonic()
        while await self._depth() > self.later:
            step("settling", 0, None)
            self.processes.check()
            if self.clock.monotonic() - since > PROGRESS_TIMEOUT:
                raise self.processes.failure("runs have started that do not end")
            await self.clock.sleep(Duration(5 * POLL_INTERVAL))

    async def _depth(self) -> int:
        return sum(queue.depth for queue in await self.client.queues.list() if queue.name == QUEUE)

    async def until(self, at: Instant, what: str, step: Step) -> None:
        total = at - self.clock.now()
        while (left := at - self.clock.now()) > 0:
            step(what, total - left, total)
            self.processes.check()
            await self.clock.sleep(Duration(min(left, 10 * POLL_INTERVAL)))


@asynccontextmanager
async def standing(engine: str, _: Options) -> AsyncIterator[Stand]:
    """Run `oncue up` on a private database in this block; remove everything afterwards."""
    with placed(engine) as (store, folder), Processes(store.url, folder) as processes:
        async with reached(store, processes, processes.start("up", "--port", "0", *WORK), folder) as stand:
            yield stand


@asynccontextmanager
async def reached(store: Store, processes: Processes, door: Process, folder: Path) -> AsyncIterator[Stand]:
    """Yield the stand, once this process of it accepts requests."""
    stand = Stand(store, processes, door, processes.opened(door), folder)
    try:
        async with stand.client:
            yield stand
    except (ClientError, ConnectionError) as error:
        raise processes.failure(f"`oncue {door.role}` does not answer as it should: {error}") from error


@contextmanager
def placed(engine: str, settings: Mapping[str, object] | None = None) -> Iterator[tuple[Store, Path]]:
    """Provide an empty database and a folder in this block. The settings are for a server, in addition to its own."""
    with (
        tempfile.TemporaryDirectory(prefix="oncue-bench-") as name,
        _store(engine, Path(name), settings or {}) as store,
    ):
        yield store, Path(name)


@contextmanager
def _store(engine: str, folder: Path, settings: Mapping[str, object]) -> Iterator[Store]:
    if engine == "sqlite":
        version = f"SQLite {apsw.sqlite_lib_version()}, WAL, synchronous=FULL"
        yield Store(engine, f"sqlite:///{folder}/bench.db", version)
        return
    from oncue.testing.postgres import PrivatePostgres

    with PrivatePostgres(settings={**SERVER_SETTINGS, **settings}) as server:
        version = f"{server.kind}, fsync and synchronous_commit on"
        yield Store(engine, server.create_database("bench"), version, server.pid)


def check(engines: Sequence[str]) -> None:
    """Refuse before anything starts, if an engine is missing: PostgresMissing or BenchFailed says what to do."""
    if "postgres" not in engines:
        return
    try:
        from oncue.testing.postgres import PrivatePostgres
    except ModuleNotFoundError as missing:
        raise BenchFailed("PostgreSQL needs: pip install 'oncue[postgres]'") from missing
    PrivatePostgres(settings=SERVER_SETTINGS)


# ---------------------------------------------------------------------------------------------------- requests as bytes

BATCH = 1_000
AHEAD = Duration(2 * SECOND)  # how long before their due instant jobs are created
BATCHES = 10  # a second, of a steady load


def single(stand: Stand, due: Instant) -> bytes:
    """Return a request for one job, with an idempotency key, as our clients send it."""
    return stand.request("POST", "jobs", _job(rfc3339(due)), str(uuid4()))


def single_now(stand: Stand) -> bytes:
    """Return a request for one job that is due at once."""
    return stand.request("POST", "jobs", _job("now"), str(uuid4()))


def batch(stand: Stand, jobs: Sequence[bytes]) -> bytes:
    return stand.request("POST", "jobs/batch", b'{"jobs":[' + b",".join(jobs) + b"]}")


def batches(stand: Stand, count: int, schedule: str) -> list[bytes]:
    """Return batches of `count` jobs in all, with the same schedule."""
    job = _job(schedule)
    return [batch(stand, [job] * size) for size in sizes(count)]


def batch_due(stand: Stand, dues: Sequence[Instant]) -> bytes:
    jobs = {due: _job(rfc3339(due)) for due in set(dues)}
    return batch(stand, [jobs[due] for due in dues])


def steady(first: Instant, rate: int, seconds: int) -> Iterator[tuple[Instant, list[Instant]]]:
    """Yield `rate` runs a second: when to send each batch, and when its runs are due, spread over their interval.

    In whole milliseconds, as the API represents them.
    """
    for number in range(seconds * BATCHES):
        runs = range(-(-number * rate // BATCHES), -(-(number + 1) * rate // BATCHES))
        dues = [Instant((first + n * SECOND // rate) // MILLISECOND * MILLISECOND) for n in runs]
        yield Instant(first - AHEAD + number * SECOND // BATCHES), dues


def sizes(count: int) -> Iterator[int]:
    """Yield the sizes of the batches that add up to this."""
    for start in range(0, count, BATCH):
        yield min(BATCH, count - start)


def _job(schedule: str) -> bytes:
    return b'{"task":"%s","schedule":"%s"}' % (TASK.encode(), schedule.encode())
