"""Compare a declaration with what is stored: the steps that make its jobs so, or all reasons why it is refused."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from msgspec.structs import replace

from oncue.domain.declared import LIVE, Action, action_of, owners_of
from oncue.domain.edits import definition_changes
from oncue.domain.errors import Conflict, Invalid, Problem, QuotaExceeded, TooManyClasses, tried
from oncue.domain.fields import path_name
from oncue.domain.ids import JobId, uuid7
from oncue.domain.instants import Instant
from oncue.domain.job import Job
from oncue.domain.plain_text import printable
from oncue.engines.port import MOST_KEYS, JobQuery, KeyedJob
from oncue.intake.context import TURN, Author, Intake
from oncue.intake.declaration import NO_JOBS, Declaration, Step, Wanted, superseded
from oncue.intake.edits import decide, in_step
from oncue.intake.new_jobs import new_job, refuse_over_quota

MOST_PAGES = 200  # of jobs with the set's tag, live or ended, that a prune looks through
PAGE = 1_000


async def plan(intake: Intake, declaration: Declaration, author: Author, now: Instant) -> list[Step]:
    """Return the steps to write. Invalid: all problems of the declaration; nothing of it is to be written.

    Superseded: a newer declaration was applied. One with the same stamp and other jobs gets a warning.
    """
    await _refuse_older(intake, declaration, author)
    steps = await _planned(intake, declaration, author, now)
    await _refuse_what_engines_would(intake, declaration, steps, author)
    if declaration.problems:
        raise Invalid(*declaration.problems)
    return steps


async def _refuse_older(intake: Intake, declaration: Declaration, author: Author) -> None:
    if declaration.stamp is None:
        return
    there = await intake.engine.declaring.stamp(author.uid, declaration.set)
    if there is None:
        return
    if there.stamp > declaration.stamp:
        raise superseded(declaration, there)
    if there.stamp == declaration.stamp and there.digest not in (NO_JOBS, declaration.digest()):
        message = "was used before, with other jobs; count it up when the jobs change"
        declaration.warnings.append({"path": "stamp", "code": "same_stamp", "message": message})


async def _planned(intake: Intake, declaration: Declaration, author: Author, now: Instant) -> list[Step]:
    """Return the steps in the order of the declaration, then those of jobs that it does not have any more."""
    steps, rested = list[Step](), intake.clock.monotonic()
    for start in range(0, len(declaration.jobs), MOST_KEYS):
        some = declaration.jobs[start : start + MOST_KEYS]
        found = await intake.engine.declaring.keyed(author.uid, [wanted.key for wanted in some])
        for wanted in some:
            try:
                steps.append(await _step(intake, declaration, wanted, found.get(wanted.key), author, now))
            except Invalid as wrong:
                declaration.problems += wrong.under(f"jobs.{wanted.index}").problems
            except Conflict as conflict:
                declaration.problems.append(Problem(f"jobs.{wanted.index}", "conflict", str(conflict)))
            if intake.clock.monotonic() - rested > TURN:  # other requests need not wait for all of them
                await asyncio.sleep(0)
                rested = intake.clock.monotonic()
    await _refuse_wrong_ones_of_others(intake, declaration, author)
    return steps + (await _pruned(intake, declaration, author) if declaration.prune else [])


async def _step(
    intake: Intake, declaration: Declaration, wanted: Wanted, found: KeyedJob | None, author: Author, now: Instant
) -> Step:
    job, spec, payload = None if found is None else found.job, wanted.spec, wanted.payload
    if found is not None and job is None:  # a one-shot
        snap = await intake.engine.jobs.read(author.uid, found.holder.job_id)
        job = None if snap is None else snap.job
    remembered = None if found is None else found.holder.definition
    action = action_of(job, remembered, spec, payload, declaration.tag)
    step = Step(action, wanted.key, None if job is None else job.job_id, wanted)
    if action is Action.UNCHANGED:
        return step if found is None else replace(step, job_id=found.holder.job_id)
    if action is Action.CREATE or job is None:
        made = Job(JobId(uuid7(now, secrets.token_bytes(8))), author.uid, spec, payload, now, now)
        class_id, quota = intake.class_id(spec.class_key), intake.quota_of(author)
        new = new_job(made, class_id, now, quota, intake.defaults)
        return replace(step, job_id=made.job_id, new=replace(new, applied=True))
    return await _change(intake, declaration, step, job, now)


async def _change(intake: Intake, declaration: Declaration, step: Step, job: Job, now: Instant) -> Step:
    """Return the step of a live job: to change it, to adopt it, or nothing."""
    assert step.wanted is not None
    spec, payload = in_step(job.spec, step.wanted.spec), step.wanted.payload
    changes = definition_changes(job.spec, job.payload, spec, payload)
    if step.action is Action.CHANGE and not changes and await intake.large.has(job.payload):
        return replace(step, action=Action.UNCHANGED)
    if step.action is Action.ADOPT and not declaration.adopt:
        raise Invalid(_adopt_needed(job, "key"))
    snap = await intake.engine.jobs.read(job.uid, job.job_id)
    if snap is None:
        raise Conflict("This job was deleted while this request was processed. Send the request again.")
    change = decide(intake, snap, (spec, payload), now)
    return replace(step, changes=changes, owners=owners_of(job), change=change)


async def _refuse_wrong_ones_of_others(intake: Intake, declaration: Declaration, author: Author) -> None:
    """Add which keys of jobs that are refused anyway belong to other sets, too: all problems are told at once."""
    valid, read_key = {wanted.key for wanted in declaration.jobs}, path_name(intake.limits.name)
    wrong = [key for key in declaration.keys if key not in valid and tried([], read_key, key, "key") is not None]
    for start in range(0, 0 if declaration.adopt else len(wrong), MOST_KEYS):
        found = await intake.engine.declaring.keyed(author.uid, wrong[start : start + MOST_KEYS])
        declaration.problems += [
            _adopt_needed(one.job, f"jobs.{declaration.keys[key]}.key")
            for key, one in found.items()
            if one.job is not None and one.job.status in LIVE and declaration.tag not in one.job.spec.tags
        ]


def _adopt_needed(job: Job, path: str) -> Problem:
    owners = " and ".join(repr(printable(owner)) for owner in owners_of(job))
    whose = f"belongs to the set {owners}" if owners else "was not created by apply"
    return Problem(path, "adopt_needed", f"the job with this key {whose}; adopt takes it into this set")


async def _pruned(intake: Intake, declaration: Declaration, author: Author) -> list[Step]:
    """Return the live jobs of the set that are not declared any more."""
    found: list[Step] = []
    after = None
    for _ in range(MOST_PAGES):
        page = await intake.engine.lists.jobs(JobQuery(author.uid, tag=declaration.tag, limit=PAGE, after=after))
        jobs = [row.job for row in page.items if row.job.status in LIVE and row.job.spec.key is not None]
        found += [
            Step(Action.PRUNE, str(job.spec.key), job.job_id) for job in jobs if job.spec.key not in declaration.keys
        ]
        if page.next is None:
            return found
        after = page.next
    message = f"the set has more than {MOST_PAGES * PAGE} jobs, ended ones included; cancel old ones without prune"
    declaration.problems.append(Problem("prune", "too_many", message))
    return []


async def _refuse_what_engines_would(
    intake: Intake, declaration: Declaration, steps: Sequence[Step], author: Author
) -> None:
    """Add the problems that only the database knows: quotas, and keys that were taken meanwhile."""
    new = [(step.wanted.index, step.new) for step in steps if step.wanted and step.new]
    changes = [(step.wanted.index, step.change) for step in steps if step.wanted and step.change]
    jobs, places = [job for _, job in new], [place for place, _ in new]
    quota = intake.quota_of(author)
    try:
        answers = await intake.engine.declaring.rehearse(jobs, [change for _, change in changes], quota)
    except TooManyClasses as error:
        keys = [(place, job.job.spec.class_key) for place, job in new] + [(p, c.new_class) for p, c in changes]
        place = next(place for place, key in keys if key == error.key)
        error.path = f"jobs.{place}.{error.path}"
        return _add(declaration, error)
    except QuotaExceeded as error:
        return _add(declaration, error)
    try:
        refuse_over_quota(jobs, answers)
    except QuotaExceeded as error:
        if error.path:  # jobs.N.payload, or of a single one: payload
            number, _, field = error.path.removeprefix("jobs.").rpartition(".")
            error.path = f"jobs.{places[int(number or 0)]}.{field}"
        _add(declaration, error)


def _add(declaration: Declaration, error: QuotaExceeded) -> None:
    if not declaration.problems:
        raise error
    declaration.problems.append(Problem(error.path, "quota_exceeded", str(error)))
