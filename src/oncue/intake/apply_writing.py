"""Write the steps of a declaration, job by job. Repeating the request finishes what was interrupted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from oncue.domain.declared import LIVE, Action
from oncue.domain.errors import Conflict, OncueError, Superseded
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.domain.job import Snapshot
from oncue.domain.plain_text import printable
from oncue.engines.hints import after_stopping
from oncue.engines.port import MOST_SETS, AuditEntry, Created, Hint, NewJob, SetStamp, StampGuard, Topic
from oncue.intake.apply_planning import plan
from oncue.intake.context import Author, Intake
from oncue.intake.declaration import Declaration, Step, superseded
from oncue.intake.edits import KeepsChanging, in_step, pause, store_edit, until_settled
from oncue.intake.new_jobs import CREATE, refuse_over_quota, refuse_taken
from oncue.metrics.numbers import Numbers
from oncue.metrics.table import ACCEPTED

TRIES = 10  # of those who apply the same at once
AUDITED_TOGETHER = 50  # entries of steps that are then written one by one
AT_ONCE = 500  # jobs or lines of the audit log that one transaction stores
AUDITED = {Action.CHANGE: "job.put", Action.ADOPT: "job.put", Action.PRUNE: "job.cancel"}

AuditLine = Callable[[str, JobId | None, Instant], AuditEntry]


class HalfWritten(OncueError):
    """Writing was interrupted by `why`: some steps may be written."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


async def write(
    intake: Intake, declaration: Declaration, steps: Sequence[Step], author: Author, line: AuditLine, numbers: Numbers
) -> list[Step]:
    """Write the steps; return them as they were written. `line` builds the entry of a step in the audit log.

    From when a stamp is stored no other declaration of the set writes, and what others wrote until then is compared
    again. Who is too late for a job, because somebody else applies the same, compares again, too.

    Superseded, Conflict, Invalid: nothing was written but, perhaps, the stamp. HalfWritten: some steps may be.
    """
    guard, left = None, list(steps)
    if declaration.stamp is not None:
        guard = await _put_stamp(intake, declaration, author)
        left = await plan(intake, declaration, author, intake.clock.now())
    writing, done = _Writing(intake, author, line, numbers, guard), left
    try:
        for further in reversed(range(TRIES)):
            try:
                await writing.steps(left)
                break
            except Conflict as late:
                if isinstance(late, Superseded | KeepsChanging) or not further:
                    raise
                await pause(intake.clock, TRIES - further)
                left = await plan(intake, declaration, author, intake.clock.now())
                done = _as_written(done, left)
    except Superseded as other:
        raise HalfWritten(_overtaken(declaration)) from other
    except Exception as error:
        raise HalfWritten(error) from error
    await intake.engine.signals.send([Hint(Topic.RUNS), Hint(Topic.JOBS)])
    return done


def _as_written(before: Sequence[Step], left: Sequence[Step]) -> list[Step]:
    """Return the steps that are left, and for a job that needs none any more, what was written."""
    written = {(step.key, step.job_id): step for step in before}
    return [written.get((one.key, one.job_id), one) if one.action is Action.UNCHANGED else one for one in left]


async def _put_stamp(intake: Intake, declaration: Declaration, author: Author) -> StampGuard:
    """Superseded: a newer declaration came in between. Conflict: the user has too many sets."""
    assert declaration.stamp is not None
    stamp = SetStamp(declaration.stamp, declaration.digest())
    if await intake.engine.declaring.put_stamp(author.uid, declaration.set, stamp, intake.clock.now()):
        return StampGuard(author.uid, declaration.set, stamp)
    there = await intake.engine.declaring.stamp(author.uid, declaration.set)
    if there is not None and there.stamp > stamp.stamp:
        raise superseded(declaration, there)
    raise Conflict(f"You have {MOST_SETS} sets with a stamp, which is the limit. Apply this set without a stamp.")


def _overtaken(declaration: Declaration) -> Superseded:
    return Superseded(
        f"Another declaration of the set {printable(declaration.set)!r} with a stamp of {declaration.stamp} or higher"
        " was applied while this one was written: its jobs are in place."
    )


class _Writing(NamedTuple):
    """What all steps of a declaration are written with."""

    intake: Intake
    author: Author
    line: AuditLine
    numbers: Numbers
    guard: StampGuard | None

    async def steps(self, steps: Sequence[Step]) -> None:
        """Change jobs, then create, then cancel: payloads that shrink come first, and nothing is cancelled after a
        refusal.
        """
        todo = [step for step in steps if step.action is not Action.UNCHANGED]
        await self._each(sorted((step for step in todo if step.change), key=_growth), self._change)
        new = [step.new for step in todo if step.new is not None]
        for start in range(0, len(new), AT_ONCE):
            await self._create(new[start : start + AT_ONCE])
        await self._each([step for step in todo if step.action is Action.PRUNE], self._cancel)

    async def _each(self, steps: Sequence[Step], write: Callable[[Step], Awaitable[None]]) -> None:
        """Write steps one by one, each bite after its entries in the audit log: what is interrupted may be written."""
        for start in range(0, len(steps), AUDITED_TOGETHER):
            some, now = steps[start : start + AUDITED_TOGETHER], self.intake.clock.now()
            await self.intake.engine.audit.record([self.line(AUDITED[one.action], one.job_id, now) for one in some])
            for one in some:
                await write(one)

    async def _change(self, step: Step) -> None:
        """Give a live job its declared definition, whatever it has become meanwhile. A pause stays."""
        assert step.wanted is not None
        intake, wanted, job_id = self.intake, step.wanted, step.job_id

        async def attempt() -> Snapshot | None:
            snap = None if job_id is None else await intake.engine.jobs.read(self.author.uid, job_id)
            if snap is None or snap.job.status not in LIVE:
                raise Conflict(f"The job with the key {printable(step.key)!r} ended meanwhile. Send the request again.")
            spec = in_step(snap.job.spec, wanted.spec)
            wanted_now = spec, wanted.payload
            return await store_edit(intake, snap, wanted_now, self.author, intake.clock.now(), self.guard)

        await until_settled(intake.clock, attempt)

    async def _create(self, new: Sequence[NewJob]) -> None:
        """Create jobs, each with its entry in the audit log."""
        intake, now = self.intake, self.intake.clock.now()
        await intake.large.save(*((one.job.job_id, self.author.uid, one.job.payload) for one in new))
        audited = [replace(one, audit_entry=self.line(CREATE, one.job.job_id, now)) for one in new]
        created = await intake.engine.jobs.create(audited, now, guard=self.guard)
        for one, answer in zip(new, created, strict=True):
            intake.learn(one.job.spec.class_key, answer)
        self.numbers.add(ACCEPTED, "apply", n=sum(one.outcome is Created.NEW for one in created))
        refuse_taken(*created)
        refuse_over_quota(new, created)

    async def _cancel(self, step: Step) -> None:
        assert step.job_id is not None, "only a job that is there is pruned"
        engine, now = self.intake.engine, self.intake.clock.now()
        stopped = await engine.jobs.cancel(self.author.uid, step.job_id, now, self.guard)
        if stopped is not None:
            await engine.signals.send(after_stopping(stopped))


def _growth(step: Step) -> int:
    return 0 if step.change is None else step.change.grows
