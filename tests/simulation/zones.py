"""A world that is being brought from one version of the time-zone rules to another while much goes wrong.

The newer ones have a change of the clock that the older ones know nothing of. Returns what was wrong with the story.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from tests.simulation.bodies import TASK
from tests.simulation.faults import CALM, Weather, ask
from tests.simulation.journal import short
from tests.simulation.shapes import ROOMY
from tests.simulation.world import LIVE, World, new_store

from oncue.domain import change
from oncue.domain.ids import JobId
from oncue.domain.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from oncue.domain.job import Job, Spec
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.run import RunView, Trigger
from oncue.domain.schedule import Schedule, occurrences
from oncue.engines.port import Engine, NewJob, RunQuery
from oncue.testing.logs import capture_logs
from oncue.testing.rules import made_up

# In Berlin the story begins at one o'clock. What comes every few seconds follows real time; the others are fixed times,
# one of them in the seconds that are missing.
CRONS = ("5-59/10 * * * * *", "*/7 * * * * *", "15,25,35 0 1 * * *", "40 0 1 * * *", "2 0 1 * * *")
UPDATE, CHANGE, END = 4 * SECOND, 14 * SECOND, 45 * SECOND
AHEAD = Duration(HOUR + 6 * SECOND)  # by newer rules the clock jumps by six seconds


async def two_versions(seed: int, plant: Callable[[Engine], Engine] = lambda engine: engine) -> list[str]:
    world = World(seed, await new_store(seed), plant)
    begin = world.clock.now()
    newer = made_up("9999a", HOUR, (Instant(begin + CHANGE), AHEAD))
    try:
        jobs = [_asked(world, cron) for cron in CRONS * 2]
        with capture_logs():
            for _ in range(2):
                world.start_scheduler()
            world.start_worker(ROOMY)
            await _until(world, begin + UPDATE)
            world.start_scheduler(newer)
            await _until(world, begin + 2 * UPDATE)
            if not world.calm:
                world.way.weather = Weather.of(world.chance)
            await _until(world, begin + END)
            world.way.weather = CALM
            await _until(world, begin + 2 * END)
        expected = {job.job_id: list(occurrences(job.spec.schedule, begin, _end(begin), newer)) for job in jobs}
        return [*world.journal.crashes, *_wrong(world, expected)]
    finally:
        await world.close()


def _asked(world: World, cron: str) -> Job:
    """By whoever knows only the older rules."""
    now = world.clock.now()
    schedule = Schedule(cron=cron, timezone="Europe/Berlin", end_at=_end(now))
    spec = Spec(TASK, schedule, overlap=Overlap.ALLOW, catch_up=CatchUp.ALL)
    [class_id] = ask(world.engine.jobs.intern([spec.class_key]))
    payload = msgspec.json.encode({"lasts": 100 * MILLISECOND})
    job = Job(JobId(world.new_id()), world.uids[0], spec, payload, created_at=now, updated_at=now)
    ask(world.engine.jobs.create([NewJob(job, class_id, cursor=change.first_cursor(schedule, now))], now))
    return job


def _end(begin: Instant) -> Instant:
    return Instant(begin + END)


async def _until(world: World, when: int) -> None:
    while world.clock.now() < when:
        await world.step()
        if world.storming:
            world._strike()


def _wrong(world: World, expected: dict[JobId, list[Instant]]) -> list[str]:
    runs: list[RunView] = world.all_runs(RunQuery())
    found = [f"run {short(run.run_id)} is {run.state.name}" for run in runs if run.state in LIVE]
    if world.calm:
        found += [f"run {short(run.run_id)} was late" for run in runs if run.trigger is Trigger.CATCH_UP]
    for job_id, wanted in expected.items():
        made = Counter(run.nominal for run in runs if run.job_id == job_id)
        if made != Counter(wanted):
            more, fewer = made - Counter(wanted), Counter(wanted) - made
            found.append(f"job {short(job_id)}: too many {sorted(more.elements())}, missing {sorted(fewer.elements())}")
        if ask(world.engine.lists.ledger(None, job_id)).items:
            found.append(f"job {short(job_id)}: something stands in the ledger")
    return found
