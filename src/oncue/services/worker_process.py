"""The worker process: runs a worker's loops under a supervisor until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any

import msgspec

from oncue import __version__, logs
from oncue.clock import Clock, SystemClock
from oncue.domain.ids import ClassId, WorkerId
from oncue.domain.instants import MILLISECOND, NEVER, SECOND, Duration, Instant, show_duration
from oncue.domain.placement import NOTIFY, SYSTEM_QUEUE, Offer, Resources, show_offer
from oncue.domain.run import Claimed, Settlement
from oncue.engines import port
from oncue.engines.port import Engine
from oncue.executors import machine
from oncue.executors.functions import LoopExecutor
from oncue.executors.port import Executor, Work
from oncue.executors.processes import ProcessExecutor
from oncue.executors.secrets import SecretSource
from oncue.executors.threads import ThreadExecutor
from oncue.log import log
from oncue.metrics.exposed import of_this_worker_process
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.tick import CALM_TICK, TICK, Tick
from oncue.process import tuning
from oncue.restarting import Supervised
from oncue.services.attempts import LAST_CHANCE, Attempts, Stop
from oncue.services.channel import Alive, Beaten, Channel, Counted, Drain, Known, Ready, Unstopped, Worn
from oncue.services.execution import Execution
from oncue.services.listening import Listening
from oncue.services.loop import Loop
from oncue.services.notice_secrets import NoticeSecrets
from oncue.services.notifying import Notifier
from oncue.services.supervisor import SAFE
from oncue.services.taken_queues import taken_queues
from oncue.services.timekeeper import Timekeeper
from oncue.services.worker_loops import WorkerLoops, places
from oncue.settings import Settings
from oncue.tasks import Isolation, Task, Tasks
from oncue.tracing.port import Tracing

AGAIN = 75  # the exit code of a worker without heartbeats
COUNTS_INTERVAL = Duration(SECOND)  # between two messages with what was counted
CALM_COUNTS_INTERVAL = Duration(15 * SECOND)  # while there is no work and nothing new to tell
LOAD_INTERVAL = Duration(SECOND)  # between two messages that say how busy it is
MOST_TOLD = 1_000  # classes: readers of what a worker takes read its offer, and this only where the offer is unreadable
MOST_NAMED, SHORT_ID = 5, 8  # runs that a stopping worker names, and digits of their ids
LAST_SETTLES = Duration(5 * SECOND)  # that a stopping worker spends on writing outcomes


class Alone:
    """Runs each run that has cost workers before in a process of its own, used once."""

    def __init__(self, processes: ProcessExecutor) -> None:
        self._processes = processes

    async def run(self, work: Work) -> bytes | None:
        return await self._processes.run_alone(work)

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""


class WaitingForRuns:
    """Says which runs a stopping worker waits for; again when some have ended, at most once a second."""

    def __init__(self, attempts: Attempts, clock: Clock) -> None:
        self.by_ctrl_c = False
        self._attempts = attempts
        self._clock = clock
        self._told, self._next_at = 0, Instant(0)

    def tell(self, left: int) -> None:
        """`left`: until they are stopped."""
        active, now = len(self._attempts), self._clock.monotonic()
        if active in (0, self._told) or now < self._next_at:
            return
        self._told, self._next_at = active, Instant(now + SECOND)
        named = [f"{one.spec.task} ({str(one.run.run_id)[-SHORT_ID:]})" for one in islice(self._attempts, MOST_NAMED)]
        about: dict[str, Any] = {"active": active, "at_most": show_duration(Duration(-(-left // SECOND) * SECOND))}
        if self.by_ctrl_c:
            about["hint"] = "Ctrl-C again returns them to the queue at once"
        log.info("Waiting for active runs", kind="waiting_for_runs", **about, runs=named)


class WorkerProcess:
    """Its `run_once` tells the supervisor that the loop is not blocked, and ends the process without heartbeats."""

    name = "vitals"

    def __init__(
        self,
        engine: Engine,
        clock: SystemClock,
        settings: Settings,
        worker_id: WorkerId,
        tasks: Tasks,
        channel: Channel,
        known_for_it: Sequence[Known] = (),
        numbers: Numbers = SILENT,
        tracing: Tracing | None = None,
        secrets: Mapping[str, str] | None = None,
        drain_at: Instant | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._channel = channel
        self._known_for_it, self._drain_at = known_for_it, drain_at
        source = SecretSource(settings.secrets_dir, secrets or {})
        find_secret = NoticeSecrets(engine.accounts, clock, source, settings.secret_roles)
        notifier = Notifier(engine, clock, settings, worker_id, numbers, find_secret)
        tasks = self._tasks = with_notify(tasks, notifier, settings)
        self._threads = ThreadExecutor(settings.max_result_bytes)
        self._processes = ProcessExecutor(settings, settings.processes)
        executors: dict[Isolation, Executor] = {
            Isolation.LOOP: LoopExecutor(settings.max_result_bytes),
            Isolation.THREAD: self._threads,
            Isolation.PROCESS: self._processes,
        }
        how = tasks, executors, Alone(self._processes), settings.kill_grace, source, settings.max_result_bytes
        self._crew = WorkerLoops(
            *(engine, clock, settings, worker_id, _offer(tasks, settings), Execution(*how)),
            chance=Random(),
            numbers=numbers,
            tracing=tracing,
        )
        notifier.renewed = self._crew.attempts.renew
        self._numbers = numbers
        self._tick = Tick(clock, numbers, Duration(max(TICK, min(CALM_TICK, settings.lease // 3))))
        self._waiting = WaitingForRuns(self._crew.attempts, clock)
        self._told = asyncio.Event()  # take nothing new
        self._hurried, self._at_once = asyncio.Event(), asyncio.Event()  # stop within the grace time, or at once
        self._beaten_at = self._load_at = self._counts_told_at = clock.monotonic()
        self._calm_since_told, self._classes = False, tuple[ClassId, ...]()

    async def run(self) -> int:
        """Run until told to stop."""
        await self._register()
        tuning.settle_collector()
        tasks = tuple(task.name for task in self._tasks)
        # Before the first claim: from here on there is something to finish.
        declared, queues = self._tasks.declared(self._settings.build or None), taken_queues(self._settings, self._tasks)
        self._channel.send(Ready((), tasks, declared, queues, self._beaten_at))
        loops = [
            *self._crew.loops.values(),
            Loop(Timekeeper(self._engine, self._clock), self._clock, self._numbers),
            Loop(self, self._clock, self._numbers),
        ]
        supervised = [Supervised(loop.name, loop.run, self._clock) for loop in loops]
        listening = Listening(self._engine.signals, self._crew.concerns, self._crew.worker_id)
        supervised.append(Supervised("listening", listening.run, self._clock))
        supervised.append(Supervised("keeper's word", self._receive, self._clock, most_ends=1))  # without it no beats
        await self._told.wait()
        await self._drain()
        await asyncio.gather(*(one.stop() for one in supervised))
        await self._processes.close()
        await self._threads.close()
        self._tell_counts()
        return 0

    async def run_once(self) -> Duration:
        left = self._beaten_at + SAFE * self._settings.lease - self._clock.monotonic()
        if left < 0:
            log.error("No heartbeat reached the database for too long; the worker process ends", kind="heartbeat_lost")
            logs.end(AGAIN)  # threads cannot be stopped otherwise, and all other processes that we started die with us
        classes = tuple(sorted(self._crew.prefetch.classes)[:MOST_TOLD])
        self._channel.send(self._alive() if classes == self._classes else Ready(classes))
        self._classes = classes
        self._tell_of_wear()
        busy = self._crew.busy or self._crew.prefetch.knows
        wait = self._tick(busy=busy)
        self._calm_since_told &= not busy
        if self._tick.at >= self._counts_told_at + (CALM_COUNTS_INTERVAL if self._calm_since_told else COUNTS_INTERVAL):
            self._counts_told_at, self._calm_since_told = self._tick.at, not busy
            self._tell_counts()
        return Duration(min(wait, int(left) + 1))

    def _tell_counts(self) -> None:
        self._channel.send(Counted((*self._numbers.series(), *of_this_worker_process())))

    def _alive(self) -> Alive:
        now, active = self._clock.monotonic(), len(self._crew.attempts)
        if now < self._load_at:
            return Alive(active)
        self._load_at = Instant(now + LOAD_INTERVAL)
        return Alive(active, self._crew.load.read(active, self._crew.prefetch.full(self._crew.attempts.capacity)))

    def _tell_of_wear(self) -> None:
        """Report that this worker is worn, until another has replaced it; meanwhile it continues."""
        capacity, now = self._crew.attempts.capacity, self._clock.monotonic()
        capacity.known_for_it = frozenset(who for who, until in self._known_for_it if until > now)
        if capacity.worn:
            self._channel.send(Worn(capacity.worn_by))

    async def _register(self) -> None:
        """Its lease counts from when it asked, as the store has it, and not from the answer."""
        name = self._settings.worker_name or f"{socket.gethostname()}-{os.getpid()}"
        offer = show_offer(_offer(self._tasks, self._settings))
        who = (self._crew.worker_id, name, socket.gethostname(), self._settings.lease)
        users = [task for task in self._tasks if task.name != NOTIFY]
        await self._engine.fleet.announce([_announced(task) for task in users], self._clock.now())
        self._beaten_at, now = self._clock.monotonic(), self._clock.now()
        me = port.Worker(*who, now, now, info=offer, drain_at=self._drain_at)
        await self._engine.fleet.register(me, now)
        self._crew.worker.draining = self._drain_at is not None

    async def _receive(self) -> None:
        while (said := await self._channel.receive()) is not None:
            match said:
                case Beaten(asked_at, place, count, drained, alike_before, alike, beat_at):
                    self._beaten_at = max(self._beaten_at, asked_at)
                    self._crew.holdings.beaten(beat_at, asked_at)
                    peers = self._crew.prefetch.peers
                    peers.place, peers.count = place, max(1, count)
                    peers.alike_before, peers.alike = alike_before, alike
                    self._take_runs(not drained and not self._told.is_set())
                case Drain(at_once, replaced, by_ctrl_c):
                    self._waiting.by_ctrl_c = by_ctrl_c
                    self._told.set()
                    if not replaced:
                        self._hurried.set()
                    if at_once:
                        self._at_once.set()
                case _:
                    pass
        logs.end(AGAIN)  # the supervisor is gone: no process sends our heartbeats any more

    # --------------------------------------------------------------------------------------------------------- draining

    def _take_runs(self, take: bool) -> None:
        worker = self._crew.worker
        if worker.draining != take:
            return
        worker.draining = not take
        self._crew.loops[worker.name].wake()
        if take:
            log.info("Resumed: the worker takes runs again", kind="resumed")
        else:
            log.info("Drained on request: the worker takes no new runs", kind="draining")

    async def _drain(self) -> None:
        """Take nothing new; let runs finish; stop the rest and return it to the queue; write all outcomes."""
        crew, began = self._crew, self._clock.monotonic()
        active, returned = len(crew.attempts), crew.settling.returned
        crew.worker.draining = True
        await self._idle_within(Duration(NEVER), unless=self._hurried)
        await self._idle_within(self._settings.shutdown_grace, unless=self._at_once, tell=self._waiting.tell)
        for going in crew.attempts:
            crew.attempts.stop(going.run.run_id, Stop.DRAINING)
        await self._idle_within(Duration(self._settings.kill_grace + LAST_CHANCE))
        left = crew.attempts.forget()
        unstopped = tuple(end for end in left if isinstance(end, Claimed))
        crew.large_results.hurry()
        await self._idle_within(LAST_SETTLES)
        if left:
            self._channel.send(Unstopped(unstopped, tuple(end for end in left if isinstance(end, Settlement))))
        returned = crew.settling.returned - returned + len(unstopped)
        log.info(
            "Drained: no run is active",
            kind="drained",
            finished=max(0, active - returned),
            returned=returned,
            seconds=round((self._clock.monotonic() - began) / SECOND, 1),
        )

    async def _idle_within(
        self, length: Duration, unless: asyncio.Event | None = None, tell: Callable[[int], None] | None = None
    ) -> None:
        until = self._clock.monotonic() + length
        while self._crew.busy and (now := self._clock.monotonic()) < until and not (unless and unless.is_set()):
            if tell is not None:
                tell(until - now)
            await self._clock.sleep(Duration(20 * MILLISECOND))


def with_notify(tasks: Tasks, notifier: Notifier, settings: Settings) -> Tasks:
    """Return the tasks with the one that sends notices, unless others have to."""
    found = Tasks()
    found.include(() if settings.notify == "only" else tasks)
    if settings.notify != "off":
        found.add(notifier.task())
    return found


def _announced(task: Task) -> port.Task:
    return port.Task(task.name, task.schema(), msgspec.json.encode(task.defaults), task.roles)


def _with_notices(queues: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """Return the queues that a worker takes runs from, with the one of notices."""
    match settings.notify:
        case "off":
            return queues
        case "only":
            return (SYSTEM_QUEUE,)
        case "on":
            return (*queues, SYSTEM_QUEUE)


def _offer(tasks: Tasks, settings: Settings) -> Offer:
    has = places(settings)
    return Offer(
        frozenset(task.name for task in tasks),
        frozenset(_with_notices(taken_queues(settings, tasks).taken, settings)),
        frozenset(settings.labels),
        Resources(
            int(settings.worker_cpu * 1_000) or machine.cpu_milli(),
            settings.worker_memory_mb or machine.memory_mb(),
            has[Isolation.LOOP],
        ),
        {task.name: has[task.takes] for task in tasks if task.takes is not Isolation.LOOP},
        __version__,
    )
