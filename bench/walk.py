"""Print the walk of a one-shot through the code: `python bench/walk.py [--engine sqlite|postgres] [--all]`.

A job is created over HTTP (ASGI, without a socket), claimed, executed and settled while every call of a function of
ours is recorded. Three measures, each of functions and of the files that they are in:

- *spine*: what is on the stack when the job moves, which is when a statement writes, the look-ahead reads, the task's
  function is called, or work is passed to another loop or thread. A reader follows these.
- *worth opening*: four lines of code and more, also beside the spine: readers of fields, guards, views, caches.
- *entered*: every function. `--all` lists them.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import apsw
import httpx2
import msgspec

import oncue
from oncue import Tasks
from oncue.api.application import Application
from oncue.clock import SystemClock
from oncue.domain.ids import KeyId, RunId, WorkerId
from oncue.domain.instants import DAY, SECOND, Duration
from oncue.domain.keys import key_hash, make_key
from oncue.domain.placement import Offer, Resources
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Key, Role, Task, Worker
from oncue.executors.functions import LoopExecutor
from oncue.services.execution import Execution
from oncue.services.worker_loops import WorkerLoops
from oncue.settings import Settings
from oncue.tasks import Isolation
from oncue.testing.postgres import PrivatePostgres

OURS = str(Path(oncue.__file__).parent)
STEPS = {"GroupCommit.store", "Store.write", "SqliteRunning.peek", "PostgresRunning.peek", "Attempts._start"}
STEPS |= {"Settling.add"}
STATEMENTS = ("fetch", "fetchrow", "fetchval", "execute", "executemany")  # of the driver for PostgreSQL
WRITES = ("insert", "update", "delete", "with")
COMMENTS = re.compile(r"\A(\s+|--.*\n)+")
WORTH = 4  # lines of code
WARM_UP = 3  # jobs before the one that is followed: caches are filled
PATIENCE = 200  # passes until the run must have ended

Function: TypeAlias = tuple[str, str]  # its file and its name


class Measured(msgspec.Struct, frozen=True):
    """Functions, and the files that they are in."""

    functions: int
    files: int

    @classmethod
    def of(cls, found: set[Function]) -> Measured:
        return cls(len(found), len({file for file, _ in found}))

    def __str__(self) -> str:
        return f"{self.functions} in {self.files}"


class Part(msgspec.Struct):
    """A part of the walk, as it was recorded."""

    entered: dict[Function, int] = {}
    """Each function with its lines of code."""
    spine: dict[Function, None] = {}

    def measures(self) -> tuple[Measured, Measured, Measured]:
        worth = {function for function, lines in self.entered.items() if lines >= WORTH}
        return Measured.of(set(self.spine)), Measured.of(worth), Measured.of(set(self.entered))

    def __or__(self, other: Part) -> Part:
        return Part(self.entered | other.entered, self.spine | other.spine)

    def table(self, everything: bool) -> Iterator[str]:
        for file, name in self.entered:
            if everything or (file, name) in self.spine:
                yield f"{'*' if (file, name) in self.spine else ' '} {file:<36} {name}"


class Recorder:
    """Records calls into `part`, if there is one."""

    def __init__(self) -> None:
        self.part: Part | None = None

    @contextmanager
    def into(self, part: Part | None) -> Iterator[None]:
        self.part = part
        try:
            yield
        finally:
            self.part = None

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if self.part is None or event != "call":
            return
        code = frame.f_code
        if (function := _ours(code)) is not None:
            self.part.entered[function] = len({line for *_, line in code.co_lines() if line != code.co_firstlineno})
            if function[1] in STEPS:
                self.note(frame)
        elif code.co_name in STATEMENTS and _writes(frame.f_locals.get("query") or frame.f_locals.get("command")):
            self.note(frame)

    def statement(self, cursor: apsw.Cursor, sql: str, given: object) -> bool:
        if self.part is not None and _writes(sql):
            self.note(sys._getframe(1))
        return True

    def note(self, frame: FrameType | None) -> None:
        """The job moves: every function of ours on the stack belongs to the spine."""
        if self.part is not None:
            self.part.spine.update(dict.fromkeys(reversed(list(_stack(frame)))))


def _writes(sql: object) -> bool:
    return isinstance(sql, str) and COMMENTS.sub("", sql).startswith(WRITES)


def _ours(code: CodeType) -> Function | None:
    if not code.co_filename.startswith(OURS) or code.co_name.startswith("<"):
        return None
    return code.co_filename[len(OURS) + 1 :], code.co_qualname


def _stack(frame: FrameType | None) -> Iterator[Function]:
    while frame is not None:
        if (function := _ours(frame.f_code)) is not None:
            yield function
        frame = frame.f_back


async def walk(url: str) -> tuple[Part, Part]:
    """Return what creating a job enters, and what its way from the claim to history does."""
    recorder, tasks, clock = Recorder(), Tasks(), SystemClock()

    @tasks.task("hello")
    async def hello(ctx: Any, name: str = "you") -> str:
        recorder.note(sys._getframe())
        return name

    settings = Settings(engine=url)
    trace = apsw.connection_hooks
    trace.append(lambda db: db.set_exec_trace(recorder.statement))
    sys.setprofile(recorder.profile)
    threading.setprofile(recorder.profile)  # for the thread that writes
    engine = await open_engine(settings)
    try:
        await engine.maintenance.maintain(clock.now(), Duration(365 * DAY))
        client = await signed_in(engine, clock, settings)
        loops = await worker(engine, clock, settings, tasks)
        for _ in range(WARM_UP):
            await finish(loops, await create(client), engine, recorder, None)
        created, finished = Part(), Part()
        with recorder.into(created):
            job_id = await create(client)
        await finish(loops, job_id, engine, recorder, finished)
        await client.aclose()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        trace.pop()
        await engine.close()
    return created, finished


@contextmanager
def private(engine: str) -> Iterator[str]:
    """Yield the URL of an empty store."""
    if engine == "postgres":
        with PrivatePostgres(fast=True) as server:
            yield server.create_database("walk")
    else:
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/oncue.db"


def walked(engine: str) -> tuple[Part, Part]:
    with private(engine) as url:
        return asyncio.run(walk(url))


async def signed_in(engine: Engine, clock: SystemClock, settings: Settings) -> httpx2.AsyncClient:
    now, text = clock.now(), make_key(Random(1).randbytes(32))
    uid = await engine.accounts.user("ada", now)
    await engine.accounts.add_key(Key(KeyId(uuid4()), key_hash(text), uid, "ada", Role.MEMBER, now))
    app = httpx2.ASGITransport(Application(engine, clock, settings))
    return httpx2.AsyncClient(transport=app, base_url="http://oncue", headers={"Authorization": f"Bearer {text}"})


async def worker(engine: Engine, clock: SystemClock, settings: Settings, tasks: Tasks) -> WorkerLoops:
    worker_id, now, executor = WorkerId(uuid4()), clock.now(), LoopExecutor(settings.max_result_bytes)
    await engine.fleet.register(Worker(worker_id, "walk", "host", Duration(15 * SECOND), now, now), now)
    await engine.fleet.announce([Task("hello", b'{"type": "object"}')], now)
    offer = Offer(frozenset({"hello"}), frozenset({"default"}), resources=Resources(1_000, 1_000, 10))
    execution = Execution(tasks, dict.fromkeys(Isolation, executor), executor, settings.kill_grace)
    return WorkerLoops(engine, clock, settings, worker_id, offer, execution, chance=Random(1))


async def create(client: httpx2.AsyncClient) -> str:
    answer = await client.post("/v1/jobs", json={"task": "hello", "payload": {"name": "you"}})
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def finish(loops: WorkerLoops, job_id: str, engine: Engine, recorder: Recorder, part: Part | None) -> None:
    for _ in range(PATIENCE):
        with recorder.into(part):
            loops.prefetch.ask(None)
            await loops.worker.run_once()
            await loops.settling.run_once()
            await asyncio.sleep(0.005)
        run = await engine.history.run(None, RunId(UUID(job_id)))
        if run is not None and run.state.final:
            return
    raise TimeoutError(f"run {job_id} has not ended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--all", action="store_true", help="also list the functions beside the spine")
    given = parser.parse_args()
    created, finished = walked(given.engine)
    print("\n".join((created | finished).table(given.all)))
    print(f"\n{'':<18} {'spine':>12} {'worth opening':>15} {'entered':>12}")
    for name, part in (("create", created), ("claim to settled", finished), ("whole", created | finished)):
        spine, worth, entered = map(str, part.measures())
        print(f"{name:<18} {spine:>12} {worth:>15} {entered:>12}")


if __name__ == "__main__":
    main()
