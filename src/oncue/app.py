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
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from oncue import logs
from oncue.api.http.address import take_address, take_metrics_address
from oncue.clock import SystemClock
from oncue.domain.errors import Invalid, OncueError, StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.engines.new_keys import new_key
from oncue.engines.open import absolute_url
from oncue.engines.port import Key, Role
from oncue.executors.families import end_descendants
from oncue.executors.loading import absolute
from oncue.executors.parentage import die_with
from oncue.executors.task_files import TaskFiles
from oncue.log import log
from oncue.metrics.metric import Roles
from oncue.metrics.numbers import SILENT, Bounds, Numbers
from oncue.process import systemd, tuning
from oncue.process.health import (
    can_write,
    count_log_lines,
    exposing,
    has_planned,
    has_started,
    has_worker,
    metrics_at,
    tell_build,
)
from oncue.process.parts import (
    Stopping,
    apply_declared,
    membership,
    opened,
    reaping,
    reloading,
    scheduling,
    serving_at,
    store,
    supervising,
    timekeeping,
    tracing,
    worker_started,
)
from oncue.process.started import Started, started, started_with_worker
from oncue.services.channel import Channel, Start, ToWorker, Unusable
from oncue.services.doctor import log_problems
from oncue.services.first_key import first_key
from oncue.services.supervisor import UNUSABLE, WorkerSupervisor
from oncue.services.taken_queues import taken_queues
from oncue.settings import Settings
from oncue.storage.open import storage_url
from oncue.tasks import Tasks
from oncue.tasks.lifespan import lifespans

# Connections of each role beside its hot path, unless the setting says otherwise. An API has the engine's default.
SCHEDULER_POOL = 4
WORKER_POOL = 2
SUPERVISOR_POOL = 1
LEFT_TO_END = 1  # second, for what tasks leave in the event loop of a worker that ends

T = TypeVar("T")

Ready = Callable[[Started, str | None], None]  # gets what has started, and the admin key if this start created it


# ------------------------------------------------------------------------------------------------------------ the roles


async def up(settings: Settings, ready: Ready) -> int:
    """Run the API and a scheduler in this process, and supervise a worker process."""
    stopping = Stopping()
    clock, of_worker = SystemClock(), for_worker(settings)
    files = task_files(of_worker)
    exposed = exposing(settings, clock, Roles.API, Roles.SCHEDULER, Roles.WORKER)
    with take_address(settings) as listener, take_metrics_address(settings) as metrics_listener:
        async with (
            reaping(clock, settings),
            worker_started(clock, of_worker) as first,
            tracing(settings, clock, "up", exposed.numbers) as spans,
            store(pooled(settings, SCHEDULER_POOL), clock, exposed.numbers, "oncue up", stopping) as engine,
            membership(engine, clock, "up", exposed.numbers),
        ):
            tell_build("up", engine, exposed)
            supervisor = WorkerSupervisor(engine, clock, of_worker, first, exposed)
            applying = partial(apply_declared, engine, clock, settings, supervisor, exposed.numbers)
            async with (
                supervising(supervisor, stopping, of_worker) as working,
                reloading(files, supervisor, clock, applying),
                # The API has its own connections, so that it and the scheduler never wait for each other.
                opened(settings, clock, exposed.numbers, "oncue up", stopping) as of_api,
                scheduling(engine, clock, settings, exposed, spans) as planning,
                serving_at(listener, of_api, clock, settings, exposed, spans) as (at, complete),
                metrics_at(metrics_listener, of_api, clock, settings, exposed, cluster=True) as checks,
            ):
                checks += [
                    has_started(complete),
                    can_write(of_api, clock),
                    has_planned(planning, clock),
                    has_worker(supervisor),
                ]
                await first_of(supervisor.begun.wait(), working)
                if supervisor.begun.is_set():
                    key = await first_key(engine, clock, Path(settings.data_dir))
                    schedules = await first_of(applying(), working) or ()
                    tuning.settle_collector()
                    complete.set()
                    base = started(engine, settings, at)
                    ready(started_with_worker(base, of_worker, supervisor, schedules), key)
                    systemd.ready(clock)
                    await log_problems(engine, settings, SystemClock())
                await working
    return ended(supervisor)


async def api(settings: Settings, ready: Ready) -> int:
    stopping, clock = Stopping(), SystemClock()
    exposed = exposing(settings, clock, Roles.API)
    with take_address(settings) as listener, take_metrics_address(settings) as metrics_listener:
        async with (
            reaping(clock, settings),
            tracing(settings, clock, "api", exposed.numbers) as spans,
            store(settings, clock, exposed.numbers, "oncue api", stopping) as engine,
            timekeeping(engine, clock, exposed),
            membership(engine, clock, "api", exposed.numbers),
            serving_at(listener, engine, clock, settings, exposed, spans) as (at, complete),
            metrics_at(metrics_listener, engine, clock, settings, exposed, cluster=True) as checks,
        ):
            tell_build("api", engine, exposed)
            checks += [has_started(complete), can_write(engine, clock)]
            key = await first_key(engine, clock, Path(settings.data_dir))
            tuning.settle_collector()
            complete.set()
            ready(started(engine, settings, at), key)
            systemd.ready(clock)
            await stopping.asked.wait()
    return 0


async def scheduler(settings: Settings, ready: Ready) -> int:
    stopping, clock = Stopping(), SystemClock()
    exposed = exposing(settings, clock, Roles.SCHEDULER)
    with take_metrics_address(settings) as metrics_listener:
        async with (
            reaping(clock, settings),
            tracing(settings, clock, "scheduler", exposed.numbers) as spans,
            store(pooled(settings, SCHEDULER_POOL), clock, exposed.numbers, "oncue scheduler", stopping) as engine,
            membership(engine, clock, "scheduler", exposed.numbers),
            scheduling(engine, clock, settings, exposed, spans) as planning,
            metrics_at(metrics_listener, engine, clock, settings, exposed) as checks,
        ):
            tell_build("scheduler", engine, exposed)
            checks.append(has_planned(planning, clock))
            tuning.settle_collector()
            ready(started(engine, settings), None)
            systemd.ready(clock)
            await stopping.asked.wait()
    return 0


async def worker(settings: Settings, ready: Ready, *, apply: bool = False) -> int:
    """Supervise a worker process. `apply`: also apply the schedules that its code declares."""
    stopping, clock, of_worker = Stopping(), SystemClock(), for_worker(settings)
    files = task_files(of_worker)
    exposed = exposing(settings, clock, Roles.WORKER)
    with take_metrics_address(settings) as metrics_listener:
        async with (
            reaping(clock, settings),
            store(pooled(settings, SUPERVISOR_POOL), clock, exposed.numbers, "oncue supervisor", stopping) as engine,
            timekeeping(engine, clock, exposed),
            membership(engine, clock, "worker", exposed.numbers),
            metrics_at(metrics_listener, engine, clock, settings, exposed) as checks,
        ):
            tell_build("worker", engine, exposed)
            supervisor = WorkerSupervisor(engine, clock, of_worker, exposed=exposed)
            checks.append(has_worker(supervisor))
            applying = partial(apply_declared, engine, clock, of_worker, supervisor, exposed.numbers)
            async with (
                supervising(supervisor, stopping, of_worker) as working,
                reloading(files, supervisor, clock, applying if apply else None),
            ):
                await first_of(supervisor.begun.wait(), working)
                if supervisor.begun.is_set():
                    schedules = (await first_of(applying(), working) if apply else None) or ()
                    base = started(engine, settings)
                    ready(started_with_worker(base, of_worker, supervisor, schedules), None)
                    systemd.ready(clock)
                await working
    return ended(supervisor)


async def add_key(
    settings: Settings, user_id: str, role: Role, note: str | None = None, expires_in: Duration | None = None
) -> tuple[str, Key]:
    """Create a key directly in the database. Returns its secret, which is not stored, and the key."""
    clock = SystemClock()
    async with store(settings, clock) as engine:
        text, key = await new_key(engine, clock, user_id, role, note, expires_in)
        await engine.accounts.add_key(key)
    return text, key


async def first_of(awaited: Coroutine[Any, Any, T], other: asyncio.Task[Any]) -> T | None:
    """Wait until one of the two is done. Returns what is awaited; None: the other was first."""
    waiting = asyncio.ensure_future(awaited)
    try:
        await asyncio.wait({waiting, other}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()


def pooled(settings: Settings, connections: int) -> Settings:
    return msgspec.structs.replace(settings, pool_size=settings.pool_size or connections)


def for_worker(settings: Settings) -> Settings:
    """Complete the settings for a worker process: absolute paths, so that tasks may change the current folder."""
    processes = settings.processes or os.cpu_count() or 1
    tasks, engine = tuple(map(absolute, settings.tasks)), absolute_url(settings.engine)
    storage, data_dir = storage_url(settings), str(Path(settings.data_dir).absolute())
    secrets_dir = str(Path(settings.secrets_dir or Path(data_dir) / "secrets").absolute())
    key = str(Path(settings.master_key_file or Path(data_dir) / "master.key").absolute())
    return msgspec.structs.replace(
        settings,
        processes=processes,
        tasks=tasks,
        engine=engine,
        storage=storage,
        data_dir=data_dir,
        secrets_dir=secrets_dir,
        master_key_file=key,
    )


def task_files(settings: Settings) -> TaskFiles | None:
    """Return the files to watch. Call it before the worker loads them: later changes are noticed."""
    return TaskFiles(settings.tasks) if settings.reload else None


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
        lines = wrong.lines() if isinstance(wrong, Invalid) else [str(wrong)]
        channel.send(Unusable("\n".join(lines)))
        await channel.close()
        return UNUSABLE
    finally:
        await _cancel_rest()


async def _cancel_rest() -> None:
    """Let what tasks have left running end in order, for a moment."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for one in rest:
        one.cancel()
    if rest:
        await asyncio.wait(rest, timeout=LEFT_TO_END)


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
    sys.dont_write_bytecode = settings.reload  # of two saves within a second Python would take the first one's bytecode
    logs.configure("worker", settings, worker=str(start.worker_id))
    tasks = load_registry(settings) if settings.notify != "only" else Tasks()
    bounds = Bounds(taken_queues(settings, tasks).taken)
    numbers = Numbers(bounds, Roles.WORKER) if settings.counting else SILENT
    count_log_lines(numbers)
    async with tracing(settings, clock, "worker", numbers) as spans, lifespans(tasks):
        while True:
            try:  # the database may become available again: better to wait than to exit
                async with store(pooled(settings, WORKER_POOL), clock, numbers, "oncue worker") as engine:
                    who = start.worker_id, tasks, channel, start.known_for_it
                    process = WorkerProcess(
                        engine, clock, settings, *who, numbers, spans, start.secrets, drain_at=start.drain_at
                    )
                    code = await process.run()
                    await channel.close()
                    return code
            except StoreUnavailable as away:
                log.warning("The database is unavailable; retrying", kind="store_away", service="start", why=str(away))
            await clock.sleep(SECOND)


def main() -> None:
    """Run `python -m oncue.app worker DESCRIPTOR PARENT`, which only a supervisor does."""
    import uvloop

    logs.configure("worker")
    tuning.allow_most_files()
    _, _, descriptor, parent = sys.argv
    # Not closed: that would wait for functions that swallow their cancel, and the supervisor with it for a lease.
    code = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(worker_process(int(descriptor), int(parent)))
    end_descendants()  # processes that tasks have left, also in threads
    sys.stdout.flush()
    logs.end(code)  # a thread that never ends must not block the exit


if __name__ == "__main__":
    main()
