"""A crew for tests: real engine, a clock that stands still, tasks that do what the test says."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from msgspec.structs import replace

from oncue import Context, NoRetry, RetryAfter, Tasks
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.placement import Offer, Resources
from oncue.domain.run import RunView
from oncue.executors.functions import LoopExecutor
from oncue.metrics.numbers import SILENT, Numbers
from oncue.services.attempts import ActiveAttempt, Stop
from oncue.services.execution import Execution
from oncue.services.worker_loops import WorkerLoops, places
from oncue.settings import Settings
from oncue.tasks import Isolation, Task
from oncue_conformance.store import Store

OFFER = Offer(
    frozenset({"noop", "wait", "fail", "talk", "stubborn", "heavy"}),
    frozenset({"default", "slow"}),
    resources=Resources(4_000, 4_000, 100),
)


class Stage:
    """Tasks and what became of them, written down by the tasks themselves."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.started: list[RunId] = []
        self.stopped: list[RunId] = []
        self.waiting: set[RunId] = set()
        self.unmoved: set[RunId] = set()  # told to stop, and waiting on
        self.go = asyncio.Event()
        for name in OFFER.tasks - {"heavy"}:
            self.tasks.task(name)(getattr(self, name))
        self.tasks.add(Task("heavy", self.wait, isolation=Isolation.THREAD, defaults={}, roles=()))

    async def noop(self, ctx: Context) -> int:
        self.started.append(RunId(ctx.run_id))
        return ctx.attempt

    async def wait(self, ctx: Context) -> str:
        self.started.append(RunId(ctx.run_id))
        self.waiting.add(RunId(ctx.run_id))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            assert ctx.cancelled
            self.waiting.discard(RunId(ctx.run_id))
            self.stopped.append(RunId(ctx.run_id))
            raise
        return "done"

    async def stubborn(self, ctx: Context) -> str:
        """Does not stop when told to."""
        self.started.append(RunId(ctx.run_id))
        self.waiting.add(RunId(ctx.run_id))
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.unmoved.add(RunId(ctx.run_id))
        return "at last"

    async def fail(self, ctx: Context, how: str = "boom") -> None:
        self.started.append(RunId(ctx.run_id))
        match how:
            case "never again":
                raise NoRetry("never again")
            case "later":
                raise RetryAfter("40s")
            case "some day":
                raise RetryAfter("some day")
            case "itself":
                raise asyncio.CancelledError
        raise RuntimeError(f"boom {ctx.attempt}")

    async def talk(self, ctx: Context, words: int = 1) -> Any:
        self.started.append(RunId(ctx.run_id))
        for number in range(words):
            ctx.log.info("word %d", number)
        ctx.progress(1, 2)
        before = ctx.checkpoint()
        await ctx.save_checkpoint({"seen": ctx.attempt})
        if ctx.attempt == 1:
            raise RuntimeError("try me again")
        return before

    def at_rest(self, going: ActiveAttempt) -> bool:
        """It waits for the test to say `go`, and knows if it was told to stop."""
        run_id = going.run.run_id
        told = going.stop is None or run_id in self.unmoved or (going.stop is Stop.PREEMPTED and not going.stoppable)
        return run_id in self.waiting and not self.go.is_set() and told


STAGED: list[StagedCrew] = []  # in this test


class StagedCrew(WorkerLoops):
    stage: Stage

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        STAGED.append(self)

    async def rest(self) -> None:
        """Until every attempt has ended or waits for the test."""
        async with asyncio.timeout(60):
            while not all(map(self.stage.at_rest, self.attempts)):
                await asyncio.sleep(0)


async def crew_on(
    store: Store, stage: Stage, worker_id: WorkerId | None = None, numbers: Numbers = SILENT, **settings: Any
) -> StagedCrew:
    settings = {
        "storage": "memory:///",
        "concurrency": 3,
        "threads": 1,
        "processes": 1,
        "reserved_for_high": 0.0,
    } | settings
    given = Settings(**settings)
    offer = replace(OFFER, slots={task.name: places(given)[task.takes] for task in stage.tasks})
    executors = {kind: LoopExecutor(1_000) for kind in Isolation}
    crew = StagedCrew(
        *(store.engine, store.clock, given, worker_id or await store.worker(), offer),
        Execution(stage.tasks, executors, LoopExecutor(1_000), given.kill_grace),
        chance=Random(1),
        linger=Duration(0),
        numbers=numbers,
    )
    crew.stage = stage
    return crew


def in_place_of(crew: StagedCrew) -> WorkerId:
    """The id of this worker, to claim past it: then it cannot know what it holds."""
    STAGED.remove(crew)
    return crew.worker_id


async def check_holdings(store: Store) -> None:
    """At the end of a test, each worker that still lives knows what the store has under its name, and nothing else."""
    alive = {worker.worker_id for worker in await store.fleet.workers()}
    for crew in STAGED:
        if crew.worker_id in alive:
            held = {(one.run_id, one.token) for one in await store.running.holdings(crew.worker_id)}
            executing = {(run.run_id, run.token) for run in crew.running()}
            assert held <= crew.holdings.known(), "runs that the worker does not know of"
            assert executing <= held, "runs that the worker executes and does not hold"


async def work(crew: StagedCrew, passes: int = 1) -> None:
    """One pass of the worker, and of settling what has ended by then."""
    for _ in range(passes):
        await crew.holdings.run_once()
        await crew.worker.run_once()
        await crew.rest()
        await crew.settling.run_once()


async def final(store: Store, crew: StagedCrew, run_id: RunId) -> RunView:
    """The run, once this crew has brought it to its end."""
    async with asyncio.timeout(60):
        while not (view := await store.run(run_id)).state.final:
            store.clock.jump(SECOND)
            await crew.attempts.run_once()
            await work(crew)
    return view


async def drive(store: Store, crew: StagedCrew, length: int) -> None:
    """For so long, as its loops would: again when `run_once` says so. A pass takes a millisecond."""
    end = store.now + length
    while store.now < end:
        wait = min(await crew.worker.run_once(), await crew.holdings.run_once())
        await crew.rest()
        await crew.settling.run_once()
        await crew.attempts.run_once()
        await store.clock.advance(Duration(min(max(wait, MILLISECOND), end - store.now)))


async def let_end(crew: StagedCrew, run_id: RunId) -> None:
    """One of those that wait for the test comes to its end."""
    crew.attempts.stop(run_id, Stop.CANCELLED)
    await crew.rest()
    await crew.settling.run_once()
