"""Turn checked definitions into what an engine stores, and into hints that something is due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncue.domain import change
from oncue.domain.errors import Conflict
from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant
from oncue.domain.job import Job
from oncue.domain.notices import late_notices
from oncue.domain.quota import exceeded
from oncue.domain.reference import size_of
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Created, Creation, Hint, NewJob, Quota, Topic, Usage

CREATE = "job.create"  # its name in the audit log


def new_job(job: Job, class_id: ClassId, now: Instant, quota: Quota | None, defaults: KnownDefaults) -> NewJob:
    if job.spec.schedule.recurring:
        return NewJob(job, class_id, cursor=change.first_cursor(job.spec.schedule, now), quota=quota)
    run = change.only_run(job, class_id, now)
    late = late_notices(run, job.spec, defaults.of(job.uid), defaults.rate)
    return NewJob(job, class_id, run=run, quota=quota, notices=late)


def hint_of(new: NewJob) -> Hint:
    if new.run is not None:
        return Hint(Topic.RUNS, due=new.run.wanted)
    return Hint(Topic.JOBS, due=new.cursor.next_at if new.cursor else None)


def hints_of(news: Iterable[NewJob]) -> list[Hint]:
    """Of each topic, the earliest hint."""
    first: dict[Topic, Hint] = {}
    for found in map(hint_of, news):
        known = first.get(found.topic)
        if known is None or (known.due is not None and (found.due is None or found.due < known.due)):
            first[found.topic] = found
    return list(first.values())


def refuse_over_quota(new: Sequence[NewJob], created: Sequence[Creation]) -> None:
    """Raise QuotaExceeded if some of these jobs exceed a quota. Of several, stored all or none, none was stored."""
    refused = next((index for index, one in enumerate(created) if one.outcome is Created.OVER_QUOTA), None)
    if refused is None:
        return
    job, used = new[refused], created[refused].used
    assert job.quota is not None
    assert used is not None
    fitting = [index for index, one in enumerate(created) if one.outcome is Created.NEW]
    before = [_size(new[index]) for index in fitting if index < refused]
    had = Usage(used.jobs - len(before), used.payload - sum(size.payload for size in before))
    told = "" if len(new) == 1 else f"; {len(fitting)} of these {len(new)} would fit"
    error = exceeded(job.quota, used, _size(job), had, told)
    if len(new) > 1 and error.path:
        error.path = f"jobs.{refused}.{error.path}"
    raise error


def refuse_taken(*created: Creation) -> None:
    """Conflict: another active or paused job has the stable key of one of these."""
    taken = next((one.job_id for one in created if one.outcome is Created.KEY_TAKEN), None)
    if taken is not None:
        raise Conflict(
            f"Job {taken} already has this key."
            " Replace it with PUT /v1/jobs/by-key/{key}, cancel it, or choose another key."
        )


def _size(job: NewJob) -> Usage:
    return Usage(1, size_of(job.job.payload))
