"""Write the steps of a declaration, job by job. Repeating the request finishes what was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from oncue.api.audit import audit_entry
from oncue.api.create import CREATE
from oncue.api.declaration import Declaration, Step
from oncue.api.editing import in_step, store_edit
from oncue.api.http.auth import Caller
from oncue.api.jobs import until_settled
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import refuse_reused
from oncue.api.shared.outcome import Changed, Interrupted, Line
from oncue.domain.declared import LIVE, Action
from oncue.domain.errors import Conflict
from oncue.domain.instants import Instant
from oncue.domain.plain_text import printable
from oncue.engines.port import MOST_SETS, Created, Hint, NewJob, SetStamp, Topic
from oncue.intake.new_jobs import refuse_over_quota
from oncue.metrics.table import ACCEPTED

AT_ONCE = 500  # jobs or lines of the audit log that one transaction stores
AUDITED = {Action.CREATE: CREATE, Action.CHANGE: "job.put", Action.ADOPT: "job.put", Action.PRUNE: "job.cancel"}


async def write(
    api: Api,
    request: Request,
    caller: Caller,
    declaration: Declaration,
    steps: Sequence[Step],
    detail: dict[str, Any],
) -> None:
    """Change jobs, then create, then cancel: payloads that shrink come first, and nothing is cancelled after a refusal.

    Interrupted: some steps may be written.
    """
    now = api.clock.now()
    if declaration.stamp is not None:
        await _put_stamp(api, caller, declaration, now)
    todo = [step for step in steps if step.action is not Action.UNCHANGED]
    entries = [audit_entry(AUDITED[step.action], request, caller, step.job_id, now) for step in todo]
    try:
        for start in range(0, len(entries), AT_ONCE):  # first: what is interrupted later may have been written
            await api.engine.audit.record(entries[start : start + AT_ONCE])
        for step in sorted((step for step in todo if step.change), key=_growth):
            await _change(api, step, caller)
        new = [step.new for step in todo if step.new is not None]
        for start in range(0, len(new), AT_ONCE):
            await _create(api, new[start : start + AT_ONCE], caller)
        for step in todo:
            if step.action is Action.PRUNE and step.job_id is not None:
                stopped = await api.engine.jobs.cancel(caller.uid, step.job_id, api.clock.now())
                if stopped is not None:
                    await api.hint_stopped(stopped)
    except Exception as error:
        raise Interrupted(error, (Changed(caller.uid, jobs=True),), Line(detail)) from error
    await api.engine.signals.send([Hint(Topic.RUNS), Hint(Topic.JOBS)])


async def _put_stamp(api: Api, caller: Caller, declaration: Declaration, now: Instant) -> None:
    """Conflict: a newer declaration came in between, or the user has too many sets."""
    assert declaration.stamp is not None
    stamp = SetStamp(declaration.stamp, declaration.digest())
    if await api.engine.declaring.put_stamp(caller.uid, declaration.set, stamp, now):
        return
    there = await api.engine.declaring.stamp(caller.uid, declaration.set)
    if there is not None and there.stamp > stamp.stamp:
        raise superseded(declaration, there)
    raise Conflict(f"You have {MOST_SETS} sets with a stamp, which is the limit. Apply this set without a stamp.")


def superseded(declaration: Declaration, there: SetStamp) -> Conflict:
    return Conflict(
        f"The set {printable(declaration.set)!r} was applied with stamp {there.stamp}, which is higher than"
        f" {declaration.stamp}: a newer declaration is in place. Nothing was changed."
    )


def _growth(step: Step) -> int:
    return 0 if step.change is None else step.change.grows


async def _change(api: Api, step: Step, caller: Caller) -> None:
    """Give a live job its declared definition, whatever it has become meanwhile. A pause stays."""
    assert step.wanted is not None
    wanted, job_id = step.wanted, step.job_id

    async def attempt() -> tuple[Changed, ...] | None:
        snap = None if job_id is None else await api.engine.jobs.read(caller.uid, job_id)
        if snap is None or snap.job.status not in LIVE:
            raise Conflict(f"The job with the key {printable(step.key)!r} ended meanwhile. Send the request again.")
        spec = in_step(snap.job.spec, wanted.spec)
        return await store_edit(api, snap, (spec, wanted.payload), caller, api.clock.now())

    await until_settled(api.clock, attempt)


async def _create(api: Api, new: Sequence[NewJob], caller: Caller) -> None:
    await api.large.save(*((one.job.job_id, caller.uid, one.job.payload) for one in new))
    created = await api.engine.jobs.create(new, api.clock.now())
    for one, answer in zip(new, created, strict=True):
        api.intake.learn(one.job.spec.class_key, answer)
    api.numbers.add(ACCEPTED, "apply", n=sum(one.outcome is Created.NEW for one in created))
    refuse_reused(*created)
    refuse_over_quota(new, created)
