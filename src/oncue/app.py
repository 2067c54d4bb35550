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
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from oncue import logs
from oncue.clock import SystemClock
from oncue.domain.errors import Invalid, StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import SECOND, Duration
from oncue.engines.new_keys import new_key
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Hint, Key, Role, Topic
from oncue.services.channel import Channel, Start, ToWorker, Unusable
from oncue.services.first_key import first_key
from oncue.services.keeper import UNUSABLE, Keeper
from oncue.services.listening import Listening
from oncue.services.loop import Loop
from oncue.services.metering import Metering, Nudge
from oncue.services.overlap import Overlap
from oncue.services.parentage import die_with
from oncue.services.reaper import Reaper
from oncue.services.retention import Folding, Retention
from oncue.services.scheduler import Scheduler
from oncue.services.timekeeper import Timekeeper
from oncue.settings import Settings

ANSWER_WITHIN = Duration(3 * SECOND // 2)  # the API says that the store is away rather than let its callers hang
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
    async with (
        store(settings) as (engine, clock),
        scheduling(engine, clock, settings),
        front_door(settings, clock) as at,
    ):
        ready(at, await first_key(engine, clock, Path(settings.data_dir)))
        keeper = Keeper(engine, clock, for_worker(settings))
        stopping.then(keeper.stop)
        await keeper.run()
    return exit_code(keeper)


async def api(settings: Settings, ready: Ready) -> int:
    stopping = Stopping()
    async with store(settings) as (engine, clock), timekeeping(engine, clock), front_door(settings, clock) as at:
        ready(at, await first_key(engine, clock, Path(settings.data_dir)))
        await stopping.asked.wait()
    return 0


async def scheduler(settings: Settings) -> int:
    stopping = Stopping()
    async with store(settings) as (engine, clock), scheduling(engine, clock, settings):
        log.info("scheduling", engine=engine.name)
        await stopping.asked.wait()
    return 0


async def worker(settings: Settings) -> int:
    stopping = Stopping()
    async with store(settings) as (engine, clock), timekeeping(engine, clock):
        keeper = Keeper(engine, clock, for_worker(settings))
        stopping.then(keeper.stop)
        await keeper.run()
    return exit_code(keeper)


async def add_key(settings: Settings, user_id: str, role: Role) -> tuple[str, Key]:
    """For whoever may reach the store: a key, and its secret this once."""
    async with store(settings) as (engine, clock):
        text, key = await new_key(engine, clock, user_id, role)
        await engine.people.add_key(key)
    return text, key


# ------------------------------------------------------------------------------------------------ what they are made of


@asynccontextmanager
async def store(settings: Settings) -> AsyncIterator[tuple[Engine, SystemClock]]:
    """An engine and a clock at its time."""
    engine = await open_engine(settings)
    try:
        clock = SystemClock()
        await Timekeeper(engine, clock).run_once()
        yield engine, clock
    finally:
        await engine.close()


@asynccontextmanager
async def looping(*loops: Loop) -> AsyncIterator[None]:
    """These loops run while the block does; each ends after the pass under way."""
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.wait(tasks, timeout=5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def timekeeping(engine: Engine, clock: SystemClock) -> AbstractAsyncContextManager[None]:
    return looping(Loop(Timekeeper(engine, clock)))


@asynccontextmanager
async def scheduling(engine: Engine, clock: SystemClock, settings: Settings) -> AsyncIterator[None]:
    planning = Loop(Scheduler(engine, clock))
    overlap, reaper = Loop(Overlap(engine, clock)), Loop(Reaper(engine, clock))
    metering = Loop(Metering(engine, clock))
    runs_changed = Nudge(metering.wake, clock)
    folding, retention = Loop(Folding(engine)), Loop(Retention(engine, clock, settings))

    def jobs_changed(_: Hint) -> None:
        planning.wake()
        overlap.wake()

    concerns: dict[Topic, Callable[[Hint], None]] = {Topic.JOBS: jobs_changed, Topic.RUNS: runs_changed}
    listening = asyncio.create_task(Listening(engine.signals, concerns).run())
    try:
        async with looping(planning, overlap, metering, reaper, folding, retention), timekeeping(engine, clock):
            yield
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@asynccontextmanager
async def front_door(settings: Settings, clock: SystemClock) -> AsyncIterator[str]:
    """The API, listening; yields its address. It has a store connection of its own, with less patience."""
    from oncue.api.serving import serving  # only here: the other roles do without a web server

    quick = msgspec.structs.replace(settings, store_timeout=min(ANSWER_WITHIN, settings.store_timeout))
    engine = await open_engine(quick)
    try:
        async with serving(engine, clock, settings) as address:
            yield address
    finally:
        await engine.close()


def for_worker(settings: Settings) -> Settings:
    """Settings as a worker process gets them: nothing left to be found out."""
    processes = settings.processes or os.cpu_count() or 1
    return msgspec.structs.replace(settings, processes=processes)


def exit_code(keeper: Keeper) -> int:
    if keeper.problem is None:
        return 0
    print(keeper.problem, file=sys.stderr)
    return 1


# ----------------------------------------------------------------------------------------------------- a worker process


async def worker_process(descriptor: int, parent: int) -> int:
    """The other half of `worker`: loads the tasks, opens the store, and works until its keeper says otherwise."""
    die_with(parent)
    channel = await Channel.on(socket.socket(fileno=descriptor), ToWorker)
    start = await channel.receive()
    if not isinstance(start, Start):
        return 1
    try:
        return await _work(start.settings, start.worker_id, channel)
    except Invalid as wrong:
        channel.send(Unusable(str(wrong)))
        await channel.close()
        return UNUSABLE


async def _work(settings: Settings, worker_id: WorkerId, channel: Channel) -> int:
    from oncue.services import capture  # here and below: what only a worker process needs
    from oncue.services.registry import load_registry
    from oncue.services.worker_process import WorkerProcess

    logs.configure("worker")
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)  # our keeper tells us what to do
    capture.install()
    tasks = load_registry(settings)
    while True:
        with suppress(StoreUnavailable):  # it may come back: a worker that waits for it is better than one that is gone
            async with store(settings) as (engine, clock):
                code = await WorkerProcess(engine, clock, settings, worker_id, tasks, channel).run()
                await channel.close()
                return code
        await SystemClock().sleep(SECOND)


def main() -> None:
    """`python -m oncue.app worker DESCRIPTOR PARENT`: not for people."""
    import uvloop

    _, _, descriptor, parent = sys.argv
    code = uvloop.run(worker_process(int(descriptor), int(parent)))
    sys.stdout.flush()
    os._exit(code)  # a thread that never ends must not keep us


if __name__ == "__main__":
    main()
