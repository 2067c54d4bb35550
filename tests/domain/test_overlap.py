"""Overlap: what becomes of occurrences that are due while their job is going."""

from uuid import UUID

import pytest
from msgspec.structs import replace

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.overlap import Displacement, HeldRun, Unbegun, Withdrawal, decide
from oncue.domain.planning import GRACE
from oncue.domain.policy import Overlap
from oncue.domain.run import Trigger

GOING = RunId(UUID(int=99))
NOW = Instant(GRACE + 100)
JOB, OTHER = JobId(UUID(int=1)), JobId(UUID(int=2))


def held(
    n: int,
    overlap: Overlap,
    *,
    job: JobId = JOB,
    trigger: Trigger = Trigger.SCHEDULE,
    busy: RunId | None = GOING,
    nominal: bool = True,
    first: Unbegun | None = None,
) -> HeldRun:
    at = Instant(n)
    return HeldRun(RunId(UUID(int=n)), job, at, at if nominal else None, trigger, overlap, busy, first)


def unbegun(trigger: Trigger = Trigger.SCHEDULE) -> Unbegun:
    return Unbegun(RunId(UUID(int=5)), Instant(5), Instant(5), trigger)


def withdrawn(n: int, outcome: Outcome, reason: str, by: RunId, job: JobId = JOB) -> Withdrawal:
    return Withdrawal(RunId(UUID(int=n)), Entry(job, Instant(n), Instant(n), 1, outcome, reason, by))


def ten(n: int) -> RunId:
    return RunId(UUID(int=n))


@pytest.mark.parametrize(
    ("policy", "decisions"),
    [
        (Overlap.ALLOW, []),
        (Overlap.SKIP, [withdrawn(n, Outcome.SKIPPED, "overlap", GOING) for n in (10, 20, 30)]),
        (Overlap.QUEUE, [withdrawn(n, Outcome.COALESCED, "overlap", ten(10)) for n in (20, 30)]),
        (
            Overlap.REPLACE,
            [
                Displacement(GOING),
                withdrawn(10, Outcome.SKIPPED, "replaced", ten(20)),
                withdrawn(20, Outcome.SKIPPED, "replaced", ten(30)),
            ],
        ),
    ],
)
def test_three_are_due_while_one_is_going(policy: Overlap, decisions: list[object]) -> None:
    assert list(decide([held(n, policy) for n in (10, 20, 30)], NOW)) == decisions


@pytest.mark.parametrize(
    ("policy", "decisions"),
    [
        (Overlap.ALLOW, []),
        (Overlap.SKIP, [withdrawn(n, Outcome.SKIPPED, "overlap", ten(5)) for n in (10, 20, 30)]),
        (Overlap.QUEUE, [withdrawn(n, Outcome.COALESCED, "overlap", ten(5)) for n in (10, 20, 30)]),
        (
            Overlap.REPLACE,
            [
                replace(withdrawn(5, Outcome.SKIPPED, "replaced", ten(10)), let_in=True),
                withdrawn(10, Outcome.SKIPPED, "replaced", ten(20)),
                withdrawn(20, Outcome.SKIPPED, "replaced", ten(30)),
            ],
        ),
    ],
)
def test_three_are_due_while_one_has_not_begun(policy: Overlap, decisions: list[object]) -> None:
    """Nobody claims: no worker, a paused queue. At most one waits, and the ledger has the others."""
    runs = [held(n, policy, busy=None, first=unbegun()) for n in (10, 20, 30)]

    assert list(decide(runs, NOW)) == decisions
    assert list(decide(runs, Instant(5 + GRACE))) == []  # it may have been planned this moment, a little late


@pytest.mark.parametrize("trigger", [trigger for trigger in Trigger if trigger is not Trigger.SCHEDULE])
@pytest.mark.parametrize(
    ("policy", "decisions"),
    [
        (Overlap.SKIP, [withdrawn(n, Outcome.SKIPPED, "overlap", ten(5)) for n in (10, 20)]),
        (Overlap.QUEUE, [withdrawn(20, Outcome.COALESCED, "overlap", ten(10))]),
        (Overlap.REPLACE, [withdrawn(10, Outcome.SKIPPED, "replaced", ten(20))]),
    ],
)
def test_what_somebody_asked_for_and_has_not_begun_is_in_the_way_and_stays(
    policy: Overlap, decisions: list[object], trigger: Trigger
) -> None:
    assert list(decide([held(n, policy, busy=None, first=unbegun(trigger)) for n in (10, 20)], NOW)) == decisions


@pytest.mark.parametrize("policy", Overlap)
@pytest.mark.parametrize("trigger", [trigger for trigger in Trigger if trigger is not Trigger.SCHEDULE])
def test_what_somebody_asked_for_waits_its_turn(policy: Overlap, trigger: Trigger) -> None:
    assert list(decide([held(n, policy, trigger=trigger) for n in (10, 20)], NOW)) == []


@pytest.mark.parametrize("policy", Overlap)
def test_behind_a_stranger_it_waits_its_turn(policy: Overlap) -> None:
    assert list(decide([held(n, policy, busy=None) for n in (10, 20)], NOW)) == []


def test_a_run_by_hand_does_not_use_up_the_one_place_in_the_queue() -> None:
    runs = [held(10, Overlap.QUEUE, trigger=Trigger.RUN_NOW), held(20, Overlap.QUEUE), held(30, Overlap.QUEUE)]

    assert list(decide(runs, NOW)) == [withdrawn(30, Outcome.COALESCED, "overlap", ten(20))]


def test_each_job_is_decided_for_itself() -> None:
    runs = [held(10, Overlap.QUEUE), held(20, Overlap.QUEUE, job=OTHER), held(30, Overlap.SKIP, job=OTHER)]

    assert list(decide(runs, NOW)) == [withdrawn(30, Outcome.SKIPPED, "overlap", GOING, OTHER)]


def test_deciding_again_changes_nothing_more() -> None:
    """Several schedulers decide on the same runs: after the first was written the others find nothing to do."""
    runs = [held(n, Overlap.QUEUE) for n in (10, 20, 30)]
    gone = {decision.run_id for decision in decide(runs, NOW) if isinstance(decision, Withdrawal)}

    assert list(decide([run for run in runs if run.run_id not in gone], NOW)) == []
