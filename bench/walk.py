"""Print the walk of a one-shot through the code, from HTTP to history: `python bench/walk.py [--all]`.

A job is created over HTTP (ASGI, without a socket), claimed, executed and settled on SQLite while every call of a
function of ours is recorded. The *walk* is what a reader follows: the functions that are on the stack when the job
moves, which is when a statement writes, the look-ahead reads, the task's function is called, or work is passed to
another loop or thread. Functions beside it (readers of fields, guards, views, caches) are called by a function of the
walk and return to it; `--all` lists them as well.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import apsw
import httpx2

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
from oncue.services.attempts import Execution
from oncue.services.worker_loops import WorkerLoops
from oncue.settings import Settings
from oncue.tasks import Isolation

OURS = str(Path(oncue.__file__).parent)
STEPS = {"GroupCommit.store", "Store.write", "SqliteRunning.peek", "Attempts._start", "Settling.add"}
WRITES = ("insert", "update", "delete", "with")
WARM_UP = 3  # jobs before the one that is followed: caches are filled
PATIENCE = 200  # passes until the run must have ended

Function: TypeAlias = tuple[str, str]  # its file and its name


class Walk:
    """Records calls while `on`."""

    def __init__(self) -> None:
        self.on = False
        self.every: dict[Function, None] = {}
        self.steps: dict[Function, None] = {}

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if not self.on:
            return
        if event == "call" and (function := _ours(frame.f_code)) is not None:
            self.every[function] = None
            if function[1] in STEPS:
                self.note(frame)

    def statement(self, cursor: apsw.Cursor, sql: str, given: object) -> bool:
        if self.on and sql.lstrip().startswith(WRITES):
            self.note(sys._getframe(1))
        return True

    def note(self, frame: FrameType | None) -> None:
        """Take a step: every function of ours on the stack belongs to the walk."""
        for function in reversed(list(_stack(frame))):
            self.steps[function] = None

    def table(self, everything: bool) -> Iterator[str]:
        for file, name in self.every:
            if everything or (file, name) in self.steps:
                yield f"{'*' if (file, name) in self.steps else ' '} {file:<36} {name}"

    def __str__(self) -> str:
        steps, every = self.steps, self.every
        return (
            f"{len(steps)} functions in {len({file for file, _ in steps})} files, "
            f"and {len(every)} in {len({file for file, _ in every})} with those beside it"
        )


def _ours(code: CodeType) -> Function | None:
    if not code.co_filename.startswith(OURS) or code.co_name.startswith("<"):
        return None
    return code.co_filename[len(OURS) + 1 :], code.co_qualname


def _stack(frame: FrameType | None) -> Iterator[Function]:
    while frame is not None:
        if (function := _ours(frame.f_code)) is not None:
            yield function
        frame = frame.f_back


async def main(everything: bool) -> None:
    walk, tasks, clock = Walk(), Tasks(), SystemClock()

    @tasks.task("hello")
    async def hello(ctx: Any, name: str = "you") -> str:
        if walk.on:
            walk.note(sys._getframe())
        return name

    with TemporaryDirectory() as folder:
        settings = Settings(engine=f"sqlite:///{folder}/oncue.db")
        apsw.connection_hooks.append(lambda db: db.set_exec_trace(walk.statement))
        sys.setprofile(walk.profile)
        threading.setprofile(walk.profile)  # for the thread that writes
        engine = await open_engine(settings)
        await engine.maintenance.maintain(clock.now(), Duration(365 * DAY))
        client = await signed_in(engine, clock, settings)
        loops = await worker(engine, clock, settings, tasks)
        for _ in range(WARM_UP):
            await finish(loops, await create(client), engine, walk)
        walk.on = True
        job_id = await create(client)
        walk.on = False
        created = str(walk)
        await finish(loops, job_id, engine, walk, follow=True)
        sys.setprofile(None)
        print("\n".join(walk.table(everything)))
        print(f"\ncreate: {created}\ncreate to history: {walk}")
        await client.aclose()
        await engine.close()


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


async def finish(loops: WorkerLoops, job_id: str, engine: Engine, walk: Walk, follow: bool = False) -> None:
    for _ in range(PATIENCE):
        walk.on = follow
        loops.prefetch.ask(None)
        await loops.worker.run_once()
        await loops.settling.run_once()
        await asyncio.sleep(0.005)
        walk.on = False
        run = await engine.history.run(None, RunId(UUID(job_id)))
        if run is not None and run.state.final:
            return
    raise TimeoutError(f"run {job_id} has not ended")


if __name__ == "__main__":
    asyncio.run(main("--all" in sys.argv))
