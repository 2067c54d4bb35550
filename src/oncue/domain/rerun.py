"""Decide what runs when an ended run is to run again."""

from __future__ import annotations

from oncue.domain.errors import Conflict
from oncue.domain.ids import RunId
from oncue.domain.instants import Instant
from oncue.domain.job import Spec, decode_spec, encode_spec
from oncue.domain.policy import expires_at
from oncue.domain.run import NewRun, RunView, Trigger


def definition(run: RunView) -> Spec:
    """Return what an ended run ran by. Conflict: it is gone."""
    if run.spec is None:
        raise Conflict(
            "The definition of this run is gone, because its job was deleted. Create the job again to run it."
        )
    return decode_spec(run.spec)


def again(run: RunView, run_id: RunId, now: Instant, own: tuple[Spec, bytes | None] | None = None) -> NewRun:
    """Build the run that follows an ended one: same definition and payload unless it has its `own`, new attempts."""
    spec, payload = (definition(run), run.payload) if own is None else own
    return NewRun(
        run_id=run_id,
        job_id=run.job_id,
        uid=run.uid,
        class_id=run.class_id,
        wanted=now,
        nominal=run.nominal,
        job_version=run.job_version,
        origin=run_id,
        trigger=Trigger.REQUEUE,
        lanes=spec.lanes(run.uid, run.job_id),
        spec=run.spec if own is None else encode_spec(spec),
        payload=payload,
        expires_at=expires_at(spec.start_within, now),
        parent=run.run_id,
    )
