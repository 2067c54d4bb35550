"""At most one waits while nobody claims, and an hour's outage is caught up with bit by bit. The old ways are planted
once each, and seen.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.simulation import outages

from oncue.domain import overlap as domain_overlap
from oncue.domain import planning as domain_planning
from oncue.domain.instants import Instant
from oncue.domain.policy import Overlap
from oncue.domain.zones import Rules
from oncue.engines.sqlite import planning as sqlite_planning
from oncue.services import overlap, scheduler

WAYS = ["no worker", "a paused queue"]


@pytest.mark.parametrize("why", [WAYS[0], pytest.param(WAYS[1], marks=pytest.mark.long)])
@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
async def test_while_nobody_claims_at_most_one_of_each_job_waits(policy: Overlap, why: str) -> None:
    assert await outages.nobody_claims(policy, why) == []


@pytest.mark.parametrize("what", ["the schedulers", "the store"])
async def test_after_an_hours_outage_everything_has_one_fate_and_no_pass_is_long(what: str) -> None:
    assert await outages.an_hour_away(what) == []


# ---------------------------------------------------------------------------------------------------------- old ways


@pytest.mark.mutants
@pytest.mark.parametrize(
    "policy", [Overlap.SKIP, *(pytest.param(one, marks=pytest.mark.long) for one in (Overlap.QUEUE, Overlap.REPLACE))]
)
async def test_that_a_run_which_has_not_begun_is_in_nobodys_way_is_seen(
    monkeypatch: pytest.MonkeyPatch, policy: Overlap
) -> None:
    monkeypatch.setattr(
        overlap, "decide", lambda held, now: domain_overlap.decide([replace(run, first=None) for run in held], now)
    )
    assert any(" wait under " in problem for problem in await outages.nobody_claims(policy, WAYS[0]))


def without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_planning, "MOST_RUNS", 1_000_000)
    monkeypatch.setattr(
        sqlite_planning, "plans_of", lambda jobs, decide, runs: [plan for job in jobs if (plan := decide(job))]
    )


def losing_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor goes to the end of what was found, though only some of it was planned."""

    def plan(job: domain_planning.DueJob, now: Instant, until: Instant, rules: Rules) -> domain_planning.Plan:
        made = domain_planning.plan(job, now, until, rules)
        if len(made.runs) < domain_planning.MOST_RUNS:
            return made
        return replace(made, cursor=replace(made.cursor, floor=until, next_at=until + 1))

    monkeypatch.setattr(scheduler, "plan", plan)


@pytest.mark.mutants
@pytest.mark.parametrize(
    ("plant", "seen"), [(without_a_bound, "in one transaction"), (losing_what_is_left, "fates")], ids=["bound", "rest"]
)
async def test_an_old_way_of_planning_is_seen(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], seen: str
) -> None:
    plant(monkeypatch)
    assert any(seen in problem for problem in await outages.an_hour_away("the schedulers"))
