"""Classes, whatever the engine: whose number has to be found with the jobs, which are in use, which may go.

A class goes when no job and no dead letter has it, no run of it is open, and none is left in history. Of the last two
its counts tell: whatever becomes of a run moves them. Whoever keeps a number in mind says so now and then, and much
more often than would let the class go.
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

GOOD_FOR: Final = HOUR  # so long a number may be kept in mind without asking for the class again
LINGER: Final = DAY  # so long at least a class stays that nobody uses; many times as long as its number is good for
AT_A_TIME: Final = 1_000  # classes that one turn looks at


def wanted(new: Sequence[NewJob]) -> dict[ClassKey, UserNumber | None]:
    """The classes of those that came without a number, each with whom it is made for if there is none yet."""
    found: dict[ClassKey, UserNumber | None] = {}
    for job in new:
        if not job.class_id:
            found.setdefault(job.job.spec.class_key, job.job.uid)
    return found


def refuse_too_many(missing: Mapping[ClassKey, UserNumber | None], made: Mapping[int, int], most: int) -> None:
    """TooManyClasses: one of these users has `made` so many that there is no room for all of their missing ones."""
    after = Counter(made)
    for key, uid in missing.items():
        if uid is not None:
            after[uid] += 1
            if 0 < most < after[uid]:
                raise too_many_classes(key, most)


def numbered(new: Sequence[NewJob], numbers: Mapping[ClassKey, ClassId]) -> list[NewJob]:
    """The same jobs, each with the number of its class."""
    return [job if job.class_id else _with_number(job, numbers[job.job.spec.class_key]) for job in new]


def _with_number(job: NewJob, class_id: ClassId) -> NewJob:
    run = None if job.run is None else msgspec.structs.replace(job.run, class_id=class_id)
    return msgspec.structs.replace(job, class_id=class_id, run=run)


def told(new: Sequence[NewJob], answers: Sequence[Creation], numbers: Mapping[ClassKey, ClassId]) -> list[Creation]:
    """The answers with the numbers that those who came without do not know yet."""
    return [
        msgspec.structs.replace(answer, class_id=numbers[job.job.spec.class_key])
        if answer.outcome is Created.NEW and not job.class_id
        else answer
        for job, answer in zip(new, answers, strict=True)
    ]


class Looked(msgspec.Struct, frozen=True):
    """A class as a look at it finds it."""

    class_id: ClassId
    task: str
    queue: str
    used_at: Instant | None  # the look that last found it in use; None: somebody has asked for it since
    counted: int  # what its counts came to at that look
    counts: int  # what they come to now
    open: int  # runs that have not ended
    named: bool  # by a job, a dead letter, or a count that is not folded yet


class Verdict(msgspec.Struct, frozen=True):
    used: list[Looked]  # since the last look
    gone: list[ClassId]  # nothing refers to them any more
    stand_ins: list[ClassKey]  # who takes over the counts of these, one for each task


def weigh(looked: Sequence[Looked], kept_from: Instant, now: Instant) -> Verdict:
    """`kept_from`: history has nothing that ended before."""
    used = [one for one in looked if one.used_at is None or one.counts != one.counted]
    gone = [one for one in looked if one.counts == one.counted and _is_idle(one, kept_from, now)]
    tasks = sorted({one.task for one in gone if one.counts})
    return Verdict(used, [one.class_id for one in gone], [ClassKey(task, queue=GONE) for task in tasks])


def _is_idle(one: Looked, kept_from: Instant, now: Instant) -> bool:
    if one.used_at is None or one.named or one.open or one.queue == GONE:
        return False
    return one.used_at < (min(kept_from, now) if one.counts else now) - LINGER
