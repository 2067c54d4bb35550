"""Decide which jobs of one call are stored: those with a free stable key whose user has quota left.

A user's usage is not stored exactly: creating jobs raises a bound, and ending a job does not lower it. The bound is
never too low. Only where the bound leaves no capacity does the engine count the user's jobs, and that figure decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.job import definition_of
from oncue.domain.quota import ANY
from oncue.domain.reference import size_of
from oncue.engines.port import Created, Creation, NewJob, Quota, Usage

StableKey = tuple[UserNumber, str]
REFUSED: Final = frozenset({Created.KEY_TAKEN, Created.OVER_QUOTA})
UNKNOWN: Final = Usage(ANY, ANY, ANY)  # the bound of a user whose jobs were not counted yet


class Admission(msgspec.Struct, frozen=True):
    answers: list[Creation]
    takers: dict[StableKey, JobId]  # the job that takes each stable key
    added: dict[UserNumber, Usage]  # what the call adds to each user who has a quota
    over_quota: set[UserNumber]  # users for whom a job was refused because of the quota


def first_with_each(new: Sequence[NewJob], answers: Sequence[Creation]) -> dict[StableKey, JobId]:
    """Return the requested stable keys, in order, each with the first job of the call that requests it."""
    first: dict[StableKey, JobId] = {}
    for job, answer in zip(new, answers, strict=True):
        if answer.outcome is Created.NEW and job.job.spec.key is not None:
            first.setdefault((job.job.uid, job.job.spec.key), job.job.job_id)
    return dict(sorted(first.items()))


def definitions(new: Sequence[NewJob]) -> dict[JobId, bytes]:
    """Return the definitions that must be remembered as long as their stable key is."""
    return {
        job.job.job_id: definition_of(job.job.spec, job.job.payload)
        for job in new
        if job.applied and job.job.spec.key is not None
    }


def quotas_of(new: Sequence[NewJob]) -> dict[UserNumber, Quota]:
    """Return the users who have a quota, in order, each with the largest quota that came with one of their jobs."""
    found: dict[UserNumber, Quota] = {}
    for job in new:
        if job.quota is not None:
            other = found.get(job.job.uid, job.quota)
            found[job.job.uid] = Quota(max(job.quota.jobs, other.jobs), max(job.quota.payload, other.payload))
    return dict(sorted(found.items()))


def admit(
    new: Sequence[NewJob],
    answers: Sequence[Creation],
    holders: Mapping[StableKey, JobId],
    used: Mapping[UserNumber, Usage],
) -> Admission:
    """Admit jobs one after the other, as if each came alone. `holders`: active or paused jobs with a requested key.

    A repeat of a refused request is refused as well.
    """
    admission = Admission([], {}, {}, set())
    refused: dict[JobId, Creation] = {}
    for job, answer in zip(new, answers, strict=True):
        if answer.outcome is Created.NEW:
            answer = _admit_one(job, admission, holders, used)
            if answer.outcome is not Created.NEW:
                refused[job.job.job_id] = answer
        elif answer.outcome is Created.REPEATED:
            answer = refused.get(answer.job_id, answer)
        admission.answers.append(answer)
    return admission


def _admit_one(
    job: NewJob, admission: Admission, holders: Mapping[StableKey, JobId], used: Mapping[UserNumber, Usage]
) -> Creation:
    uid, job_id, name = job.job.uid, job.job.job_id, job.job.spec.key
    if name is not None:
        holder = holders.get((uid, name)) or admission.takers.get((uid, name), job_id)
        if holder != job_id:
            return Creation(Created.KEY_TAKEN, holder)
    if job.quota is not None:
        size, added = Usage(1, size_of(job.job.payload)), admission.added.get(uid, Usage())
        has = used[uid].plus(added)
        if job.quota.refuses(has, size):
            admission.over_quota.add(uid)
            return Creation(Created.OVER_QUOTA, job_id, has)
        admission.added[uid] = added.plus(size)
    if name is not None:
        admission.takers[uid, name] = job_id
    return Creation(Created.NEW, job_id)


def bound_after(bound: Usage, counted: Usage, quota: Quota) -> Usage:
    """Return the bound, lowered to each count that was completed."""
    return Usage(
        counted.jobs if counted.jobs <= quota.jobs else bound.jobs,
        counted.payload if quota.payload else bound.payload,
        counted.runs if counted.runs <= quota.runs else bound.runs,
    )
