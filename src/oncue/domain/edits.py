"""Edits of a job: what it looks like after a change, how two of its definitions differ, and JSON Merge Patch.

The job after a change is the answer to the change itself, to a dry run and to the preview of an edit.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from oncue.domain.change import JobChange
from oncue.domain.declared import FieldChange, differences, same_payload
from oncue.domain.ids import SCHEDULE
from oncue.domain.job import Job, JobStatus, Snapshot, Spec, WaitingRun, decode_spec
from oncue.domain.lane import Held
from oncue.domain.reference import size_of
from oncue.domain.shown_definition import show_definition


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


LONGEST_VALUE = 4 * 1024  # bytes of a payload in a comparison


def definition_changes(
    old: Spec, old_payload: bytes | None, new: Spec, new_payload: bytes | None
) -> dict[str, FieldChange]:
    """Return the fields that differ; a large payload is shown by its size."""
    changes = differences(as_sent(old), as_sent(new))
    if not same_payload(old_payload, new_payload):
        changes["payload"] = FieldChange(_brief(old_payload), _brief(new_payload))
    return changes


def as_sent(spec: Spec) -> dict[str, Any]:
    """Return a definition as JSON has it: enums as text, tuples as lists."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(show_definition(spec)))
    return found


def _brief(payload: bytes | None) -> Any:
    size = size_of(payload)
    return f"({size} bytes)" if size > LONGEST_VALUE else msgspec.json.decode(payload or b"null")


def patched(value: Any, patch: Any) -> Any:
    """Return the value with the patch applied: null removes a name, objects are merged, anything else replaces.

    Neither argument changes. The patch is not nested deeper than a payload may be.
    """
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            found.pop(name, None)
        else:
            found[name] = patched(found.get(name), change)
    return found
