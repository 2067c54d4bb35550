"""Give a stored job another definition: decide the change, and write it unless the job has changed meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import uniform
from typing import TypeVar

from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain import change
from oncue.domain.edits import changed
from oncue.domain.errors import Conflict
from oncue.domain.instants import MILLISECOND, Duration, Instant
from oncue.domain.job import Job, JobStatus, Snapshot, Spec, definition_of
from oncue.engines.port import Hint, StampGuard, Topic
from oncue.intake.context import Author, Intake

TRIES = 20  # before the caller gets a conflict
FIRST_PAUSE = 2 * MILLISECOND
LONGEST_PAUSE = 200 * MILLISECOND
T = TypeVar("T")


class KeepsChanging(Conflict):
    """Others changed the job between every read and the write that followed."""


def in_step(old: Spec, new: Spec) -> Spec:
    """Keep the phase of an interval that does not change."""
    was, asked = old.schedule, new.schedule
    if asked.every is None or (asked.every, asked.start_at) != (was.every, was.start_at):
        return new
    return replace(new, schedule=replace(asked, anchor=was.anchor))


def decide(intake: Intake, snap: Snapshot, wanted: tuple[Spec, bytes | None], now: Instant) -> change.JobChange:
    """Return the change to this definition. Conflict: the job has ended, or runs once and has started."""
    spec, payload = wanted
    same = spec.class_key == snap.job.spec.class_key
    return change.edit(snap, spec, payload, snap.class_id if same else intake.class_id(spec.class_key), now)


async def store_edit(
    intake: Intake,
    snap: Snapshot,
    wanted: tuple[Spec, bytes | None],
    author: Author,
    now: Instant,
    guard: StampGuard | None = None,
) -> Snapshot | None:
    """Store this definition and return the job with it: `snap` itself if it has it already. None: it changed meanwhile.

    Conflict: the job has ended, or runs once and has started. Superseded: the guard does not hold.
    """
    decided = decide(intake, snap, wanted, now)
    if await is_stored(intake, snap.job, *wanted):
        return snap
    await intake.large.save((snap.job.job_id, snap.job.uid, wanted[1]))
    if not await intake.engine.jobs.apply(decided, now, intake.quota_of(author), guard):
        return None
    await intake.engine.signals.send([Hint(Topic.RUNS), Hint(Topic.JOBS)])
    return changed(snap, decided)


def is_so(job: Job, spec: Spec, payload: bytes | None) -> bool:
    return definition_of(job.spec, job.payload) == definition_of(spec, payload)


async def is_stored(intake: Intake, job: Job, spec: Spec, payload: bytes | None) -> bool:
    """Whether nothing is to be written. Who is told is no part of the definition, but may change while a job lives.

    A large payload that was lost is stored again.
    """
    same = is_so(job, spec, payload) and (job.status is JobStatus.FINISHED or job.spec.notify == spec.notify)
    return same and (job.status is JobStatus.FINISHED or payload is job.payload or await intake.large.has(job.payload))


async def until_settled(clock: Clock, attempt: Callable[[], Awaitable[T | None]]) -> T:
    """Call `attempt` until it returns a value. None: the job changed meanwhile, and nothing was written.

    The second call follows at once and finds the current state. Before later calls each request waits for a random
    time, or the same few would be too late every time.
    """
    for number in range(TRIES):
        if number > 1:
            await pause(clock, number)
        settled = await attempt()
        if settled is not None:
            return settled
    raise KeepsChanging("The job kept changing while this request was processed. Nothing was changed; retry.")


async def pause(clock: Clock, number: int) -> None:
    """Wait for a random time, longer from try to try."""
    longest = min(FIRST_PAUSE << number, LONGEST_PAUSE)
    await clock.sleep(Duration(round(uniform(0, longest))))
