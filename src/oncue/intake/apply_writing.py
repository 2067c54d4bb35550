"""Write the steps of a declaration, job by job. Repeating the request finishes what was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncue.domain.declared import LIVE, Action
from oncue.domain.errors import Conflict, OncueError
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.domain.plain_text import printable
from oncue.engines.hints import after_stopping
from oncue.engines.port import MOST_SETS, AuditEntry, Created, Hint, NewJob, SetStamp, Topic
from oncue.intake.context import Author, Intake
from oncue.intake.declaration import Declaration, Step
from oncue.intake.edits import in_step, store_edit, until_settled
from oncue.intake.new_jobs import CREATE, refuse_over_quota, refuse_taken
from oncue.metrics.numbers import Numbers
from oncue.metrics.table import ACCEPTED

AT_ONCE = 500  # jobs or lines of the audit log that one transaction stores
AUDITED = {Action.CREATE: CREATE, Action.CHANGE: "job.put", Action.ADOPT: "job.put", Action.PRUNE: "job.cancel"}

AuditLine = Callable[[str, JobId | None, Instant], AuditEntry]


class Superseded(Conflict):
    """A declaration with a higher stamp is in place."""


class HalfWritten(OncueError):
    """Writing was interrupted by `why`: some steps may be written."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


async def write(
    intake: Intake, declaration: Declaration, steps: Sequence[Step], author: Author, line: AuditLine, numbers: Numbers
) -> None:
    """Change jobs, then create, then cancel: payloads that shrink come first, and nothing is cancelled after a refusal.

    `line` builds the entry of a step in the audit log. Superseded, Conflict: nothing was written. HalfWritten: some
    steps may be.
    """
    engine, now = intake.engine, intake.clock.now()
    if declaration.stamp is not None:
        await _put_stamp(intake, declaration, author, now)
    todo = [step for step in steps if step.action is not Action.UNCHANGED]
    entries = [line(AUDITED[step.action], step.job_id, now) for step in todo]
    try:
        for start in range(0, len(entries), AT_ONCE):  # first: what is interrupted later may have been written
            await engine.audit.record(entries[start : start + AT_ONCE])
        for step in sorted((step for step in todo if step.change), key=_growth):
            await _change(intake, step, author)
        new = [step.new for step in todo if step.new is not None]
        for start in range(0, len(new), AT_ONCE):
            await _create(intake, new[start : start + AT_ONCE], author, numbers)
        for step in todo:
            if step.action is Action.PRUNE and step.job_id is not None:
                stopped = await engine.jobs.cancel(author.uid, step.job_id, intake.clock.now())
                if stopped is not None:
                    await engine.signals.send(after_stopping(stopped))
    except Exception as error:
        raise HalfWritten(error) from error
    await engine.signals.send([Hint(Topic.RUNS), Hint(Topic.JOBS)])


async def _put_stamp(intake: Intake, declaration: Declaration, author: Author, now: Instant) -> None:
    """Superseded: a newer declaration came in between. Conflict: the user has too many sets."""
    assert declaration.stamp is not None
    stamp = SetStamp(declaration.stamp, declaration.digest())
    if await intake.engine.declaring.put_stamp(author.uid, declaration.set, stamp, now):
        return
    there = await intake.engine.declaring.stamp(author.uid, declaration.set)
    if there is not None and there.stamp > stamp.stamp:
        raise superseded(declaration, there)
    raise Conflict(f"You have {MOST_SETS} sets with a stamp, which is the limit. Apply this set without a stamp.")


def superseded(declaration: Declaration, there: SetStamp) -> Superseded:
    return Superseded(
        f"The set {printable(declaration.set)!r} was applied with stamp {there.stamp}, which is higher than"
        f" {declaration.stamp}: a newer declaration is in place. Nothing was changed."
    )


def _growth(step: Step) -> int:
    return 0 if step.change is None else step.change.grows


async def _change(intake: Intake, step: Step, author: Author) -> None:
    """Give a live job its declared definition, whatever it has become meanwhile. A pause stays."""
    assert step.wanted is not None
    wanted, job_id = step.wanted, step.job_id

    async def attempt() -> bool | None:
        snap = None if job_id is None else await intake.engine.jobs.read(author.uid, job_id)
        if snap is None or snap.job.status not in LIVE:
            raise Conflict(f"The job with the key {printable(step.key)!r} ended meanwhile. Send the request again.")
        spec = in_step(snap.job.spec, wanted.spec)
        return await store_edit(intake, snap, (spec, wanted.payload), author, intake.clock.now())

    await until_settled(intake.clock, attempt)


async def _create(intake: Intake, new: Sequence[NewJob], author: Author, numbers: Numbers) -> None:
    await intake.large.save(*((one.job.job_id, author.uid, one.job.payload) for one in new))
    created = await intake.engine.jobs.create(new, intake.clock.now())
    for one, answer in zip(new, created, strict=True):
        intake.learn(one.job.spec.class_key, answer)
    numbers.add(ACCEPTED, "apply", n=sum(one.outcome is Created.NEW for one in created))
    refuse_taken(*created)
    refuse_over_quota(new, created)
