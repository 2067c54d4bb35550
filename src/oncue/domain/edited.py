"""What a job looks like after a change that is not written yet: for dry runs and previews of edits."""

from __future__ import annotations

from msgspec.structs import replace

from oncue.domain.change import JobChange
from oncue.domain.instants import Instant
from oncue.domain.job import Snapshot, Spec, WaitingRun


def edited(snap: Snapshot, decided: JobChange, spec: Spec, payload: bytes | None, now: Instant) -> Snapshot:
    """Return the job as reading it after `decided`, an edit to this definition, would return it."""
    job = decided.job or replace(snap.job, spec=spec, payload=payload, version=snap.job.version + 1, updated_at=now)
    gone = set(decided.withdraw)
    stays = tuple(run for run in snap.waiting if run.run_id not in gone)
    added = tuple(WaitingRun(run.run_id, run.wanted, run.nominal, scheduled=True) for run in decided.add)
    cursor = None if not spec.schedule.recurring else decided.cursor or snap.cursor
    return replace(snap, job=job, cursor=cursor, waiting=stays + added)


def withdrawn(snap: Snapshot, decided: JobChange) -> tuple[WaitingRun, ...]:
    """Return the planned runs that would not start; those that are planned again for the same occurrence would."""
    gone = set(decided.withdraw) - {run.run_id for run in decided.add}
    return tuple(run for run in snap.waiting if run.run_id in gone)
