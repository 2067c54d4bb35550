"""Planning, but for the reading and writing: which jobs are planned now, and what a pass has done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oncue.domain.instants import NEVER, Instant
from oncue.domain.planning import DueJob, Plan
from oncue.engines.port import Permitted, Planned


def plans_of(jobs: Iterable[DueJob], decide: Callable[[DueJob], Plan | None], runs: int) -> list[Plan]:
    """In order, until there are `runs` of them or `decide` has had enough: the others are left as they are."""
    plans: list[Plan] = []
    made = 0
    for job in jobs:
        plan = decide(job) if made < runs else None
        if plan is None:
            break
        plans.append(plan)
        made += len(plan.runs)
    return plans


def planned(plans: Sequence[Plan], next_at: Instant | None, newer_rules: str | None) -> Planned:
    """`next_at`: the nearest instant that is left to plan, of all jobs; NEVER or None, if there is none."""
    return Planned(
        jobs=len(plans),
        runs=sum(len(plan.runs) for plan in plans),
        first_due=min((run.wanted for plan in plans for run in plan.runs), default=None),
        next_at=None if next_at == NEVER else next_at,
        newer_rules=newer_rules,
    )


def permitted(due: Sequence[Instant], next_at: Instant) -> Permitted:
    """`due`: of the runs that were given a start. `next_at`: when the next of those that wait may be, or NEVER."""
    return Permitted(len(due), min(due, default=None), None if next_at == NEVER else next_at)
