"""What all engines share about planning: which jobs a pass plans, and its result; no reads or writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oncue.domain.instants import NEVER, Instant
from oncue.domain.planning import DueJob, Plan
from oncue.engines.port import Permitted, Planned


def plans_of(jobs: Iterable[DueJob], decide: Callable[[DueJob], Plan | None], runs: int) -> list[Plan]:
    """Return plans in order, until they have `runs` runs or `decide` returns None: the other jobs stay unchanged."""
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
    """Summarise a pass. `next_at`: the nearest instant left to plan, of all jobs; NEVER or None, if there is none."""
    return Planned(
        jobs=len(plans),
        runs=sum(len(plan.runs) for plan in plans),
        first_due=min((run.wanted for plan in plans for run in plan.runs), default=None),
        next_at=None if next_at == NEVER else next_at,
        newer_rules=newer_rules,
    )


def permitted(due: Sequence[Instant], next_at: Instant) -> Permitted:
    """Summarise granted starts. `due`: of the runs with a start. `next_at`: when the next waiting run may get one."""
    return Permitted(len(due), min(due, default=None), None if next_at == NEVER else next_at)
