"""What a job looks like after a change: the answer to the change itself, to a dry run and to the preview of an edit."""

from __future__ import annotations

from msgspec.structs import replace

from oncue.domain.change import JobChange
from oncue.domain.ids import SCHEDULE
from oncue.domain.job import Job, JobStatus, Snapshot, WaitingRun, decode_spec
from oncue.domain.lane import Held


def changed(snap: Snapshot, decided: JobChange) -> Snapshot:
    """Return the job as reading it right after `decided`, a change of this snapshot, would return it.

    A change is written only if the job is still as it was read, so that nobody else's change is in it.
    """
    job, gone = _job(snap.job, decided), set(decided.withdraw)
    stays = tuple(run for run in snap.waiting if run.run_id not in gone)
    added = tuple(
        WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=run.origin == SCHEDULE) for run in decided.add
    )
    cursor = None if not job.spec.schedule.recurring else decided.cursor or snap.cursor
    return replace(snap, job=job, cursor=cursor, waiting=stays + added)


def _job(job: Job, decided: JobChange) -> Job:
    """A one-shot has its definition in its run, and is paused while that run is held."""
    if decided.job is not None:
        return decided.job
    for run in decided.add:
        if run.run_id == run.job_id and run.spec is not None:
            return replace(
                job,
                spec=decode_spec(run.spec),
                payload=run.payload,
                version=run.job_version,
                updated_at=run.updated_at or job.updated_at,
                status=JobStatus.PAUSED if Held.PAUSED in run.held else JobStatus.ACTIVE,
            )
    if decided.hold or decided.release:
        return replace(job, status=JobStatus.PAUSED if decided.hold else JobStatus.ACTIVE)
    return job


def withdrawn(snap: Snapshot, decided: JobChange) -> tuple[WaitingRun, ...]:
    """Return the planned runs that would not start; those that are planned again for the same occurrence would."""
    gone = set(decided.withdraw) - {run.run_id for run in decided.add}
    return tuple(run for run in snap.waiting if run.run_id in gone)
