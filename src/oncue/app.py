"""The composition root: settings → engine → services. The only module that imports all of them.

Each role is a function that runs until a stop signal; `up` runs all of them. A worker is two processes: a supervisor,
here, and the process it starts as `python -m oncue.app worker`, where user code runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import structlog

from oncue import collecting, logs, open_files, systemd
from oncue.api.serving import take_address
from oncue.clock import SystemClock
from oncue.domain.errors import OncueError, StoreUnavailable
from oncue.domain.instants import SECOND, show_duration
from oncue.engines.new_keys import new_key
from oncue.engines.open import absolute_url, open_engine
from oncue.engines.port import Engine, Hint, Key, Role, Topic
from oncue.executors.families import end_descendants
from oncue.executors.loading import absolute
from oncue.executors.parentage import die_with
from oncue.lifecycle import Started, started, started_with_worker
from oncue.services.channel import Channel, Start, ToWorker, Unusable
from oncue.services.doctor import log_problems
from oncue.services.finishing import Finishing
from oncue.services.first_key import first_key
from oncue.services.listening import Listening
from oncue.services.loop import Loop
from oncue.services.membership import Membership
from oncue.services.orphans import Orphans
from oncue.services.overlap import Overlap
from oncue.services.rate_limiter import Nudge, RateLimiter
from oncue.services.reaper import Reaper
from oncue.services.retention import CounterRollup, Retention
from oncue.services.scheduler import Scheduler
from oncue.services.self_audit import SelfAudit
from oncue.services.supervisor import UNUSABLE, SupervisedWorker, WorkerSupervisor
from oncue.services.timekeeper import Timekeeper
from oncue.settings import Settings
from oncue.supervised import Supervised
from oncue.tracing.open import open_tracing
from oncue.tracing.port import Tracing

STOP_TIMEOUT = 5.0  # seconds for a service to finish its current pass

# Connections of each role beside its hot path, unless the setting says otherwise. An API has the engine's default.
SCHEDULER_POOL = 3
WORKER_POOL = 2
SUPERVISOR_POOL = 1

Ready = Callable[[Started, str | None], None]  # gets what has started, and the admin key if this start created it

log = structlog.get_logger()


class Stopping:
    """Handles SIGTERM and Ctrl-C: the first signal asks to finish, the second to stop at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.about: Callable[[], dict[str, object]] = dict  # more to log when a signal comes
        self._acts: list[Callable[[], None]] = [systemd.stopping]
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.ask, number)

    def then(self, act: Callable[[], None]) -> None:
        self._acts.append(act)
        if self.asked.is_set():
            act()

    def ask(self, number: signal.Signals) -> None:
        log.info("Stopping", kind="stopping", signal=number.name, at_once=self.asked.is_set(), **self.about())
        self.asked.set()
        for act in self._acts:
            act()


# ------------------------------------------------------------------------------------------------------------ the roles


async def up(settings: Settings, ready: Ready) -> int:
    """Run the API and a scheduler in this process, and supervise a worker process."""
    stopping = Stopping()
    clock, of_worker = SystemClock(), for_worker(settings)
    with take_address(settings) as listener:
        async with (
            reaping(clock, settings),
            worker_started(clock, of_worker) as first,
            tracing(settings, clock, "up") as spans,
            store(pooled(settings, SCHEDULER_POOL), clock) as engine,
            membership(engine, clock, "up"),
        ):
            supervisor = WorkerSupervisor(engine, clock, of_worker, first)
            async with (
                supervising(supervisor, stopping, of_worker) as working,
                opened(settings) as of_api,  # its own connections, so that API and scheduler never wait for each other
                scheduling(engine, clock, settings, spans),
                serving_at(listener, of_api, clock, settings, spans) as (at, complete),
            ):
                await first_of(supervisor.working.wait(), working)
                if supervisor.working.is_set():
                    key = await first_key(engine, clock, Path(settings.data_dir))
                    collecting.settle()
                    complete.set()
                    ready(started_with_worker(started(engine, settings, at), of_worker, supervisor.tasks), key)
                    systemd.ready(clock)
                    await log_problems(engine, settings, SystemClock())
                await working
    return ended(supervisor)


async def api(settings: Settings, ready: Ready) -> int:
    stopping, clock = Stopping(), SystemClock()
    with take_address(settings) as listener:
        async with (
            reaping(clock, settings),
            tracing(settings, clock, "api") as spans,
            store(settings, clock) as engine,
            timekeeping(engine, clock),
            membership(engine, clock, "api"),
            serving_at(listener, engine, clock, settings, spans) as (at, complete),
        ):
            key = await first_key(engine, clock, Path(settings.data_dir))
            collecting.settle()
            complete.set()
            ready(started(engine, settings, at), key)
            systemd.ready(clock)
            await stopping.asked.wait()
    return 0


async def scheduler(settings: Settings, ready: Ready) -> int:
    stopping, clock = Stopping(), SystemClock()
    async with (
        reaping(clock, settings),
        tracing(settings, clock, "scheduler") as spans,
        store(pooled(settings, SCHEDULER_POOL), clock) as engine,
        membership(engine, clock, "scheduler"),
        scheduling(engine, clock, settings, spans),
    ):
        collecting.settle()
        ready(started(engine, settings), None)
        systemd.ready(clock)
        await stopping.asked.wait()
    return 0


async def worker(settings: Settings, ready: Ready) -> int:
    stopping, clock, of_worker = Stopping(), SystemClock(), for_worker(settings)
    async with (
        reaping(clock, settings),
        store(pooled(settings, SUPERVISOR_POOL), clock) as engine,
        timekeeping(engine, clock),
        membership(engine, clock, "worker"),
    ):
        supervisor = WorkerSupervisor(engine, clock, of_worker)
        async with supervising(supervisor, stopping, of_worker) as working:
            await first_of(supervisor.working.wait(), working)
            if supervisor.working.is_set():
                ready(started_with_worker(started(engine, settings), of_worker, supervisor.tasks), None)
                systemd.ready(clock)
            await working
    return ended(supervisor)


async def add_key(settings: Settings, user_id: str, role: Role) -> tuple[str, Key]:
    """Create a key directly in the database. Returns its secret, which is not stored, and the key."""
    clock = SystemClock()
    async with store(settings, clock) as engine:
        text, key = await new_key(engine, clock, user_id, role)
        await engine.accounts.add_key(key)
    return text, key


# ------------------------------------------------------------------------------------------------ what they are made of


@asynccontextmanager
async def store(settings: Settings, clock: SystemClock) -> AsyncIterator[Engine]:
    """Open an engine and set the clock to its time."""
    async with opened(settings) as engine:
        await Timekeeper(engine, clock).run_once()
        yield engine


@asynccontextmanager
async def tracing(settings: Settings, clock: SystemClock, role: str) -> AsyncIterator[Tracing | None]:
    """Record spans during the block, if the environment names an exporter; at its end the last ones are sent."""
    spans = open_tracing(settings, clock, role)
    try:
        yield spans
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Engine]:
    """Open an engine with its own connections for this block."""
    engine = await open_engine(settings)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def looping(clock: SystemClock, *loops: Loop) -> AsyncIterator[None]:
    """Run these loops during the block; each ends after its current pass."""
    supervised = [Supervised(loop.name, loop.run, clock) for loop in loops]
    try:
        yield
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*(one.stop(within=STOP_TIMEOUT) for one in supervised))


def timekeeping(engine: Engine, clock: SystemClock) -> AbstractAsyncContextManager[None]:
    return looping(clock, Loop(Timekeeper(engine, clock), clock))


def reaping(clock: SystemClock, settings: Settings) -> AbstractAsyncContextManager[None]:
    """Collect orphaned processes during the block, if they come to this one."""
    wanted = settings.reap or os.getpid() == 1
    return looping(clock, *([Loop(Orphans(adopt=settings.reap), clock)] if wanted else []))


@asynccontextmanager
async def membership(engine: Engine, clock: SystemClock, role: str) -> AsyncIterator[None]:
    """Be a member during the block, and none after it."""
    service = Membership(engine, clock, role)
    try:
        async with looping(clock, Loop(service, clock)):
            yield
    finally:
        await service.leave()


@asynccontextmanager
async def scheduling(
    engine: Engine, clock: SystemClock, settings: Settings, spans: Tracing | None = None
) -> AsyncIterator[None]:
    planning = Loop(Scheduler(engine, clock, tracing=spans), clock)
    overlap, reaper = Loop(Overlap(engine, clock), clock), Loop(Reaper(engine, clock), clock)
    rate_limiter = Loop(RateLimiter(engine, clock), clock)
    runs_changed = Nudge(rate_limiter.wake, clock)
    rollup, retention = Loop(CounterRollup(engine), clock), Loop(Retention(engine, clock, settings), clock)
    finishing = Loop(Finishing(engine, clock), clock)
    self_audit = Loop(SelfAudit(engine, clock, settings.lease), clock)

    def jobs_changed(_: Hint) -> None:
        planning.wake()
        overlap.wake()

    concerns: dict[Topic, Callable[[Hint], None]] = {Topic.JOBS: jobs_changed, Topic.RUNS: runs_changed}
    listening = Supervised("listening", Listening(engine.signals, concerns).run, clock)
    try:
        loops = (planning, overlap, rate_limiter, reaper, finishing, rollup, retention, self_audit)
        async with looping(clock, *loops), timekeeping(engine, clock):
            yield
    finally:
        await listening.stop()


@asynccontextmanager
async def worker_started(clock: SystemClock, settings: Settings) -> AsyncIterator[SupervisedWorker | None]:
    """Start a worker process early, in parallel to the rest; it ends with the block in any case.

    None: it could not be started. The supervisor retries and logs the reason.
    """
    first: SupervisedWorker | None = None
    with suppress(OSError):
        first = await SupervisedWorker.start(clock, settings)
    try:
        yield first
    finally:
        if first is not None:
            await first.end()


@asynccontextmanager
async def supervising(
    supervisor: WorkerSupervisor, stopping: Stopping, settings: Settings
) -> AsyncIterator[asyncio.Task[None]]:
    """Run the supervisor during the block; at its end the worker is gone, with or without a stop signal before."""
    stopping.about = lambda: {"active_runs": supervisor.active, "grace": show_duration(settings.grace)}
    stopping.then(supervisor.stop)
    working = asyncio.create_task(supervisor.run())
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


@asynccontextmanager
async def serving_at(
    listener: socket.socket, engine: Engine, clock: SystemClock, settings: Settings, spans: Tracing | None
) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Serve the API; yields its address, and the event to set when it is ready."""
    from oncue.api.serving import serving  # only here: the other roles need no web server

    complete = asyncio.Event()
    async with serving(engine, clock, settings, listener, complete, spans) as address:
        yield address, complete


async def first_of(event: Coroutine[Any, Any, Any], other: asyncio.Task[Any]) -> None:
    """Wait until one of the two is done."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait({waiting, other}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def pooled(settings: Settings, connections: int) -> Settings:
    return msgspec.structs.replace(settings, pool_size=settings.pool_size or connections)


def for_worker(settings: Settings) -> Settings:
    """Complete the settings for a worker process: absolute paths, so that tasks may change the current folder."""
    processes = settings.processes or os.cpu_count() or 1
    tasks, engine = tuple(map(absolute, settings.tasks)), absolute_url(settings.engine)
    return msgspec.structs.replace(settings, processes=processes, tasks=tasks, engine=engine)


def ended(supervisor: WorkerSupervisor) -> int:
    """Return the exit code after supervising a worker. OncueError: no worker can start with these settings."""
    if supervisor.problem is not None:
        raise OncueError(supervisor.problem)
    return 0


# ----------------------------------------------------------------------------------------------------- a worker process


async def worker_process(descriptor: int, parent: int) -> int:
    """Run the second process of `worker`: load the tasks, open the store, and work until the supervisor says stop."""
    die_with(parent)
    channel = await Channel.on(socket.socket(fileno=descriptor), ToWorker)
    start = await channel.receive()
    if not isinstance(start, Start):
        return 1
    try:
        return await _work(start, channel)
    except OncueError as wrong:
        channel.send(Unusable(str(wrong)))
        await channel.close()
        return UNUSABLE


async def _work(start: Start, channel: Channel) -> int:
    from oncue.executors import capture, forking  # here and below: needed only in a worker process
    from oncue.executors.registry import load_registry
    from oncue.services.worker_process import WorkerProcess

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)  # the supervisor handles signals
    capture.install()
    forking.refuse_in_this_thread()
    forking.end_copies_by_signals()
    settings, clock = start.settings, SystemClock()
    logs.configure("worker", settings, worker=str(start.worker_id))
    tasks = load_registry(settings)
    async with tracing(settings, clock, "worker") as spans:
        while True:
            try:  # the database may become available again: better to wait than to exit
                async with store(pooled(settings, WORKER_POOL), clock) as engine:
                    who = start.worker_id, tasks, channel, start.known_for_it
                    code = await WorkerProcess(engine, clock, settings, *who, spans).run()
                    await channel.close()
                    return code
            except StoreUnavailable as away:
                log.warning("The database is unavailable; retrying", kind="store_away", service="start", why=str(away))
            await clock.sleep(SECOND)


def main() -> None:
    """Run `python -m oncue.app worker DESCRIPTOR PARENT`, which only a supervisor does."""
    import uvloop

    logs.configure("worker")
    open_files.allow_most()
    _, _, descriptor, parent = sys.argv
    code = uvloop.run(worker_process(int(descriptor), int(parent)))
    end_descendants()  # processes that tasks have left, also in threads
    sys.stdout.flush()
    logs.end(code)  # a thread that never ends must not block the exit


if __name__ == "__main__":
    main()
