"""One seed, one world: schedulers, workers and users on one store, acting by turns while much goes wrong."""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace
from tests.simulation.bodies import TASK, Alone, Bodies
from tests.simulation.census import Census
from tests.simulation.faults import CALM, LEASE, LEASES, STEP, OwnTurn, Reached, Way, Weather, ask
from tests.simulation.journal import Journal, short
from tests.simulation.process import Actor, OwnClock, Process
from tests.simulation.shapes import QUEUES, SETTINGS, THOUSANDS, Shape, some_shapes

from oncue.clock import CONFIRMED_AFTER
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import RunId, UserNumber, WorkerId, uuid7
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.placement import ClassKey
from oncue.domain.run import Claimed, Settlement, State
from oncue.domain.zones import PACKAGED, Rules
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Hint, Page, RunQuery, Topic, Worker
from oncue.engines.sqlite.engine import SqliteEngine
from oncue.executors.functions import LoopExecutor
from oncue.services.attempts import LAST_CHANCE, End, Stop
from oncue.services.execution import Execution
from oncue.services.overlap import Overlap
from oncue.services.rate_limiter import AHEAD, RateLimiter
from oncue.services.reaper import WATCH_FOR, Reaper
from oncue.services.scheduler import Scheduler
from oncue.services.supervisor import BEATS, SAFE
from oncue.services.timekeeper import Timekeeper
from oncue.services.worker_loops import WorkerLoops
from oncue.settings import Settings
from oncue.tasks import Isolation
from oncue.testing.clock import SOME_DAY, FakeClock

STORM = 25 * SECOND
REST_WITHIN = 120 * SECOND  # after the storm: three losses in a row, and whoever queues behind them
MISTAKES = (-20 * SECOND, -5 * MINUTE, -HOUR, HOUR, 365 * DAY)
TOLD_OF = 6  # workers, of the last ones started: about half of them are dead
LIVE = frozenset({State.WAITING, State.RUNNING})
# Commits wait for the disk, and it is not the disk that is tried here.
IN_MEMORY = Path("/dev/shm")


@cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="oncue-simulation-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


async def new_store(seed: int) -> Path:
    """A copy of an empty store with its schema: quicker than making one."""
    template, path = folder() / "template.db", folder() / f"{seed}.db"
    if not template.exists():
        engine = await open_engine(Settings(engine=f"sqlite:///{template}"))
        await engine.maintenance.maintain(SOME_DAY, Duration(365 * DAY))
        await engine.close()
    shutil.copy(template, path)
    return path


class Crewed:
    """A worker in its process, and the keeper that beats for it."""

    def __init__(self, process: Process, worker_id: WorkerId, shape: Shape, crew: WorkerLoops, engine: Any) -> None:
        self.process = process
        self.shape = shape
        self.worker_id = worker_id
        self.crew = crew
        self.engine = engine
        self.beaten_at = process.clock.monotonic()
        self.retiring = False
        self.whole = deepcopy(self.given)
        self.unknown: dict[tuple[RunId, int], Instant] = {}  # what it holds and does not know, and since when

    @property
    def given(self) -> object:
        """What it believes to have given away, and to whom."""
        room = self.crew.attempts.capacity
        return room._free, room._cpu, room._memory, room._held


class World:
    def __init__(self, seed: int, path: Path, plant: Callable[[Engine], Engine] = lambda engine: engine) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.calm = seed % 5 == 0
        self.jumpy = seed % 7 == 3 and not self.calm
        self.misled = seed % 7 == 5 and not self.calm
        self.error = 0  # of the store's clock, which is put right in time: see _mislead
        self.uneven = seed % 4 == 2
        self.tight = seed % 10 == 5 if self.calm else seed % 3 > 0
        self.queues = THOUSANDS if seed % 20 == 12 else QUEUES
        self.clock = FakeClock()
        self.journal = Journal(self.clock)
        store = OwnTurn(path, Duration(10 * SECOND))
        self.engine = plant(SqliteEngine(store, Settings(engine=f"sqlite:///{path}"), self.clock))
        self.way = Way(self.engine, Random(seed + 1), self._witness)
        self.way.deliver = self._deliver
        names = ("ada", "ben", "cleo")
        self.uids: tuple[UserNumber, ...] = tuple(ask(self.engine.accounts.user(n, self.clock.now())) for n in names)
        self.storm_ends = Instant(self.clock.now() + STORM)
        self.processes: list[Process] = []
        self.crews: list[Crewed] = []
        self.ever: list[Crewed] = []  # also the dead
        self.whom = Random(seed + 2)
        self.deaf = seed % 9 == 4  # no hint ever arrives
        self.shapes: dict[WorkerId, Shape] = {}
        self.meterings: list[Actor] = []
        self.rules: dict[str, Rules] = {}  # of time zones, that each scheduler goes by
        self.census = Census(self)
        self.left: list[asyncio.Task[Any]] = []
        self.storm_over = Instant(0)  # monotonic
        self.stride = STEP  # how far time moves on when nobody has anything to do
        self._names = 0

    @property
    def storming(self) -> bool:
        return self.way.weather is not CALM

    def new_id(self) -> Any:
        return uuid7(self.clock.now(), self.chance.randbytes(8))

    def reached_by(self, process: Process) -> Any:
        return Reached(self.way, process, self._store_now)

    async def _store_now(self) -> Instant:
        return Instant(self.clock.now() + self.error)

    # -------------------------------------------------------------------------------------------------- what happened

    def _witness(self, verb: str, args: tuple[Any, ...], answer: Any) -> None:
        journal = self.journal
        match verb:
            case "running.claim":
                for run in answer:
                    journal.claimed(args[0], run)
            case "running.held_by":
                journal.doubted |= {(run.run_id, args[0]) for run in answer}
            case "fleet.expire_workers":
                for worker_id in answer:
                    journal.buried(worker_id, self.least_silence(worker_id))
            case "fleet.leave":
                journal.left(args[0])
            case "fleet.beat":
                if answer is not None:
                    journal.beats[args[0]] = max(journal.beats[args[0]], journal.asked[args[0], args[1]])
            case "planning.plan":
                journal.planned.append(answer.runs)
            case "running.settle" | "running.hand_back" | "planning.withdraw":
                journal.note(f"{verb} {_names(args)}: {answer}")
                if verb == "running.hand_back":
                    journal.handed_back.update(answer)

    def _deliver(self, hint: Hint) -> None:
        """To everybody, or as engines do for many workers: to two at random, which may be full, or dead for long."""
        if self.deaf:
            return
        few = hint.runs or hint.classes
        for crewed in self.whom.sample(self.ever[-TOLD_OF:], min(2, len(self.ever))) if few else self.crews:
            concern = crewed.crew.concerns.get(hint.topic)
            if concern is not None and not crewed.process.dead:
                concern(hint)
        if hint.topic is Topic.RUNS and not few and (hint.due is None or hint.due <= self.clock.now() + AHEAD):
            for rate_limiter in self.meterings:
                rate_limiter.wake()

    # ---------------------------------------------------------------------------------------------------- who there is

    def process(self, kind: str) -> Process:
        self._names += 1
        # Whoever starts while the clock is ahead believes it, and what it does by that there is no rule for.
        own = OwnClock(self.clock, Instant(self.clock.now() + min(0, self.error))) if self.misled else None
        process = Process(f"{kind}{self._names}", self.clock, own)
        self.processes.append(process)
        return process

    def start_scheduler(self, rules: Rules = PACKAGED) -> None:
        process = self.process("scheduler")
        self.rules[process.name] = rules
        engine, clock = self.reached_by(process), process.own
        for service in (Scheduler(engine, clock, rules), Overlap(engine, clock), Reaper(engine, clock)):
            process.act(service.name, service.run_once, self.journal)
        self.meterings.append(process.act(RateLimiter.name, RateLimiter(engine, clock).run_once, self.journal))
        self._keep_time(process, engine)

    def _keep_time(self, process: Process, engine: Any) -> None:
        if isinstance(process.own, OwnClock):
            process.act(Timekeeper.name, Timekeeper(engine, process.own).run_once, self.journal)

    def least_silence(self, worker_id: WorkerId) -> int:
        """How long nobody may have heard of a worker that is buried.

        Where clocks are set, a reaper that has just started may take its last beat for older than it is.
        """
        lease = self.shapes[worker_id].lease
        return lease * WATCH_FOR // BEATS if self.misled or self.jumpy else lease

    def start_worker(self, shape: Shape) -> None:
        process, worker_id = self.process("worker"), WorkerId(self.new_id())
        engine = self.reached_by(process)
        bodies = Bodies(
            self.seed, process, worker_id, self.journal, lambda: self.storming, lambda: self.kill_worker(crewed)
        )
        executors = {
            kind: LoopExecutor(SETTINGS.max_result_bytes) for kind in Isolation
        }  # one each: threads are not stopped
        crew = WorkerLoops(
            engine,
            process.own,
            shape.settings,
            worker_id,
            shape.offer,
            Execution(bodies.tasks, executors, Alone(executors[Isolation.LOOP]), shape.settings.kill_grace),
            chance=Random(self.chance.random()),
            linger=Duration(0),
        )
        crewed = Crewed(process, worker_id, shape, crew, engine)
        self.shapes[worker_id] = shape
        now = process.own.now()
        me = Worker(worker_id, process.name, "host", Duration(shape.lease), now, now)
        ask(self.engine.fleet.register(me, now))
        self.journal.beats[worker_id] = self.clock.monotonic()
        self.journal.note(f"{process.name} starts as {short(worker_id)}")
        members = (crew.worker, crew.settling, crew.attempts, crew.mailbox, crew.reporting, crew.holdings)
        loops: dict[str, Any] = {m.name: process.act(m.name, m.run_once, self.journal) for m in members}
        crew.loops = loops
        process.act("keeper", lambda: self._keep(crewed), self.journal)
        self._keep_time(process, engine)
        self.crews.append(crewed)
        self.ever.append(crewed)

    async def _keep(self, crewed: Crewed) -> int:
        """Beats in place of a keeper; a worker that is buried or was not heard for too long is ended."""
        asked_at, lease = self.clock.monotonic(), crewed.shape.lease
        if asked_at - crewed.beaten_at > SAFE * lease:
            self.kill_worker(crewed, keeper_lives=True)
            return SECOND
        with suppress(StoreUnavailable):
            now = crewed.process.own.now()
            self.journal.asked[crewed.worker_id, now] = asked_at
            beat = await crewed.engine.fleet.beat(crewed.worker_id, now)
            if beat is None:
                self.kill_worker(crewed, keeper_lives=True)
            else:
                crewed.beaten_at = asked_at
                peers = crewed.crew.prefetch.peers
                peers.place, peers.count = beat.place, max(1, beat.peers)
                peers.alike_before, peers.alike = beat.alike_before, beat.alike
        return lease // BEATS

    def kill_worker(self, crewed: Crewed, *, keeper_lives: bool = False, unstopped: tuple[End, ...] = ()) -> None:
        if crewed.process.dead:
            return
        self.left += crewed.process.kill()
        self.journal.killed(crewed.worker_id)
        self.crews.remove(crewed)
        self.processes.remove(crewed.process)
        if keeper_lives:
            self.way.later(self._take_leave(crewed, unstopped))
        self.start_worker(crewed.shape)

    async def _take_leave(self, crewed: Crewed, unstopped: tuple[End, ...]) -> None:
        engine, now = self.reached_by(Process("keeper", self.clock)), crewed.process.own.now()
        with suppress(StoreUnavailable):
            if handed_back := [end for end in unstopped if isinstance(end, Claimed)]:
                await engine.running.hand_back(crewed.worker_id, handed_back, now)
            if ended := [end for end in unstopped if isinstance(end, Settlement)]:
                await engine.running.settle(crewed.worker_id, ended, now)
            await engine.fleet.leave(crewed.worker_id)

    async def retire(self, crewed: Crewed) -> None:
        """SIGTERM: take nothing new, let runs finish for a while, hand back the rest, say goodbye."""
        crew, process = crewed.crew, crewed.process
        self.journal.note(f"{process.name} drains")
        crew.worker.draining = crewed.retiring = True
        await self._idle(crewed, SECOND)
        for going in crew.attempts:
            crew.attempts.stop(going.run.run_id, Stop.DRAINING)
        await self._idle(crewed, SETTINGS.kill_grace + LAST_CHANCE)
        if not process.dead:
            left = tuple(crew.attempts.forget())
            await self._idle(crewed, 2 * SECOND)
            self.kill_worker(crewed, keeper_lives=True, unstopped=left)

    async def _idle(self, crewed: Crewed, length: int) -> None:
        until = self.clock.monotonic() + length
        while self.clock.monotonic() < until and not crewed.process.dead and crewed.crew.busy:
            await self.clock.sleep(Duration(2 * STEP))

    # ------------------------------------------------------------------------------------------------------ the driver

    async def run(self, users_busy: Callable[[], bool]) -> None:
        """The storm, then rest."""
        for _ in range(2):
            self.start_scheduler()
        if self.queues is THOUSANDS:
            ask(self.engine.jobs.intern([ClassKey(TASK, queue=queue) for queue in self.queues]))
        for n, shape in enumerate(some_shapes(self.chance, tight=self.tight)):
            lease = LEASES[n] if self.uneven else shape.lease
            self.start_worker(dataclasses.replace(shape, queues=self.queues, lease=lease))
        if not self.calm:
            self.way.weather = Weather.of(self.chance)
        storm = self.clock.monotonic() + STORM
        while self.clock.monotonic() < storm:
            await self.step()
            if self.storming:
                self._strike()
        self.journal.note("the storm is over")
        self.way.weather = CALM
        self.error, self.storm_over = 0, self.clock.monotonic()
        until = self.clock.monotonic() + REST_WITHIN + (CONFIRMED_AFTER + 10 * SECOND if self.misled else 0)
        while users_busy() or not self._at_rest():
            if self.clock.monotonic() > until:
                self.journal.crashes.append(f"not at rest {REST_WITHIN // SECOND} s after the storm")
                return
            for _ in range(40):
                await self.step()

    async def step(self) -> None:
        elapsed = self.clock.monotonic()
        awake = [process for process in self.processes if process.frozen_until <= elapsed]
        ready = [actor for process in awake for actor in process.actors if actor.ready(elapsed)]
        if ready and self.chance.random() >= (0.05 if self.storming else 0.01):
            self.chance.choice(ready).begin()
            for _ in range(3):
                await asyncio.sleep(0)
        else:
            await self.clock.advance(Duration(self.stride))
            if self.clock.monotonic() // SECOND != elapsed // SECOND:
                self._look_at_holdings()
            if self.calm:
                self.census.look()

    def _look_at_holdings(self) -> None:
        """No run is running for a minute under the name of a live worker that does not know of it."""
        for crewed in self.crews:
            stored = ask(self.engine.running.holdings(crewed.worker_id))
            unknown = {(one.run_id, one.token) for one in stored} - crewed.crew.holdings.known()
            at = self.clock.monotonic()
            crewed.unknown = {key: crewed.unknown.get(key, at) for key in unknown}
            for run_id, token in [key for key, since in crewed.unknown.items() if at - since >= MINUTE]:
                self.journal.crashes.append(f"{short(run_id)} is running for a minute, unknown to its worker")
                crewed.unknown[run_id, token] = at

    def _strike(self) -> None:
        """What befalls whole processes, and clocks."""
        luck = self.chance.random()
        if luck < 0.0006:
            self.kill_worker(self.chance.choice(self.crews), keeper_lives=self.chance.random() < 0.5)
        elif luck < 0.0010:
            scheduler = self.chance.choice([p for p in self.processes if p.name.startswith("scheduler")])
            self.journal.note(f"{scheduler.name} is killed")
            self.left += scheduler.kill()
            self.processes.remove(scheduler)
            self.start_scheduler(self.rules[scheduler.name])
        elif luck < 0.0014:
            process = self.chance.choice(self.processes)
            process.freeze(STEP * self.chance.randrange(1, 3 * LEASE // STEP // 2))
            self.journal.note(f"{process.name} is frozen")
        elif luck < 0.0020:
            crewed = self.chance.choice(self.crews)
            if not crewed.retiring:
                self.way.later(self.retire(crewed))
        elif luck < 0.0024 and self.jumpy:
            # Small ones only: an hour forward buries every worker, and an hour back lets the dead hold what they held
            # for an hour. Both are as they should be, and neither leaves anything to check.
            self.clock.jump(self.chance.randrange(-LEASE // 4, LEASE // 4))
            self.journal.note("the clock jumps")
        elif luck < 0.0060 and self.misled:
            self._mislead()

    def _mislead(self) -> None:
        """The store's clock is set by mistake, or put right again, before a large step forward is believed.

        Users and the checker know what time it is.
        """
        self.error = 0 if self.error else self.chance.choice(MISTAKES)
        self.journal.note(f"the store's clock is {self.error / SECOND:+} s wrong")

    def _at_rest(self) -> bool:
        if any(crewed.crew.busy for crewed in self.crews) or self.clock.now() < self.storm_ends + 3 * SECOND:
            return False
        soon = Instant(self.clock.now() + 60 * SECOND)
        return not self.all_runs(RunQuery(states=LIVE, wanted_until=soon))

    def all_runs(self, query: RunQuery) -> list[Any]:
        found: list[Any] = []
        after: str | None = None
        while True:
            page: Page[Any] = ask(self.engine.lists.runs(replace(query, after=after, limit=500)))
            found += page.items
            if (after := page.next) is None:
                return found

    async def close(self) -> None:
        for process in list(self.processes):
            self.left += process.kill()
        for ghost in list(self.way.ghosts):
            ghost.cancel()
            self.left.append(ghost)
        await asyncio.gather(*self.left, return_exceptions=True)
        await self.engine.close()
        for file in folder().glob(f"{self.seed}.db*"):
            file.unlink() if file.is_file() else shutil.rmtree(file)


def _names(args: tuple[Any, ...]) -> list[str]:
    """The runs a verb was asked about."""
    for some in args:
        if isinstance(some, list | tuple):
            return [short(getattr(one, "run", one).run_id) for one in some]
    return []
