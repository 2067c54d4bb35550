"""Worlds in which one worker has far too much to do, for many minutes, and nothing goes wrong.

Each function tells such a story and returns what was wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import msgspec
from tests.simulation.bodies import TASK
from tests.simulation.faults import ask
from tests.simulation.journal import Start, short
from tests.simulation.shapes import Shape
from tests.simulation.sharing import rank
from tests.simulation.world import World, new_store

from oncue.domain import change
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Instant
from oncue.domain.job import Job, Spec
from oncue.domain.placement import HEAD_START, Priority, Resources
from oncue.domain.preemption import stint
from oncue.domain.run import RunView, State
from oncue.domain.schedule import Schedule
from oncue.engines.port import NewJob, RunQuery
from oncue.services.choosing import KEEP_AFTER
from oncue.services.prefetch import LATE
from oncue.testing.logs import capture_logs

STRIDE = 250 * MILLISECOND
SLACK = 4 * STRIDE  # to look, to stop, to write down, to look again
LONGEST = 60 * MINUTE


@dataclass(frozen=True)
class Asked:
    run_id: RunId
    due: int  # from the beginning on
    spec: Spec
    lasts: int


class Backlog:
    """One worker of this shape, one scheduler, and whatever is asked of them before time begins."""

    def __init__(self, world: World, shape: Shape) -> None:
        self.world = world
        self.begin = world.clock.now()
        self.asked: dict[RunId, Asked] = {}
        world.stride = STRIDE
        world.start_scheduler()
        world.start_worker(shape)

    def ask(self, due: int, lasts: int, user: int = 0, **spec: object) -> RunId:
        wanted = Spec(TASK, Schedule(at=Instant(self.begin + due)), max_retries=0, **spec)  # type: ignore[arg-type]  # any of its fields
        job_id = JobId(self.world.new_id())
        [class_id] = ask(self.world.engine.jobs.intern([wanted.class_key]))
        payload = msgspec.json.encode({"lasts": lasts})
        job = Job(job_id, self.world.uids[user], wanted, payload, created_at=self.begin, updated_at=self.begin)
        new = NewJob(job, class_id, run=change.only_run(job, class_id, self.begin))
        ask(self.world.engine.jobs.create([new], self.begin))
        run_id = RunId(job_id)
        self.asked[run_id] = Asked(run_id, due, wanted, lasts)
        return run_id

    async def play(self) -> list[str]:
        """Until all is done. What went wrong whatever the story is about."""
        world = self.world
        with capture_logs():
            while len(world.all_runs(RunQuery(states=frozenset({State.SUCCEEDED})))) < len(self.asked):
                for _ in range(500):
                    await world.step()
                if world.clock.monotonic() > LONGEST:
                    return ["not all of it was done within an hour"]
        return [*world.journal.crashes, *world.census.problems]

    def starts(self, run_id: RunId) -> list[Start]:
        return [start for start in self.world.journal.starts if start.run_id == run_id]

    def first(self, run_id: RunId) -> int:
        """When it was started first, from the beginning on."""
        return self.starts(run_id)[0].now - self.begin

    def view(self, run_id: RunId) -> RunView:
        view: RunView = ask(self.world.engine.history.run(None, run_id))
        return view


# ----------------------------------------------------------------------------------------------------------- priorities


async def priorities(seed: int) -> list[str]:
    """More comes than can be done, for a quarter of an hour: who goes first is a matter of rank and nothing else."""
    world, chance = World(10 * seed, await new_store(10 * seed)), Random(seed)
    try:
        story = Backlog(world, Shape(2))
        for _ in range(360):
            priority = chance.choices(list(Priority), [1, 5, 4])[0]
            story.ask(chance.randrange(12 * MINUTE), 5 * SECOND, priority=priority)
        return [*await story.play(), *_out_of_rank(story)]
    finally:
        await world.close()


def _out_of_rank(story: Backlog) -> list[str]:
    found: list[str] = []
    furthest = 0
    in_order = sorted(story.asked.values(), key=lambda one: story.first(one.run_id))
    for i, one in enumerate(in_order):
        began = story.first(one.run_id)
        for later in in_order[i + 1 :]:
            if later.due > began - SLACK:
                continue  # it was not there, or nobody could know
            if rank(later.spec.priority, Instant(later.due)) < rank(one.spec.priority, Instant(one.due)):
                found.append(f"{short(one.run_id)} {one.spec.priority.name} went ahead of {short(later.run_id)}")
            furthest = max(furthest, one.due - later.due)
    most = HEAD_START[Priority.LOW] - HEAD_START[Priority.HIGH]
    if not 4 * MINUTE < furthest <= most:
        found.append(f"one was overtaken by another that came {furthest // SECOND} s later")
    return found


# ---------------------------------------------------------------------------------------------------------------- sizes

BIG_AND_SMALL = {
    "slots": (Resources(slots=3), Resources()),
    "cpu": (Resources(cpu_milli=900), Resources(cpu_milli=300)),
    "memory": (Resources(memory_mb=900), Resources(memory_mb=300)),
}


async def sizes(what: str) -> list[str]:
    """Small ones come all the time, so that there is never room for a big one by itself."""
    big, small = BIG_AND_SMALL[what]
    world, lasts = World(0, await new_store(0)), 2500 * MILLISECOND
    try:
        story = Backlog(world, Shape(3))
        for second in range(60):
            story.ask(second * SECOND, lasts, resources=small)
        waits = [story.ask(second * SECOND, lasts, resources=big) for second in (10, 30)]
        found = await story.play()
        longest = KEEP_AFTER[Priority.NORMAL] + lasts + SLACK
        for run_id in waits:
            if (late := story.first(run_id) - story.asked[run_id].due) > longest:
                found.append(f"a big one waited {late / SECOND} s")
        return found
    finally:
        await world.close()


# ---------------------------------------------------------------------------------------------------------------- users


async def users() -> list[str]:
    """One has far more than can be done soon; others ask for little."""
    world, lasts = World(0, await new_store(0)), 5 * SECOND
    try:
        story = Backlog(world, Shape(10))
        for n in range(300):
            story.ask(n, lasts + n % 10 * 500 * MILLISECOND)
        others = [story.ask(at * SECOND, lasts, user) for at in (20, 40, 60) for user in (1, 1, 2)]
        found = await story.play()
        for run_id in others:
            # Places come free one after the other, and every second one is theirs.
            if (late := story.first(run_id) - story.asked[run_id].due) > LATE + lasts + SLACK:
                found.append(f"one of those who ask for little waited {late / SECOND} s")
        return found
    finally:
        await world.close()


async def users_with_long_runs() -> list[str]:
    """One holds every place for a long time: what comes free is the other's, until he has a fifth."""
    world, lasts = World(0, await new_store(0)), 60 * SECOND
    try:
        story = Backlog(world, Shape(10))
        story.ask(0, SECOND, 1)
        for n in range(40):
            story.ask(2 * SECOND + n, lasts + n * 5 * SECOND)
        others = [story.ask(20 * SECOND + n, lasts, 1) for n in range(4)]
        found = await story.play()
        for n, run_id in enumerate(others[:2]):
            if (began := story.first(run_id)) > 2 * SECOND + lasts + n * 5 * SECOND + SLACK:
                found.append(f"the other's run {n} began only after {began / SECOND} s")
        return found
    finally:
        await world.close()


# ----------------------------------------------------------------------------------------------------------- preemption


async def giving_way() -> list[str]:
    """What gives way ends at last, though high ones keep coming; and it has its time before it gives way again."""
    world, lasts, until = World(0, await new_store(0)), 90 * SECOND, 15 * MINUTE
    try:
        story = Backlog(world, Shape(2))
        low = [story.ask(0, lasts, priority=Priority.LOW, preemptible=True) for _ in range(2)]
        high = [story.ask(at, 10 * SECOND, priority=Priority.HIGH) for at in range(SECOND, until, 6 * SECOND)]
        found = await story.play()
        for run_id in low:
            found += _not_in_peace(story, run_id, until)
        if not min(story.first(run_id) - story.asked[run_id].due for run_id in high[:1]) < 2 * SECOND:
            found.append("nobody gave way to the first of high priority")
        return found
    finally:
        await world.close()


def _not_in_peace(story: Backlog, run_id: RunId, until: int) -> list[str]:
    view, starts = story.view(run_id), story.starts(run_id)
    found = []
    if view.failures or view.losses:
        found.append(f"giving way counted as {view.failures} failures and {view.losses} losses")
    if view.ended_at is None or view.ended_at > story.begin + until:
        found.append("it did not end while high ones kept coming")
    if len(starts) < 2:
        found.append("it never gave way")
    for gave_way, start in enumerate(starts[:-1]):
        assert start.ended_now is not None
        if start.ended_now - start.now < stint(gave_way):
            found.append(f"it gave way after {(start.ended_now - start.now) / SECOND} s, {gave_way} times before")
    return found
