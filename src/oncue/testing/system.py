"""The API, a scheduler and a worker on a temporary SQLite file, in fake time. Nothing happens unless it is told to."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx2
import msgspec

from oncue.api.application import Application
from oncue.clock import SystemClock, happens_within
from oncue.domain.ids import RunId, WorkerId, uuid7
from oncue.domain.instants import DAY, MILLISECOND, Duration, Instant, rfc3339
from oncue.domain.placement import Everything, Offer, Resources, show_offer
from oncue.domain.run import Settlement
from oncue.engines import port
from oncue.engines.new_keys import new_key
from oncue.engines.open import open_engine
from oncue.engines.port import Role
from oncue.services.attempts import End
from oncue.services.finishing import Finishing
from oncue.services.overlap import Overlap
from oncue.services.rate_limiter import RateLimiter
from oncue.services.scheduler import Scheduler
from oncue.services.worker_loops import WorkerLoops
from oncue.settings import Settings
from oncue.tasks import Isolation, Tasks
from oncue.testing.caller import Caller, CallerExecution, CallerExecutor, CallerHooks
from oncue.testing.clock import FakeClock

LEASE = Duration(36_500 * DAY)  # no heartbeats are sent
SLOTS = 1_000  # for tasks with isolation="process", which run in the caller like all others
LOOK_AGAIN = Duration(20 * MILLISECOND)
MEMORY = Path("/dev/shm")


class _Loops(WorkerLoops):
    """A worker's loops, with the runs that have ended."""

    ends: int
    finished: list[RunId]
    woken: asyncio.Event

    def ended(self, end: End) -> None:
        super().ended(end)
        self.ends += 1
        if isinstance(end, Settlement) and end.state.final:
            self.finished.append(end.run.run_id)
        self.woken.set()


class System:
    """Belongs to the event loop in which it is opened."""

    def __init__(self, clock: FakeClock, tasks: Tasks, max_runs: int) -> None:
        self.clock = clock
        self._tasks = tasks
        self._max_runs = max_runs
        self._folder = Path(tempfile.mkdtemp(prefix="oncue-test-", dir=MEMORY if MEMORY.is_dir() else None))
        url = f"sqlite:///{self._folder / 'oncue.db'}"
        self._settings = Settings(engine=url, data_dir=str(self._folder), rate_limit=0, processes=SLOTS)
        self.key = ""

    async def open(self) -> None:
        self._engine = engine = await open_engine(self._settings, self.clock)
        clock = self.clock
        self.key, key = await new_key(engine, clock, "test", Role.ADMIN)
        await engine.accounts.add_key(key)
        known = [port.Task(one.name, one.schema(), msgspec.json.encode(one.defaults), one.roles) for one in self._tasks]
        await engine.fleet.announce(known, clock.now())
        self._worker_id = WorkerId(uuid7(clock.now(), bytes(10)))
        names = frozenset(one.name for one in self._tasks)
        self._offer = Offer(names, Everything(), Everything(), Resources(10**9, 10**9, 10**6))
        shown = show_offer(Offer(self._offer.tasks, takes_all=True))
        me = port.Worker(self._worker_id, "test", "test", LEASE, clock.now(), clock.now(), info=shown)
        await engine.fleet.register(me, clock.now())
        self._scheduler, self._rates = Scheduler(engine, clock), RateLimiter(engine, clock)
        self._services = (self._scheduler, Overlap(engine, clock), self._rates, Finishing(engine, clock))
        self._api = httpx2.ASGITransport(Application(engine, clock, self._settings))

    async def close(self) -> None:
        await self._engine.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request whose body has been read."""
        asked = httpx2.Request(request.method, request.url, headers=request.headers, content=request.content)
        asked.headers.pop("Accept-Encoding", None)  # what is read here is not sent anywhere
        answered = await self._api.handle_async_request(asked)
        return httpx2.Response(answered.status_code, headers=answered.headers, content=await answered.aread())

    async def travel(self, until: Instant, caller: Caller) -> Sequence[RunId]:
        """Run all that is due, then move to the next instant at which something is, until this one. Returns the runs
        that have ended, in order."""
        loops = self._loops(caller)
        while True:
            await self._work(loops, caller)
            next_at = await self._next(loops, until)
            await self.clock.advance(next_at - self.clock.now())
            if next_at == until:
                await self._work(loops, caller)
                return loops.finished

    def _loops(self, caller: Caller) -> _Loops:
        executors = {kind: CallerExecutor(caller) for kind in Isolation}
        execution = CallerExecution(self._tasks, executors, executors[Isolation.LOOP], self._settings.kill_grace)
        of = self._engine, self.clock, self._settings, self._worker_id, self._offer, execution
        loops = _Loops(*of, chance=Random(1), linger=Duration(0))
        loops.ends, loops.finished, loops.woken = 0, [], asyncio.Event()
        loops.attempts.hooks = CallerHooks(self.clock, self._tasks, caller)
        return loops

    async def _work(self, loops: _Loops, caller: Caller) -> None:
        """Plan and run until nothing is left to do at this instant. RuntimeError: there is no end of it."""
        most = loops.ends + self._max_runs
        while True:
            before, started = loops.ends, False
            waits = [await service.run_once() for service in self._services]
            loops.prefetch.look_afresh()
            await loops.worker.run_once()
            started = loops.busy
            while loops.busy:
                await self._settle(loops)
                if loops.ends > most:
                    raise RuntimeError(self._endless(caller))
            if not started and loops.ends == before and waits[0]:
                return

    def _endless(self, caller: Caller) -> str:
        ended = f"more than {self._max_runs:,} attempts ended at {rfc3339(self.clock.now())}, and more are due"
        return f"{ended}: does task {caller.last!r} enqueue itself for ever? If not, set @pytest.mark.oncue(max_runs=…)"

    async def _settle(self, loops: _Loops) -> None:
        """Wait for attempts that are active, and start what they wait for themselves."""
        with suppress(TimeoutError):
            await happens_within(SystemClock(), loops.woken, LOOK_AGAIN)
        loops.woken.clear()
        await loops.mailbox.run_once()
        await loops.settling.run_once()
        if loops.busy:
            loops.prefetch.look_afresh()
            await loops.worker.run_once()

    async def _next(self, loops: _Loops, until: Instant) -> Instant:
        now = self.clock.now()
        waiting = await self._engine.running.peek(loops.prefetch.classes, now, until, 1)
        instants = [self._scheduler.next_at, self._rates.next_at, *(run.due for run in waiting)]
        return min((at for at in instants if at is not None and now < at < until), default=until)
