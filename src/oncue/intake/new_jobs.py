"""Turn checked definitions into what an engine stores, and into hints that something is due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncue.domain import change
from oncue.domain.errors import Conflict
from oncue.domain.ids import ClassId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.job import Job
from oncue.domain.lane import FREE
from oncue.domain.notices import late_notices
from oncue.domain.quota import exceeded
from oncue.domain.reference import size_of
from oncue.domain.run import Peeked
from oncue.engines.hints import free_or_held
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Created, Creation, Hint, NewJob, Quota, Topic, Usage

CREATE = "job.create"  # its name in the audit log
FAR_OFF = Duration(10 * SECOND)  # schedulers poll sooner than this, without a hint


def new_job(job: Job, class_id: ClassId, now: Instant, quota: Quota | None, defaults: KnownDefaults) -> NewJob:
    if job.spec.schedule.recurring:
        return NewJob(job, class_id, cursor=change.first_cursor(job.spec.schedule, now), quota=quota)
    run = change.only_run(job, class_id, now)
    late = late_notices(run, job.spec, defaults.of(job.uid), defaults.rate)
    return NewJob(job, class_id, run=run, quota=quota, notices=late)


def hints_of(news: Iterable[NewJob], now: Instant) -> list[Hint]:
    """Hint at runs that are due soon, by their names where nothing holds them, and at jobs to be planned soon."""
    runs, jobs = list[tuple[Peeked, bool]](), list[Instant]()
    for new in news:
        if (run := new.run) is not None:
            runs.append((Peeked(run.run_id, run.wanted, run.class_id, run.uid), run.lanes is not FREE))
        elif new.cursor is not None and new.cursor.next_at < now + FAR_OFF:
            jobs.append(new.cursor.next_at)
    return [*free_or_held(runs, now), *([Hint(Topic.JOBS, due=min(jobs))] if jobs else [])]


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
