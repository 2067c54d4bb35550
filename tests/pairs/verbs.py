"""Every verb that touches a run or a job, as services and the API call it: on the things of a situation."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid5

import msgspec

from oncue.domain import attempt, change, overlap, planning
from oncue.domain.change import JobChange
from oncue.domain.errors import Conflict
from oncue.domain.ids import JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Snapshot, decode_spec
from oncue.domain.policy import CatchUp
from oncue.domain.run import Claimed, Settlement
from oncue.domain.schedule import Schedule
from oncue.engines.port import Engine, NewJob
from oncue.services.reaper import lost

TRIES = 20  # as often as the API looks and decides again
AHEAD = Duration(2 * MINUTE)  # that planning looks
SECOND_VERSION = b'{"v":2}'
OTHER_GROUP = "h"


class Situation(msgspec.Struct):
    """What there is before two verbs meet: a job, its runs, who works on it."""

    now: Instant
    uid: UserNumber
    job_id: JobId
    target: RunId  # the run that is cancelled
    run_ids: tuple[RunId, ...]  # all that live
    held: tuple[Claimed, ...]  # what `worker` has
    worker: WorkerId
    idle: tuple[WorkerId, ...]  # one each for those who claim, and one for who comes last
    new: tuple[tuple[NewJob, ...], ...]  # what each of the two creates


class Act(msgspec.Struct):
    """Somebody's part in it. `who` is 0 or 1: so that two who do the same do not make the same things."""

    engine: Engine
    at: Situation
    who: int = 0

    @property
    def id(self) -> UUID:
        return uuid5(self.at.job_id, f"made by {self.who}")

    async def changed(self, decide: Callable[[Snapshot], JobChange]) -> JobChange | None:
        """Look, decide, write; again if it moved on meanwhile. None: there is no such job."""
        for _ in range(TRIES):
            snap = await self.engine.jobs.read(None, self.at.job_id)
            if snap is None:
                return None
            decided = decide(snap)
            if await self.engine.jobs.apply(decided, self.at.now):
                return decided
        raise AssertionError("it moved on every time")


async def create(do: Act) -> Any:
    """One into the same lanes, and one with the same stable key."""
    return await do.engine.jobs.create(do.at.new[do.who], do.at.now)


async def claim(do: Act) -> Any:
    return await do.engine.running.claim(do.at.idle[do.who], do.at.run_ids, do.at.now)


async def succeed(do: Act) -> Any:
    now = do.at.now
    return await _settle(do, [attempt.succeeded(run, now, now, None) for run in do.at.held])


async def retry(do: Act) -> Any:
    now, worker = do.at.now, do.at.worker
    broke = attempt.Failure(error_type="Boom", error="it broke")
    failed = [attempt.failed(run, decode_spec(run.spec), worker, now, now, broke, 0.0) for run in do.at.held]
    return await _settle(do, failed)


async def _settle(do: Act, settlements: Sequence[Settlement]) -> Any:
    return await do.engine.running.settle(do.at.worker, settlements, do.at.now)


async def hand_back(do: Act) -> Any:
    return await do.engine.running.hand_back(do.at.worker, do.at.held, do.at.now)


async def cancel_run(do: Act) -> Any:
    return await do.engine.running.cancel(None, do.at.target, do.at.now)


async def cancel_job(do: Act) -> Any:
    return await do.engine.jobs.cancel(None, do.at.job_id, do.at.now)


async def edit(do: Act) -> Any:
    return await do.changed(lambda snap: change.edit(snap, snap.job.spec, SECOND_VERSION, snap.class_id, do.at.now))


async def move(do: Act) -> Any:
    """An edit that puts it into another group, and so its runs into another lane."""

    def decide(snap: Snapshot) -> JobChange:
        spec = msgspec.structs.replace(snap.job.spec, group=OTHER_GROUP)
        return change.edit(snap, spec, SECOND_VERSION, snap.class_id, do.at.now)

    return await do.changed(decide)


async def turn(do: Act) -> Any:
    """An edit that makes a one-shot of what was recurring, and the other way round."""

    def decide(snap: Snapshot) -> JobChange:
        at = do.at.now
        recurring = snap.job.spec.schedule.recurring
        schedule = Schedule(at=at) if recurring else Schedule(every=Duration(MINUTE), anchor=at)
        spec = msgspec.structs.replace(snap.job.spec, schedule=schedule)
        return change.edit(snap, spec, SECOND_VERSION, snap.class_id, at)

    return await do.changed(decide)


async def pause(do: Act) -> Any:
    return await do.changed(lambda snap: change.pause(snap, do.at.now))


async def resume(do: Act) -> Any:
    return await do.changed(lambda snap: change.resume(snap, CatchUp.ALL, do.at.now))


async def run_now(do: Act) -> Any:
    return await do.changed(lambda snap: change.run_now(snap, RunId(do.id), do.at.now))


async def backfill(do: Act) -> Any:
    until = do.at.now
    stretch = (do.at.job_id, Instant(until - 2 * MINUTE), until)
    return await do.changed(lambda snap: change.backfill(snap, *stretch, until))


async def withdraw(do: Act) -> Any:
    now = do.at.now
    decisions = list(overlap.decide(await do.engine.planning.overdue(500, now), now))
    withdrawals = [one for one in decisions if isinstance(one, overlap.Withdrawal)]
    taken = await do.engine.planning.withdraw(withdrawals, now) if withdrawals else frozenset()
    for going in dict.fromkeys(one.going for one in decisions if isinstance(one, overlap.Displacement)):
        await do.engine.running.cancel(None, going, now)
    return taken


async def expire(do: Act) -> Any:
    return await do.engine.planning.expire(100, do.at.now)


async def recover_runs(do: Act) -> Any:
    now = do.at.now
    workers = await do.engine.fleet.workers()
    await do.engine.fleet.expire_workers(
        {one.worker_id: one.beat_at for one in workers if one.beat_at + one.lease < now}
    )
    return await do.engine.running.recover_runs(100, now, lambda run, worker, since: lost(run, worker, since, now))


async def purge(do: Act) -> Any:
    gone = 0
    while some := await do.engine.jobs.purge(do.at.job_id, 1):
        gone += some
    return gone


async def plan(do: Act) -> Any:
    now, until = do.at.now, Instant(do.at.now + AHEAD)
    return await do.engine.planning.plan(until, 100, now, lambda job: planning.plan(job, now, until))


async def permit(do: Act) -> Any:
    return await do.engine.planning.permit(Instant(do.at.now + SECOND), 100, do.at.now)


Verb = Callable[[Act], Awaitable[Any]]

VERBS: dict[str, Verb] = {
    verb.__name__.replace("_", " "): verb
    for verb in (
        create, claim, succeed, retry, hand_back, cancel_run, cancel_job, edit, move, turn, pause, resume, run_now,
        backfill, withdraw, expire, recover_runs, purge, plan, permit,
    )
}  # fmt: skip


async def answer_of(verb: Verb, do: Act) -> Any:
    """What it said, or the refusal that it is documented to give."""
    try:
        return await verb(do)
    except Conflict as refused:
        return refused
