"""Services with one planted bug each: the simulation has to see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.engines.mutants import plan_in_two_commits

from oncue.domain.ids import SCHEDULE, RunId
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.planning import plan
from oncue.domain.run import Claimed, RunView, State
from oncue.engines.port import Planned
from oncue.services import lookout
from oncue.services.attempts import Attempts, Stop
from oncue.services.reaper import Reaper
from oncue.services.scheduler import BATCH, HORIZON, Scheduler
from oncue.services.settling import Settling
from oncue.services.worker import Worker

Plant = Callable[[pytest.MonkeyPatch], None]


def starting_without_a_claim(patch: pytest.MonkeyPatch) -> None:
    async def look_only(worker: Any, due: Sequence[RunId]) -> list[Claimed]:
        views = [await worker._engine.history.run(None, run_id) for run_id in due]
        return [as_claimed(view) for view in views if view is not None and view.state is State.WAITING]

    patch.setattr(Worker, "_claim", look_only)


def as_claimed(view: RunView) -> Claimed:
    same = {name: getattr(view, name) for name in Claimed.__struct_fields__ if name in view.__struct_fields__}
    missing = {"origin": SCHEDULE, "lane": None, "gate": None, "checkpoint": None, "inline": True}
    return Claimed(**same | missing)


def forgetting_claims_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Worker, "_doubt", lambda worker, run_ids: None)


def starting_what_was_claimed_long_ago(patch: pytest.MonkeyPatch) -> None:
    begin = Worker.__init__

    def trusting(worker: Any, *args: Any, **how: Any) -> None:
        begin(worker, *args, **how)
        worker._too_long = NEVER

    patch.setattr(Worker, "__init__", trusting)


def not_stopping_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    stop = Attempts.stop

    def deaf(attempts: Attempts, run_id: RunId, why: Stop) -> None:
        if why is not Stop.CANCELLED:
            stop(attempts, run_id, why)

    patch.setattr(Attempts, "stop", deaf)


def burying_without_reaping(patch: pytest.MonkeyPatch) -> None:
    async def nothing(reaper: Reaper, now: Instant) -> int:
        return 0

    patch.setattr(Reaper, "_reap", nothing)


def settling_once_and_not_again(patch: pytest.MonkeyPatch) -> None:
    settle = Settling._settle

    async def forgetful(settling: Any) -> None:
        try:
            await settle(settling)
        finally:
            settling._ended.clear()

    patch.setattr(Settling, "_settle", forgetful)


def planning_in_two_calls(patch: pytest.MonkeyPatch) -> None:
    async def plan_twice(scheduler: Any, now: Instant) -> Planned:
        engine, until = scheduler._engine, Instant(now + HORIZON)
        planned: Planned = await plan_in_two_commits(
            engine, engine.planning.plan, until, BATCH, now, lambda job: plan(job, now, until)
        )
        return planned

    patch.setattr(Scheduler, "_plan", plan_twice)


def trusting_hints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lookout, "SWEEP", Duration(NEVER))


# Each bug, and a seed whose story it spoils.
SERVICE_MUTANTS: dict[str, tuple[Plant, int]] = {
    "a worker starts what it saw without claiming it": (starting_without_a_claim, 0),
    "a worker forgets claims whose answer was lost": (forgetting_claims_without_an_answer, 1),
    "a worker starts what it claimed before it fell asleep": (starting_what_was_claimed_long_ago, 8),
    "what was cancelled is not stopped": (not_stopping_what_was_cancelled, 60),
    "the dead are buried, and what they held is not taken back": (burying_without_reaping, 1),
    "an end is forgotten when the store did not answer": (settling_once_and_not_again, 1),
    "a scheduler plans in two calls": (planning_in_two_calls, 4),
    "a worker that missed a hint never looks again": (trusting_hints, 17),
}
