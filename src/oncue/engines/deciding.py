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


def planned(
    plans: Sequence[Plan], now: Instant, next_at: Instant | None, newer_rules: str | None, put_off: int
) -> Planned:
    """Summarise a pass. `next_at`: the nearest instant left to plan, of all jobs; NEVER or None, if there is none."""
    runs = [run for plan in plans for run in plan.runs]
    return Planned(
        jobs=len(plans),
        runs=len(runs),
        first_due=min((run.wanted for run in runs), default=None),
        next_at=None if next_at == NEVER else next_at,
        newer_rules=newer_rules,
        late=sum(run.nominal is not None and run.nominal < now for run in runs),
        put_off=put_off,
    )


def permitted(due: Sequence[Instant], next_at: Instant) -> Permitted:
    """Summarise granted starts. `due`: of the runs with a start. `next_at`: when the next waiting run may get one."""
    return Permitted(len(due), min(due, default=None), None if next_at == NEVER else next_at)
