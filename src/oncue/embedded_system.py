"""The API, a scheduler and a worker in this process, for notebooks and scripts."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from random import Random
from threading import Thread
from typing import Any

import msgspec

from oncue.api.http.address import take_address
from oncue.client import AsyncClient, Client
from oncue.clock import SystemClock
from oncue.domain.ids import WorkerId, uuid7
from oncue.domain.instants import DAY, Duration
from oncue.domain.placement import Everything, Offer, Resources, show_offer
from oncue.engines import port
from oncue.engines.new_keys import new_key
from oncue.engines.port import Engine, Role
from oncue.executors.functions import LoopExecutor
from oncue.executors.http import http_task
from oncue.executors.port import Executor
from oncue.executors.threads import ThreadExecutor
from oncue.metrics.metric import Roles
from oncue.process.health import exposing
from oncue.process.parts import looping, scheduling, serving_at, store
from oncue.restarting import Supervised
from oncue.services.execution import Execution
from oncue.services.listening import Listening
from oncue.services.worker_loops import WorkerLoops
from oncue.settings import Settings
from oncue.tasks import Isolation, Task, Tasks
from oncue.tasks.clients import Clients
from oncue.tasks.lifespan import lifespans

WHO = "embedded"
LEASE = Duration(36_500 * DAY)  # no heartbeats are sent: whoever could miss them ends with the worker


@asynccontextmanager
async def running(tasks: Iterable[Iterable[Task[..., Any]]]) -> AsyncIterator[AsyncClient]:
    """See `oncue.embedded`."""
    folder = tempfile.mkdtemp(prefix="oncue-embedded-")
    system = _System(folder, tasks)
    system.start()
    try:
        url, key = await asyncio.to_thread(system.started)
        clients = Clients(None, url=url, key=key)
        async with clients.connected() as client:
            with Client(url, key) as also, ExitStack() as using:
                for one in {id(task.clients): task.clients for task in system.tasks}.values():
                    using.enter_context(one.during(also, clients))
                yield client
    finally:
        await asyncio.to_thread(system.stop)
        shutil.rmtree(folder, ignore_errors=True)


class _System:
    """Has a thread and an event loop of its own: code that blocks the caller's loop does not block it."""

    def __init__(self, folder: str, tasks: Iterable[Iterable[Task[..., Any]]]) -> None:
        self.tasks = Tasks()
        for one in tasks:
            self.tasks.include(one)
        self._settings = Settings(
            engine=f"sqlite:///{folder}/oncue.db",
            data_dir=folder,
            port=0,
            rate_limit=0,
            lease=LEASE,
            processes=Settings().threads,  # threads, too
        )
        self._clock = SystemClock()
        self._started: Future[tuple[str, str]] = Future()
        self._thread = Thread(target=self._run, name="oncue embedded", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def started(self) -> tuple[str, str]:
        """Wait until it has started; return its address and a key. What keeps it from starting is raised here."""
        return self._started.result()

    def stop(self) -> None:
        """Stop it, also while it starts: whoever waits for that may be cancelled."""
        if self._started.exception() is None:
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # whoever starts or stops it gets to know
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        settings, clock = self._settings, self._clock
        exposed = exposing(settings, clock, Roles.API, Roles.SCHEDULER, Roles.WORKER)
        with take_address(settings) as listener:
            async with (
                store(settings, clock) as engine,
                scheduling(engine, clock, settings, exposed),
                serving_at(listener, engine, clock, settings, exposed, None) as (url, complete),
                lifespans(self.tasks),
                self._working(engine),
            ):
                secret, key = await new_key(engine, clock, WHO, Role.ADMIN)
                await engine.accounts.add_key(key)
                complete.set()
                self._started.set_result((url, secret))
                await self._stopped.wait()

    @asynccontextmanager
    async def _working(self, engine: Engine) -> AsyncIterator[None]:
        clock, settings = self._clock, self._settings
        tasks = Tasks()
        tasks.include(self.tasks)
        tasks.add(http_task(settings))
        worker_id = WorkerId(uuid7(clock.now(), secrets.token_bytes(8)))
        names = frozenset(task.name for task in tasks)
        offer = Offer(names, Everything(), Everything(), Resources(10**9, 10**9, settings.concurrency))
        known = [port.Task(one.name, one.schema(), msgspec.json.encode(one.defaults), one.roles) for one in tasks]
        await engine.fleet.announce(known, clock.now())
        shown = show_offer(Offer(names, takes_all=True))
        me = port.Worker(worker_id, WHO, WHO, LEASE, clock.now(), clock.now(), info=shown)
        await engine.fleet.register(me, clock.now())
        threads = ThreadExecutor(settings.max_result_bytes)
        executors: dict[Isolation, Executor] = dict.fromkeys(Isolation, threads)
        executors[Isolation.LOOP] = LoopExecutor(settings.max_result_bytes)
        execution = Execution(tasks, executors, threads, settings.kill_grace)
        loops = WorkerLoops(engine, clock, settings, worker_id, offer, execution, chance=Random())
        listening = Supervised("hints", Listening(engine.signals, loops.concerns, worker_id).run, clock)
        try:
            async with looping(clock, *loops.loops.values()):
                yield
        finally:
            await listening.stop()
            await threads.close()
