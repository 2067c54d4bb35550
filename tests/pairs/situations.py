"""What two verbs may find: jobs of each kind, with runs that wait, run, are between attempts, are over.

Every job has the stable key `k`, and its payload tells the version of its definition.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.pairs.verbs import OTHER_GROUP, Situation

from oncue.domain import change
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.job import Rate
from oncue.domain.lane import Concurrency
from oncue.domain.policy import Overlap
from oncue.domain.run import Claimed
from oncue.domain.schedule import Schedule
from oncue_conformance.store import LEASE, LIVE, Store, only

FIRST_VERSION = b'{"v":1}'
RATE = Rate(limit=1, per=Duration(30 * SECOND))

Held = list[Claimed]
Build = Callable[["Scene"], Awaitable[tuple[JobId, RunId]]]


class Scene:
    """A store in which a situation is being made."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held: Held = []
        self.beside: dict[str, Any] = {}  # what somebody else's job shares with ours
        self.silent = False  # whoever has our runs

    async def recurring(self, schedule: Schedule | None = None, **how: Any) -> JobId:
        """Every minute: one run is due and let in, the next is due as well, one is to come, more are to be planned."""
        store = self.store
        job_id = await store.recurring(schedule, key="k", payload=FIRST_VERSION, **how)
        store.advance(MINUTE)
        await store.plan()
        return job_id

    async def go_on(self) -> None:
        self.store.advance(MINUTE)
        await self.store.plan(MINUTE)

    async def one_shot(self, **how: Any) -> RunId:
        return await self.store.one_shot(key="k", payload=FIRST_VERSION, **how)

    async def claim(self, *run_ids: RunId) -> Held:
        found = await self.store.claim(self.worker, *(run_ids or await self.store.claimable()))
        self.held += found
        return found

    async def prepared(self) -> "Scene":
        self.worker = await self.store.worker()
        return self

    async def finished(self, made: tuple[JobId, RunId]) -> Situation:
        """With somebody who waits in the group that the job may be moved to, behind whatever of it is due."""
        store = self.store
        job_id, target = made
        await store.one_shot(group=OTHER_GROUP)
        idle = tuple([await store.worker() for _ in range(3)])
        if not self.silent:
            await store.beat(self.worker)
        live = await store.runs(states=LIVE)
        shared = {"group": None, "gate": None, "rate": None} | self.beside
        new = [(await store.new_one_shot(**shared), await store.new_one_shot(key="k")) for _ in range(2)]
        return Situation(
            now=store.now,
            uid=store.uid,
            job_id=job_id,
            target=target,
            run_ids=tuple(sorted(run.run_id for run in live)),
            held=tuple(self.held),
            worker=self.worker,
            idle=idle,
            new=tuple(new),
        )


async def first_of(scene: Scene, job_id: JobId) -> RunId:
    runs = await scene.store.runs(job_id=job_id, states=LIVE)
    return min(runs, key=lambda run: run.wanted).run_id


def waiting(**how: Any) -> Build:
    async def build(scene: Scene) -> tuple[JobId, RunId]:
        job_id = await scene.recurring(**how)
        await scene.go_on()
        return job_id, await first_of(scene, job_id)

    return build


def running(**how: Any) -> Build:
    async def build(scene: Scene) -> tuple[JobId, RunId]:
        job_id = await scene.recurring(**how)
        target = only(await scene.claim()).run_id
        await scene.go_on()
        return job_id, target

    return build


async def retrying(scene: Scene) -> tuple[JobId, RunId]:
    job_id = await scene.recurring(overlap=Overlap.QUEUE)
    run = only(await scene.claim())
    await scene.store.fail(scene.worker, run)
    scene.held.clear()
    await scene.go_on()
    return job_id, run.run_id


async def grouped(scene: Scene) -> tuple[JobId, RunId]:
    """One runs, and others wait behind it: in its group, and at its gate only."""
    scene.beside = {"group": "g", "gate": ("c", 1)}
    job_id = await scene.recurring(group="g", concurrency=Concurrency("c", 1), overlap=Overlap.SKIP)
    target = only(await scene.claim()).run_id
    await scene.store.one_shot(group="g")
    await scene.store.one_shot(gate=("c", 1))
    await scene.go_on()
    return job_id, target


async def rated(scene: Scene) -> tuple[JobId, RunId]:
    """One was given its start and runs, one waits for its own."""
    scene.beside = {"rate": RATE}
    job_id = await scene.recurring(rate=RATE, overlap=Overlap.ALLOW)
    await scene.store.permit()
    await scene.claim()
    await scene.go_on()
    return job_id, await first_of(scene, job_id)


async def granted(scene: Scene) -> tuple[JobId, RunId]:
    """One was given a start of which nobody has made use for a second."""
    scene.beside = {"rate": RATE}
    job_id = await scene.recurring(rate=RATE, overlap=Overlap.QUEUE)
    await scene.store.permit()
    scene.store.advance(SECOND)
    return job_id, await first_of(scene, job_id)


async def one_shot_waiting(scene: Scene) -> tuple[JobId, RunId]:
    run_id = await scene.one_shot()
    return JobId(run_id), run_id


async def one_shot_running(scene: Scene) -> tuple[JobId, RunId]:
    run_id = await scene.one_shot()
    await scene.claim()
    return JobId(run_id), run_id


async def one_shot_in_group(scene: Scene) -> tuple[JobId, RunId]:
    scene.beside = {"group": "g"}
    run_id = await scene.one_shot(group="g")
    await scene.claim()
    await scene.store.one_shot(group="g")
    return JobId(run_id), run_id


async def one_shot_first_in_group(scene: Scene) -> tuple[JobId, RunId]:
    """It waits, let in, and another one behind it."""
    scene.beside = {"group": "g"}
    run_id = await scene.one_shot(group="g")
    scene.store.advance(SECOND)
    await scene.store.one_shot(group="g")
    return JobId(run_id), run_id


async def one_shot_again(scene: Scene) -> tuple[JobId, RunId]:
    """It waits, a further run of it runs, and another waits."""
    store = scene.store
    run_id = await scene.one_shot()
    job_id, further = JobId(run_id), [RunId(store.new_id()) for _ in range(2)]
    for one in further:
        assert await store.change(job_id, lambda snap, one=one: change.run_now(snap, one, store.now))
    await scene.claim(further[0])
    return job_id, run_id


def paused(build: Build) -> Build:
    async def pause(scene: Scene) -> tuple[JobId, RunId]:
        job_id, target = await build(scene)
        assert await scene.store.pause(job_id)
        scene.store.advance(MINUTE)
        return job_id, target

    return pause


async def cancelled(scene: Scene) -> tuple[JobId, RunId]:
    """With a past: one has succeeded, one was skipped, one was cancelled."""
    store = scene.store
    job_id = await scene.recurring(overlap=Overlap.SKIP)
    run = only(await scene.claim())
    await scene.go_on()
    await store.decide_overlaps()
    await store.succeed(scene.worker, run)
    await store.jobs.cancel(None, job_id, store.now)
    scene.held.clear()
    return job_id, run.run_id


async def finished(scene: Scene) -> tuple[JobId, RunId]:
    store = scene.store
    job_id = await scene.recurring(store.every(MINUTE, max_runs=1))
    run = only(await scene.claim())
    await store.succeed(scene.worker, run)
    scene.held.clear()
    return job_id, run.run_id


async def last_running(scene: Scene) -> tuple[JobId, RunId]:
    """Its last run: finished, as far as planning is concerned."""
    job_id = await scene.recurring(scene.store.every(MINUTE, max_runs=1))
    return job_id, only(await scene.claim()).run_id


async def about_to_finish(scene: Scene) -> tuple[JobId, RunId]:
    job_id = await scene.recurring(scene.store.every(MINUTE, max_runs=2))
    return job_id, await first_of(scene, job_id)


async def one_shot_finished(scene: Scene) -> tuple[JobId, RunId]:
    run_id = await scene.one_shot()
    await scene.store.succeed(scene.worker, only(await scene.claim()))
    scene.held.clear()
    return JobId(run_id), run_id


def silent(build: Build) -> Build:
    async def fall_silent(scene: Scene) -> tuple[JobId, RunId]:
        made = await build(scene)
        scene.silent = True
        scene.store.advance(LEASE + SECOND)
        return made

    return fall_silent


def too_late(build: Build) -> Build:
    async def pass_by(scene: Scene) -> tuple[JobId, RunId]:
        made = await build(scene)
        scene.store.advance(30 * SECOND)
        return made

    return pass_by


def one_shot(**how: Any) -> Build:
    async def build(scene: Scene) -> tuple[JobId, RunId]:
        run_id = await scene.one_shot(**how)
        return JobId(run_id), run_id

    return build


IN_TIME = Duration(10 * SECOND)

SITUATIONS: dict[str, Build] = {
    "waiting in its lane": waiting(overlap=Overlap.QUEUE),
    "waiting": waiting(overlap=Overlap.ALLOW),
    "running, next held": running(overlap=Overlap.SKIP),
    "running, to be replaced": running(overlap=Overlap.REPLACE),
    "running, next free": running(overlap=Overlap.ALLOW),
    "retrying": retrying,
    "in a group, at a gate": grouped,
    "rated": rated,
    "granted, unused": granted,
    "paused, running": paused(running(overlap=Overlap.QUEUE)),
    "paused, waiting": paused(waiting(overlap=Overlap.ALLOW)),
    "about to finish": about_to_finish,
    "last one running": last_running,
    "finished": finished,
    "cancelled": cancelled,
    "silent worker": silent(running(overlap=Overlap.QUEUE)),
    "too late": too_late(waiting(overlap=Overlap.QUEUE, start_within=IN_TIME)),
    "one-shot": one_shot_waiting,
    "one-shot running": one_shot_running,
    "one-shot in a group": one_shot_in_group,
    "one-shot first in a group": one_shot_first_in_group,
    "one-shot with further runs": one_shot_again,
    "one-shot paused": paused(one_shot()),
    "one-shot finished": one_shot_finished,
    "one-shot, silent worker": silent(one_shot_running),
    "one-shot too late": too_late(one_shot(start_within=IN_TIME)),
}
