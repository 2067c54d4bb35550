"""What all engines share about classes: which numbers must be found with the jobs, which are in use, which may go.

A class goes when no job and no dead letter has it, it has no open run, and none in history. Its counts tell the last
two: every change of a run's state changes them. A process that caches a class number asks for the class again now
and then, much more often than the class would take to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import DAY, HOUR, Instant
from oncue.domain.placement import GONE, ClassKey, too_many_classes
from oncue.engines.port import Created, Creation, NewJob

GOOD_FOR: Final = HOUR  # how long a process may cache a class number before it asks for the class again
LINGER: Final = DAY  # how long an unused class stays, at least; many times as long as its number is valid
AT_A_TIME: Final = 1_000  # classes that one transaction looks at


def wanted(new: Sequence[NewJob]) -> dict[ClassKey, UserNumber | None]:
    """Return the classes of jobs without a number, each with the user to create it for if it does not exist."""
    found: dict[ClassKey, UserNumber | None] = {}
    for job in new:
        if not job.class_id:
            found.setdefault(job.job.spec.class_key, job.job.uid)
    return found


def refuse_too_many(missing: Mapping[ClassKey, UserNumber | None], made: Mapping[int, int], most: int) -> None:
    """Raise TooManyClasses if a user who has `made` this many classes may not create all of their missing ones."""
    after = Counter(made)
    for key, uid in missing.items():
        if uid is not None:
            after[uid] += 1
            if 0 < most < after[uid]:
                raise too_many_classes(key, most)


def numbered(new: Sequence[NewJob], numbers: Mapping[ClassKey, ClassId]) -> list[NewJob]:
    """Return the same jobs, each with the number of its class."""
    return [job if job.class_id else _with_number(job, numbers[job.job.spec.class_key]) for job in new]


def _with_number(job: NewJob, class_id: ClassId) -> NewJob:
    run = None if job.run is None else msgspec.structs.replace(job.run, class_id=class_id)
    return msgspec.structs.replace(job, class_id=class_id, run=run)


def with_class_numbers(
    new: Sequence[NewJob], answers: Sequence[Creation], numbers: Mapping[ClassKey, ClassId]
) -> list[Creation]:
    """Return the answers, with the class number for jobs that came without one."""
    return [
        msgspec.structs.replace(answer, class_id=numbers[job.job.spec.class_key])
        if answer.outcome is Created.NEW and not job.class_id
        else answer
        for job, answer in zip(new, answers, strict=True)
    ]


class Looked(msgspec.Struct, frozen=True):
    """A class as one check finds it."""

    class_id: ClassId
    task: str
    queue: str
    used_at: Instant | None  # the check that last found it in use; None: a caller has asked for it since
    counted: int  # the sum of its counts at that check
    counts: int  # their sum now
    open: int  # runs that have not ended
    named: bool  # by a job, a dead letter, or a count that is not rolled up yet


class Verdict(msgspec.Struct, frozen=True):
    used: list[Looked]  # since the last check
    gone: list[ClassId]  # nothing refers to them any more
    stand_ins: list[ClassKey]  # the classes that adopt their counts, one for each task


def weigh(looked: Sequence[Looked], kept_from: Instant, now: Instant) -> Verdict:
    """Decide which classes are in use and which go. `kept_from`: history has nothing that ended before."""
    used = [one for one in looked if one.used_at is None or one.counts != one.counted]
    gone = [one for one in looked if one.counts == one.counted and _is_idle(one, kept_from, now)]
    tasks = sorted({one.task for one in gone if one.counts})
    return Verdict(used, [one.class_id for one in gone], [ClassKey(task, queue=GONE) for task in tasks])


def _is_idle(one: Looked, kept_from: Instant, now: Instant) -> bool:
    if one.used_at is None or one.named or one.open or one.queue == GONE:
        return False
    return one.used_at < (min(kept_from, now) if one.counts else now) - LINGER
