"""Make the jobs of a set as they are declared: check all, compare with what is stored, and only then write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request

from oncue.api.audit import audit_entry
from oncue.api.create import BATCH_BYTES, LARGEST_BATCH
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.items import read_item, read_items_and_more
from oncue.api.http.tracing import trace_of
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Interrupted, Line, Outcome, unchanged
from oncue.domain.declared import LARGEST_STAMP, Action
from oncue.domain.errors import MOST_PROBLEMS, Invalid, Problem
from oncue.domain.fields import Reader, read_fields, text, truth, whole
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.engines.port import AuditEntry
from oncue.intake.apply_planning import plan
from oncue.intake.apply_writing import HalfWritten, write
from oncue.intake.declaration import LONGEST_NAME, Declaration, Step, want
from oncue.intake.definitions import Pace

FIELDS: Mapping[str, Reader] = {
    "set": text(LONGEST_NAME),
    "prune": truth,
    "adopt": truth,
    "dry_run": truth,
    "stamp": whole(0, LARGEST_STAMP),
}
NULLABLE = frozenset({"stamp"})


async def apply(api: Api, request: Request, caller: Caller) -> Outcome:
    """Answer the steps, done or, in a dry run, to do. With any problem, nothing is written, and all are answered."""
    now = api.clock.now()
    await api.intake.defaults.refresh()
    declaration = await _declaration(api, request, caller, now)
    steps = await plan(api.intake, declaration, caller, now)
    declared = [
        (one.wanted.index, one.wanted.spec) for one in steps if one.wanted and one.action is not Action.UNCHANGED
    ]
    declaration.warnings += await api.live_workers.of_many(declared)
    if declaration.dry_run or (declaration.stamp is None and all(one.action is Action.UNCHANGED for one in steps)):
        return unchanged(answer(_shown(declaration, steps)))
    changed, line = (Changed(caller.uid, jobs=True),), partial(_audit_entry, request, caller)
    try:
        written = await write(api.intake, declaration, steps, caller, line, api.numbers)
    except HalfWritten as half:
        raise Interrupted(half.why, changed, Line(_told(declaration, steps))) from half.why
    is_changed = any(one.action is not Action.UNCHANGED for one in written)
    shown = answer(_shown(declaration, written))
    return Outcome(shown, changed if is_changed else (), Line(_told(declaration, written)))


def _told(declaration: Declaration, steps: Sequence[Step]) -> dict[str, Any]:
    return {"set": declaration.set, **Counter(str(step.action) for step in steps)}


def _audit_entry(request: Request, caller: Caller, action: str, job_id: JobId | None, now: Instant) -> AuditEntry:
    return audit_entry(action, request, caller, job_id, now)


async def _declaration(api: Api, request: Request, caller: Caller, now: Instant) -> Declaration:
    """Check all jobs. What is wrong with some is among the problems; Invalid: something else is wrong."""
    items, rest = await read_items_and_more(request, "jobs", BATCH_BYTES)
    problems: list[Problem] = []
    found = read_fields(rest, FIELDS, problems, nothing=NULLABLE)
    if "set" not in rest:
        problems.append(Problem("set", "required", 'is required: the name of the set, like "shop"'))
    if len(items) > LARGEST_BATCH:
        problems.append(Problem("jobs", "out_of_range", f"is a list of at most {LARGEST_BATCH} jobs"))
    declaration, pace = Declaration({"set": "", **found}, api.intake.task_registry.lookups), Pace(api.clock)
    declaration.problems += problems
    for index, raw in enumerate(items[:LARGEST_BATCH]):
        try:
            job = await read_item(raw, api.largest_job)
        except Invalid as wrong:
            declaration.problems += wrong.under(f"jobs.{index}").problems
        else:
            await want(api.intake, declaration, index, job, caller, now, trace_of(request))
        if not await pace.goes_on(declaration.problems):
            break
    if problems:  # of the declaration itself: there is nothing to compare its jobs with
        raise Invalid(*declaration.problems)
    return declaration


def _shown(declaration: Declaration, steps: Sequence[Step]) -> dict[str, Any]:
    return {
        "set": declaration.set,
        "dry_run": declaration.dry_run,
        "stamp": declaration.stamp,
        "steps": [
            {
                "action": step.action,
                "key": step.key,
                "job_id": None if declaration.dry_run and step.new is not None else step.job_id,
                "changes": step.changes,
                "owners": step.owners if step.action is Action.ADOPT else (),
            }
            for step in steps
        ],
        "warnings": declaration.warnings[:MOST_PROBLEMS],
    }
