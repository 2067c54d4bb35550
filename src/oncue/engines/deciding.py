"""Which of the jobs a planner has taken are planned now: as many as fit into one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncue.domain.planning import DueJob, Plan


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
