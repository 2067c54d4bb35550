"""What the roles are made of: each part runs during a block of `async with`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path

from oncue.api.http.address import url_of
from oncue.clock import SystemClock, happens_within
from oncue.domain.errors import StoreFull
from oncue.domain.ids import RunId
from oncue.domain.instants import SECOND, Duration, show_duration
from oncue.domain.run import NewRun, RunView
from oncue.engines.bulk_values import Bulk
from oncue.engines.counted import CountedEngine
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Hint, Topic
from oncue.executors.task_files import TaskFiles
from oncue.intake.context import Intake
from oncue.intake.large_values import LargeValues
from oncue.local_server import announced
from oncue.log import log
from oncue.metrics import table
from oncue.metrics.exposed import Exposed
from oncue.metrics.numbers import SILENT, Numbers
from oncue.process import systemd
from oncue.process.started import shown_database
from oncue.restarting import Supervised
from oncue.services.archiving import Archiving
from oncue.services.bulk_acts import Follow
from oncue.services.bulk_work import BulkWork
from oncue.services.declared_schedules import DeclaredSchedules
from oncue.services.finishing import Finishing
from oncue.services.forgetting import Forgetting
from oncue.services.listening import Listening
from oncue.services.loop import Loop
from oncue.services.membership import Membership
from oncue.services.orphans import Orphans
from oncue.services.outbox import OutboxIntake
from oncue.services.overlap import Overlap
from oncue.services.rate_limiter import Nudge, RateLimiter
from oncue.services.reaper import Reaper
from oncue.services.reloading import Apply, Reloading, woken_by_changes
from oncue.services.retention import CounterRollup, Retention
from oncue.services.scheduler import Scheduler
from oncue.services.self_audit import SelfAudit
from oncue.services.storage_cleaning import StorageCleaning
from oncue.services.supervised_worker import SupervisedWorker
from oncue.services.supervisor import WorkerSupervisor
from oncue.services.ticking import Ticking
from oncue.services.timekeeper import Timekeeper
from oncue.settings import Settings
from oncue.storage.open import open_archive, open_storage
from oncue.tracing.open import open_tracing
from oncue.tracing.port import Tracing

OPEN_AGAIN = Duration(2 * SECOND)  # after a try to start on a server without a free connection
STOP_TIMEOUT = 5.0  # seconds for a service to finish its current pass


class Stopping:
    """Handles SIGTERM and Ctrl-C: the first signal asks to finish, the second to stop at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.by_ctrl_c = False  # the last signal: somebody watches
        self.about: Callable[[], dict[str, object]] = dict  # more to log when a signal comes
        self._acts: list[Callable[[], None]] = [systemd.stopping]
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.ask, number)

    def then(self, act: Callable[[], None]) -> None:
        self._acts.append(act)
        if self.asked.is_set():
            act()

    def ask(self, number: signal.Signals) -> None:
        again, self.by_ctrl_c = self.asked.is_set(), number is signal.SIGINT
        log.info("Stopping", kind="stopping", signal=number.name, at_once=again, **self.about())
        self.asked.set()
        for act in self._acts:
            act()


@asynccontextmanager
async def store(
    settings: Settings,
    clock: SystemClock,
    numbers: Numbers = SILENT,
    name: str = "oncue",
    stopping: Stopping | None = None,
) -> AsyncIterator[Engine]:
    """Open an engine and set the clock to its time."""
    async with opened(settings, clock, numbers, name, stopping) as engine:
        if not engine.capabilities.hints:
            log.info(
                "Hints do not come through PgBouncer: this process polls instead. To get them, name the address of "
                "PostgreSQL itself in the URL (listen=host:port)",
                kind="hints_polled",
            )
        await Timekeeper(engine, clock).run_once()
        yield engine


@asynccontextmanager
async def tracing(settings: Settings, clock: SystemClock, role: str, numbers: Numbers) -> AsyncIterator[Tracing | None]:
    """Record spans during the block, if the environment names an exporter; at its end the last ones are sent."""
    spans = open_tracing(settings, clock, role)
    if spans is not None:
        numbers.read(table.SPANS_LOST, spans.lost)
    try:
        yield spans
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


@asynccontextmanager
async def opened(
    settings: Settings,
    clock: SystemClock,
    numbers: Numbers,
    name: str = "oncue",
    stopping: Stopping | None = None,
) -> AsyncIterator[Engine]:
    """Open an engine with its own connections for this block."""
    engine = await _when_there_is_room(settings, clock, name, stopping)
    if numbers is not SILENT and settings.counting:
        engine = CountedEngine(engine, numbers, clock)
    try:
        yield engine
    finally:
        await engine.close()


async def _when_there_is_room(settings: Settings, clock: SystemClock, name: str, stopping: Stopping | None) -> Engine:
    """Open an engine. A role, which has `stopping`, waits while the server has no connection left; a command does not.

    Each try has told so in the log.
    """
    while True:
        try:
            return await open_engine(settings, name=name)
        except StoreFull:
            if stopping is None or await happens_within(clock, stopping.asked, OPEN_AGAIN):
                raise


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


def timekeeping(engine: Engine, clock: SystemClock, exposed: Exposed) -> AbstractAsyncContextManager[None]:
    services = (Timekeeper(engine, clock), Ticking(exposed.tick))
    return looping(clock, *(Loop(service, clock, exposed.numbers) for service in services))


def reaping(clock: SystemClock, settings: Settings) -> AbstractAsyncContextManager[None]:
    """Collect orphaned processes during the block, if they come to this one."""
    wanted = settings.reap or os.getpid() == 1
    return looping(clock, *([Loop(Orphans(adopt=settings.reap), clock)] if wanted else []))


@asynccontextmanager
async def membership(engine: Engine, clock: SystemClock, role: str, numbers: Numbers = SILENT) -> AsyncIterator[None]:
    """Be a member during the block, and none after it."""
    service = Membership(engine, clock, role)
    try:
        async with looping(clock, Loop(service, clock, numbers)):
            yield
    finally:
        await service.leave()


@asynccontextmanager
async def scheduling(
    engine: Engine, clock: SystemClock, settings: Settings, exposed: Exposed, spans: Tracing | None = None
) -> AsyncIterator[Loop]:
    """Run a scheduler's loops during the block; yields the one that plans."""
    numbers = exposed.numbers
    defaults = KnownDefaults(engine.notices, clock, settings.notify_rate)
    planning = Loop(Scheduler(engine, clock, numbers=numbers, tracing=spans, defaults=defaults), clock, numbers)
    overlap = Loop(Overlap(engine, clock, numbers), clock, numbers)
    reaper = Loop(Reaper(engine, clock, numbers, defaults), clock, numbers)
    rate_limiter = Loop(RateLimiter(engine, clock, numbers), clock, numbers)
    runs_changed = Nudge(rate_limiter.wake, clock)
    rollup = Loop(CounterRollup(engine), clock, numbers)
    retention = Loop(Retention(engine, clock, settings, numbers), clock, numbers)
    finishing = Loop(Finishing(engine, clock), clock, numbers)
    bulk = Loop(BulkWork(engine, clock, following(engine, clock, settings)), clock, numbers)
    grace = Duration(settings.kill_grace + settings.storage_patience)
    self_audit = Loop(SelfAudit(engine, clock, settings.lease, settings.retention, grace), clock, numbers)
    cleaning = Loop(StorageCleaning(engine, open_storage(settings, clock, numbers), clock), clock, numbers)

    outbox = _taking_in(engine, clock, settings, numbers)

    def jobs_changed(_: Hint) -> None:
        planning.wake()
        overlap.wake()

    concerns: dict[Topic, Callable[[Hint], None]] = {Topic.JOBS: jobs_changed, Topic.RUNS: runs_changed}
    listening = Supervised("listening", Listening(engine.signals, concerns).run, clock)
    try:
        loops = (planning, overlap, rate_limiter, reaper, finishing, bulk, rollup, retention, self_audit, cleaning)
        async with (
            looping(clock, *loops, *outbox, *_keeping(engine, clock, settings, numbers)),
            timekeeping(engine, clock, exposed),
        ):
            yield planning
    finally:
        await listening.stop()


def following(engine: Engine, clock: SystemClock, settings: Settings) -> Follow:
    """Return what builds the runs of a bulk that changes payloads. The code of the API is loaded with the first one."""
    made: list[Follow] = []

    async def follow(bulk: Bulk, run: RunView, run_id: RunId) -> NewRun:
        if not made:
            module = await asyncio.to_thread(import_module, "oncue.api.bulk_following")
            made.append(module.BulkFollowing(engine, open_storage(settings, clock), clock, settings))
        return await made[0](bulk, run, run_id)

    return follow


def _taking_in(engine: Engine, clock: SystemClock, settings: Settings, numbers: Numbers) -> list[Loop]:
    """Return the loop that takes in what applications enqueue, if they can do so in this database."""
    if not engine.capabilities.outbox:
        return []
    intake = intake_of(engine, clock, settings, numbers)
    return [Loop(OutboxIntake(engine, clock, intake, settings.outbox_timeout, numbers), clock, numbers)]


def intake_of(engine: Engine, clock: SystemClock, settings: Settings, numbers: Numbers) -> Intake:
    large = LargeValues(engine, open_storage(settings, clock, numbers), clock, settings.inline_cap)
    return Intake(engine, clock, settings, large)


async def apply_declared(
    engine: Engine, clock: SystemClock, settings: Settings, supervisor: WorkerSupervisor, numbers: Numbers
) -> tuple[str, ...]:
    """Apply the schedules that the worker's code declares. Returns those that are in place, in words."""
    if not supervisor.declared:
        return ()
    intake = intake_of(engine, clock, settings, numbers)
    return await DeclaredSchedules(intake, settings.schedule_owner, numbers).apply(supervisor.declared)


def _keeping(engine: Engine, clock: SystemClock, settings: Settings, numbers: Numbers) -> list[Loop]:
    """Return the loops of the archive, if there is one, and of users who are to be forgotten, also there."""
    storage = open_archive(settings, clock, numbers) if settings.archive else None
    forgetting = Loop(Forgetting(engine, storage, clock), clock, numbers)
    if storage is None:
        return [forgetting]
    objects = open_storage(settings, clock, numbers)
    return [forgetting, Loop(Archiving(engine, storage, objects, clock, settings, numbers), clock, numbers)]


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
    stopping.about = lambda: {"active_runs": supervisor.active, "grace": show_duration(settings.shutdown_grace)}
    stopping.then(lambda: supervisor.stop(by_ctrl_c=stopping.by_ctrl_c))
    working = asyncio.create_task(supervisor.run())
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


@asynccontextmanager
async def reloading(
    files: TaskFiles | None, supervisor: WorkerSupervisor, clock: SystemClock, apply: Apply | None = None
) -> AsyncIterator[None]:
    """Restart the worker during the block whenever these files change, and then `apply`. None: not asked for."""
    if files is None:
        yield
        return
    loop = Loop(Reloading(files, supervisor, clock, apply), clock)
    async with looping(clock, loop), woken_by_changes(files.folders, loop.wake):
        yield


@asynccontextmanager
async def serving_at(
    listener: socket.socket,
    engine: Engine,
    clock: SystemClock,
    settings: Settings,
    exposed: Exposed,
    spans: Tracing | None,
) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Serve the API; yields its address, and the event to set when it is ready."""
    from oncue.api.serving import serving  # only here: the other roles need no web server

    complete = asyncio.Event()
    with announced(Path(settings.data_dir), url_of(listener), shown_database(settings.engine)) as why:
        if why is not None:
            log.warning("Commands in this folder will not find this server", kind="address_not_written", why=why)
        async with serving(engine, clock, settings, listener, complete, exposed, spans) as address:
            yield address, complete
