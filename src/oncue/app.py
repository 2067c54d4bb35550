"""The composition root: settings → engine → services. The one place that knows everybody.

Each role is a function that runs until it is told to stop: `up` is all of them with one command. A worker is two
processes: a keeper, here, and the process it starts as `python -m oncue.app worker`, where user code runs.
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

from oncue import collecting, logs, open_files
from oncue.api.serving import take_address
from oncue.clock import SystemClock
from oncue.domain.errors import OncueError, StoreUnavailable
from oncue.domain.instants import SECOND
from oncue.engines.new_keys import new_key
from oncue.engines.open import absolute_url, open_engine
from oncue.engines.port import Engine, Hint, Key, Role, Topic
from oncue.executors.families import end_descendants
from oncue.executors.loading import absolute
from oncue.executors.parentage import die_with
from oncue.services.channel import Channel, Start, ToWorker, Unusable
from oncue.services.finishing import Finishing
from oncue.services.first_key import first_key
from oncue.services.listening import Listening
from oncue.services.loop import Loop
from oncue.services.overlap import Overlap
from oncue.services.rate_limiter import Nudge, RateLimiter
from oncue.services.reaper import Reaper
from oncue.services.retention import CounterRollup, Retention
from oncue.services.scheduler import Scheduler
from oncue.services.supervisor import UNUSABLE, SupervisedWorker, WorkerSupervisor
from oncue.services.timekeeper import Timekeeper
from oncue.settings import Settings
from oncue.supervised import Supervised

LAST_PASS = 5.0  # seconds, for a service that was told to end

Ready = Callable[[str, str | None], None]  # is told the address, and the admin key if this start made it

log = structlog.get_logger()


class Stopping:
    """SIGTERM and Ctrl-C: the first asks to finish, the second to stop at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._acts: list[Callable[[], None]] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.ask)

    def then(self, act: Callable[[], None]) -> None:
        self._acts.append(act)
        if self.asked.is_set():
            act()

    def ask(self) -> None:
        self.asked.set()
        for act in self._acts:
            act()


# ------------------------------------------------------------------------------------------------------------ the roles


async def up(settings: Settings, ready: Ready) -> int:
    """Everything with one command: API and scheduler in this process, and a worker process that it watches."""
    stopping = Stopping()
    clock, of_worker = SystemClock(), for_worker(settings)
    with take_address(settings) as door:
        async with worker_started(clock, of_worker) as first, store(settings, clock) as engine:
            keeper = WorkerSupervisor(engine, clock, of_worker, first)
            stopping.then(keeper.stop)
            async with (
                keeping(keeper) as kept,
                opened(settings) as of_api,  # its own, so that neither scheduler nor API waits for the other's calls
                scheduling(engine, clock, settings),
                serving_at(door, of_api, clock, settings) as (at, complete),
            ):
                await first_of(keeper.working.wait(), kept)
                if keeper.working.is_set():
                    key = await first_key(engine, clock, Path(settings.data_dir))
                    collecting.settle()
                    complete.set()
                    ready(at, key)
                await kept
    return ended(keeper)


async def api(settings: Settings, ready: Ready) -> int:
    stopping, clock = Stopping(), SystemClock()
    with take_address(settings) as door:
        async with (
            store(settings, clock) as engine,
            timekeeping(engine, clock),
            serving_at(door, engine, clock, settings) as (at, complete),
        ):
            key = await first_key(engine, clock, Path(settings.data_dir))
            collecting.settle()
            complete.set()
            ready(at, key)
            await stopping.asked.wait()
    return 0


async def scheduler(settings: Settings) -> int:
    stopping, clock = Stopping(), SystemClock()
    async with store(settings, clock) as engine, scheduling(engine, clock, settings):
        collecting.settle()
        log.info("scheduling", engine=engine.name)
        await stopping.asked.wait()
    return 0


async def worker(settings: Settings) -> int:
    stopping, clock = Stopping(), SystemClock()
    async with store(settings, clock) as engine, timekeeping(engine, clock):
        keeper = WorkerSupervisor(engine, clock, for_worker(settings))
        stopping.then(keeper.stop)
        await keeper.run()
    return ended(keeper)


async def add_key(settings: Settings, user_id: str, role: Role) -> tuple[str, Key]:
    """For whoever may reach the store: a key, and its secret this once."""
    clock = SystemClock()
    async with store(settings, clock) as engine:
        text, key = await new_key(engine, clock, user_id, role)
        await engine.accounts.add_key(key)
    return text, key


# ------------------------------------------------------------------------------------------------ what they are made of


@asynccontextmanager
async def store(settings: Settings, clock: SystemClock) -> AsyncIterator[Engine]:
    """An engine, and the clock at its time."""
    async with opened(settings) as engine:
        await Timekeeper(engine, clock).run_once()
        yield engine


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Engine]:
    """An engine in this block, with connections of its own."""
    engine = await open_engine(settings)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def looping(clock: SystemClock, *loops: Loop) -> AsyncIterator[None]:
    """These loops run while the block does; each ends after the pass under way."""
    supervised = [Supervised(loop.name, loop.run, clock) for loop in loops]
    try:
        yield
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*(one.stop(within=LAST_PASS) for one in supervised))


def timekeeping(engine: Engine, clock: SystemClock) -> AbstractAsyncContextManager[None]:
    return looping(clock, Loop(Timekeeper(engine, clock), clock))


@asynccontextmanager
async def scheduling(engine: Engine, clock: SystemClock, settings: Settings) -> AsyncIterator[None]:
    planning = Loop(Scheduler(engine, clock), clock)
    overlap, reaper = Loop(Overlap(engine, clock), clock), Loop(Reaper(engine, clock), clock)
    metering = Loop(RateLimiter(engine, clock), clock)
    runs_changed = Nudge(metering.wake, clock)
    folding, retention = Loop(CounterRollup(engine), clock), Loop(Retention(engine, clock, settings), clock)
    finishing = Loop(Finishing(engine, clock), clock)

    def jobs_changed(_: Hint) -> None:
        planning.wake()
        overlap.wake()

    concerns: dict[Topic, Callable[[Hint], None]] = {Topic.JOBS: jobs_changed, Topic.RUNS: runs_changed}
    listening = Supervised("listening", Listening(engine.signals, concerns).run, clock)
    try:
        loops = (planning, overlap, metering, reaper, finishing, folding, retention)
        async with looping(clock, *loops), timekeeping(engine, clock):
            yield
    finally:
        await listening.stop()


@asynccontextmanager
async def worker_started(clock: SystemClock, settings: Settings) -> AsyncIterator[SupervisedWorker | None]:
    """A worker process that makes itself ready while the rest of us does; whatever happens in the block, it ends.

    None: it could not be started. The keeper tries again, and tells why.
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
async def keeping(keeper: WorkerSupervisor) -> AsyncIterator[asyncio.Task[None]]:
    """The keeper at work; at the end of the block its worker is gone, told to stop before or not."""
    kept = asyncio.create_task(keeper.run())
    try:
        yield kept
    finally:
        kept.cancel()
        await asyncio.gather(kept, return_exceptions=True)


@asynccontextmanager
async def serving_at(
    door: socket.socket, engine: Engine, clock: SystemClock, settings: Settings
) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The API, listening; yields its address, and what to set for it to be ready."""
    from oncue.api.serving import serving  # only here: the other roles do without a web server

    complete = asyncio.Event()
    async with serving(engine, clock, settings, door, complete) as address:
        yield address, complete


async def first_of(event: Coroutine[Any, Any, Any], other: asyncio.Task[Any]) -> None:
    """Until one of the two is over."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait({waiting, other}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def for_worker(settings: Settings) -> Settings:
    """Settings as a worker process gets them: nothing left to be found out, whatever folder a task goes to."""
    processes = settings.processes or os.cpu_count() or 1
    tasks, engine = tuple(map(absolute, settings.tasks)), absolute_url(settings.engine)
    return msgspec.structs.replace(settings, processes=processes, tasks=tasks, engine=engine)


def ended(keeper: WorkerSupervisor) -> int:
    """The exit code of whoever kept a worker. OncueError: none could be started like this."""
    if keeper.problem is not None:
        raise OncueError(keeper.problem)
    return 0


# ----------------------------------------------------------------------------------------------------- a worker process


async def worker_process(descriptor: int, parent: int) -> int:
    """The other half of `worker`: loads the tasks, opens the store, and works until its keeper says otherwise."""
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
    from oncue.executors import capture, forking  # here and below: what only a worker process needs
    from oncue.executors.registry import load_registry
    from oncue.services.worker_process import WorkerProcess

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)  # our keeper tells us what to do
    capture.install()
    forking.refuse_in_this_thread()
    forking.end_copies_by_signals()
    settings, clock = start.settings, SystemClock()
    tasks = load_registry(settings)
    while True:
        try:  # it may come back: a worker that waits for it is better than one that is gone
            async with store(settings, clock) as engine:
                work = WorkerProcess(engine, clock, settings, start.worker_id, tasks, channel, start.known_for_it)
                code = await work.run()
                await channel.close()
                return code
        except StoreUnavailable as away:
            log.warning("the store is away; trying again until it is back", why=str(away))
        await clock.sleep(SECOND)


def main() -> None:
    """`python -m oncue.app worker DESCRIPTOR PARENT`: not for people."""
    import uvloop

    logs.configure("worker")
    open_files.allow_most()
    _, _, descriptor, parent = sys.argv
    code = uvloop.run(worker_process(int(descriptor), int(parent)))
    end_descendants()  # what tasks have left, in threads, too
    sys.stdout.flush()
    logs.end(code)  # a thread that never ends must not keep us


if __name__ == "__main__":
    main()
