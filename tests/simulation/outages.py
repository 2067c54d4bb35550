"""Worlds in which nobody claims, or nobody plans, for a while: no worker, a paused queue, an hour without schedulers or
store. Each function tells such a story and returns what was wrong with it.
"""

from __future__ import annotations

from collections import Counter

import msgspec
from tests.simulation.bodies import TASK
from tests.simulation.faults import CALM, Weather, ask
from tests.simulation.journal import short
from tests.simulation.shapes import Shape
from tests.simulation.world import World, new_store

from oncue.domain import change
from oncue.domain.ids import JobId
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Job, Spec
from oncue.domain.planning import GRACE, MOST_LATE, MOST_RUNS, PLANNED_AT_ONCE
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import RunView, State, Trigger
from oncue.domain.schedule import Schedule, occurrences
from oncue.engines.port import NewJob, RunQuery
from oncue.services.overlap import AHEAD
from oncue.testing.logs import capture_logs

STRIDE = 250 * MILLISECOND
SLACK = AHEAD + 2 * STRIDE  # until overlap has looked again
WAITING = frozenset({State.WAITING})
ALL = frozenset(State)


class Outage:
    """Two schedulers and some recurring jobs of one user."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: dict[JobId, Job] = {}
        world.stride = STRIDE
        for _ in range(2):
            world.start_scheduler()

    def ask(self, schedule: Schedule, **spec: object) -> JobId:
        now, engine = self.world.clock.now(), self.world.engine
        wanted = Spec(TASK, schedule, max_retries=0, **spec)  # type: ignore[arg-type]  # any of its fields
        [class_id] = ask(engine.jobs.intern([wanted.class_key]))
        payload = msgspec.json.encode({"lasts": 0})
        job = Job(JobId(self.world.new_id()), self.world.uids[0], wanted, payload, created_at=now, updated_at=now)
        ask(engine.jobs.create([NewJob(job, class_id, cursor=change.first_cursor(schedule, now))], now))
        self.jobs[job.job_id] = job
        return job.job_id

    def every(self, length: int, **spec: object) -> JobId:
        return self.ask(Schedule(every=Duration(length), anchor=self.world.clock.now()), **spec)

    async def pass_time(self, length: int) -> None:
        until = self.world.clock.monotonic() + length
        while self.world.clock.monotonic() < until:
            await self.world.step()

    def runs(self, job_id: JobId, states: frozenset[State] = ALL) -> list[RunView]:
        return self.world.all_runs(RunQuery(job_id=job_id, states=states))

    def floor(self, job_id: JobId) -> Instant:
        snap = ask(self.world.engine.jobs.read(None, job_id))
        assert snap is not None
        assert snap.cursor is not None
        return snap.cursor.floor

    def behind(self) -> bool:
        now = self.world.clock.now()
        return any(now - self.floor(job_id) > job.spec.schedule.every for job_id, job in self.jobs.items())  # type: ignore[operator]  # they have one

    # ----------------------------------------------------------------------------------------------- what must be true

    def too_many_wait(self) -> list[str]:
        """One of each job, and those that a planner might have planned a little late."""
        found, now = [], self.world.clock.now()
        for job_id, job in self.jobs.items():
            due = [run for run in self.runs(job_id, WAITING) if run.wanted < now - SLACK]
            between = list(occurrences(job.spec.schedule, Instant(now - GRACE - SLACK), Instant(now - SLACK)))
            if len(due) > 1 + len(between):
                found.append(f"{len(due)} of job {short(job_id)} wait under {job.spec.overlap.name}")
        return found

    def fates(self) -> list[str]:
        return [problem for job_id in self.jobs for problem in self._fates(job_id)]

    def _fates(self, job_id: JobId) -> list[str]:
        job = self.jobs[job_id]
        expected = set(occurrences(job.spec.schedule, job.created_at, self.floor(job_id)))
        fates = Counter(run.nominal for run in self.runs(job_id))
        after: str | None = None
        while True:
            page = ask(self.world.engine.lists.ledger(None, job_id, after=after))
            for entry in page.items:
                fates.update(at for at in expected if entry.first <= at <= entry.last)
            if (after := page.next) is None:
                break
        wrong = {at: fates[at] for at in expected | fates.keys() if fates[at] != 1 or at not in expected}
        return [f"occurrences of job {short(job_id)} have {sorted(wrong.values())[:10]} fates"] if wrong else []

    def long_passes(self) -> list[str]:
        most = max(self.world.journal.planned, default=0)
        return [f"{most} runs were planned in one transaction"] if most >= PLANNED_AT_ONCE + MOST_RUNS else []

    def problems(self) -> list[str]:
        return [*self.world.journal.crashes, *self.fates(), *self.long_passes()]


async def nobody_claims(policy: Overlap, why: str) -> list[str]:
    """For a minute and a half; then somebody does."""
    world = World(0, await new_store(0))
    try:
        story, found = Outage(world), []
        for length in (1, 3, 20):
            story.every(length * SECOND, overlap=policy)
        story.ask(Schedule(cron="*/2 * * * * *"), overlap=policy)
        if why == "a paused queue":
            world.start_worker(Shape(10))
            ask(world.engine.fleet.pause_queue("default", world.clock.now()))
        with capture_logs():
            for _ in range(30):
                await story.pass_time(3 * SECOND)
                found += story.too_many_wait()
            if why == "a paused queue":
                ask(world.engine.fleet.resume_queue("default", world.clock.now()))
            else:
                world.start_worker(Shape(10))
            await story.pass_time(30 * SECOND)
        began = {start.job_id for start in world.journal.starts}
        found += [f"nothing of job {short(job_id)} ran in the end" for job_id in story.jobs if job_id not in began]
        return [*found, *story.too_many_wait(), *story.problems()]
    finally:
        await world.close()


async def an_hour_away(what: str) -> list[str]:
    """Nobody plans for an hour; then all that was missed is caught up with, a little at a time."""
    world = World(0, await new_store(0))
    try:
        story = Outage(world)
        jobs = [story.every(3 * SECOND, catch_up=CatchUp.ALL) for _ in range(6)]
        story.every(5 * SECOND, catch_up=CatchUp.LAST)
        with capture_logs():
            await story.pass_time(10 * SECOND)
            if what == "the schedulers":
                for process in list(world.processes):
                    world.left += process.kill()
                    world.processes.remove(process)
                await world.clock.advance(HOUR)
                world.start_scheduler()
            else:
                world.way.weather = Weather(request_lost=1.0)
                for _ in range(60):
                    await world.clock.advance(MINUTE)
                    await story.pass_time(SECOND)
                world.way.weather = CALM
            for _ in range(20):
                await story.pass_time(2 * SECOND)
                if not story.behind():
                    break
            else:
                return ["it was not caught up with"]
        found = story.problems()
        for job_id in jobs:
            late = sum(run.trigger is Trigger.CATCH_UP for run in story.runs(job_id))
            if late != MOST_LATE:
                found.append(f"{late} late ones of job {short(job_id)} were planned")
        return found
    finally:
        await world.close()
