"""Stable keys: of a user's jobs that have not ended at most one has a given key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.domain.ids import JobId, UserNumber
from oncue.engines.port import Created, Creation, NewJob

StableKey = tuple[UserNumber, str]


def first_with_each(new: Sequence[NewJob], answers: Sequence[Creation]) -> dict[StableKey, JobId]:
    """The keys that are asked for, in order, and for each the first in the batch: it alone can get it."""
    first: dict[StableKey, JobId] = {}
    for job, answer in zip(new, answers, strict=True):
        if answer.outcome is Created.NEW and job.job.spec.key is not None:
            first.setdefault((job.job.uid, job.job.spec.key), job.job.job_id)
    return dict(sorted(first.items()))


def refuse_taken(
    new: Sequence[NewJob], answers: Sequence[Creation], holders: Mapping[StableKey, JobId]
) -> list[Creation]:
    """The answers, but for those whose key belongs to another: `holders` says who may have each key.

    Who repeats a request that is refused is refused as well.
    """
    refused: dict[JobId, Creation] = {}
    decided = []
    for job, answer in zip(new, answers, strict=True):
        if answer.outcome is Created.NEW and job.job.spec.key is not None:
            holder = holders[job.job.uid, job.job.spec.key]
            if holder != job.job.job_id:
                answer = refused[job.job.job_id] = Creation(Created.KEY_TAKEN, holder)
        elif answer.outcome is Created.REPEATED:
            answer = refused.get(answer.job_id, answer)
        decided.append(answer)
    return decided
