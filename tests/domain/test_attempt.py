"""What an attempt's end means for its run."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from oncue.domain.attempt import (
    LONGEST_ERROR,
    LONGEST_TRACEBACK,
    Failure,
    cancelled,
    failed,
    handed_back,
    lost,
    preempted,
    succeeded,
)
from oncue.domain.ids import SCHEDULE, ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Spec, encode_spec
from oncue.domain.policy import OnLost
from oncue.domain.run import TRACEBACKS_KEPT, Claimed, Settlement, State, Trigger, next_number, read_attempts

NOW = Instant(10**15)
BEGAN = Instant(NOW - SECOND)
WORKER = WorkerId(UUID(int=9))


def claimed(spec: Spec, failures: int = 0, losses: int = 0, attempts: bytes | None = None) -> Claimed:
    return Claimed(
        run_id=RunId(UUID(int=1)),
        token=4,
        job_id=JobId(UUID(int=1)),
        uid=UserNumber(1),
        class_id=ClassId(1),
        due=BEGAN,
        wanted=BEGAN,
        nominal=BEGAN,
        origin=SCHEDULE,
        trigger=Trigger.SCHEDULE,
        job_version=1,
        failures=failures,
        losses=losses,
        lane=None,
        gate=None,
        attempts=attempts,
        checkpoint=None,
        spec=encode_spec(spec),
        payload=None,
        inline=True,
    )


def fail(run: Claimed, spec: Spec, **how: Any) -> Settlement:
    broke = Failure(**{"error_type": "Boom", "error": "it broke"} | how)
    return failed(run, spec, WORKER, BEGAN, NOW, broke, luck=0.0)


def test_success_keeps_what_came_before() -> None:
    spec = Spec("t")
    first = fail(claimed(spec), spec)
    run = claimed(spec, failures=1, losses=1, attempts=first.attempts)

    settlement = succeeded(run, BEGAN, NOW, b"1")

    assert settlement == Settlement(
        run, State.SUCCEEDED, NOW, BEGAN, failures=1, losses=1, result=b"1", attempts=first.attempts
    )


def test_a_failure_is_tried_again_while_there_are_retries() -> None:
    spec = Spec("t", max_retries=1)
    first = fail(claimed(spec), spec)
    second = fail(claimed(spec, failures=1, attempts=first.attempts), spec)

    assert (first.state, first.due, first.failures, first.error) == (State.WAITING, NOW + 2 * SECOND, 1, "it broke")
    assert (second.state, second.due, second.failures) == (State.DEAD, None, 2)
    assert second.error == "it broke (failed after 2 attempts; max_retries is 1)"
    assert [(one.number, one.outcome) for one in read_attempts(second.attempts)] == [(1, "failed"), (2, "failed")]


def test_a_task_can_refuse_to_be_retried_or_ask_for_a_time() -> None:
    spec = Spec("t", max_retries=9)

    refused = fail(claimed(spec), spec, error_type="NoRetry", retry=False)
    assert (refused.state, refused.error) == (State.DEAD, "it broke (the task raised NoRetry)")
    assert fail(claimed(spec), spec, after=Duration(MINUTE)).due == NOW + MINUTE


def test_what_no_retry_would_mend_is_not_told_as_raised_by_the_task() -> None:
    spec = Spec("t", max_retries=9)
    missing = fail(claimed(spec), spec, error_type="SecretMissing", retry=False)

    assert (missing.state, missing.error) == (State.DEAD, "it broke (not retried)")


def test_a_timeout_is_a_failure_by_another_name() -> None:
    spec = Spec("t")

    [one] = read_attempts(fail(claimed(spec), spec, outcome="timed_out").attempts)

    assert (one.outcome, one.started_at, one.ended_at, one.worker_id) == ("timed_out", BEGAN, NOW, WORKER)


def test_endless_errors_are_cut() -> None:
    spec = Spec("t")
    settlement = fail(claimed(spec), spec, error="x" * 10**6)

    assert settlement.error is not None
    assert len(settlement.error) == LONGEST_ERROR


def test_a_loss_spends_no_retry() -> None:
    settlement = lost(claimed(Spec("t", max_retries=0)), WORKER, BEGAN, NOW)

    assert (settlement.state, settlement.due, settlement.failures, settlement.losses) == (State.WAITING, NOW, 0, 1)
    [one] = read_attempts(settlement.attempts)
    assert (one.number, one.outcome, one.error_type, one.started_at) == (1, "lost", "WorkerLost", BEGAN)


def test_the_third_loss_or_a_forbidden_one_is_dead() -> None:
    assert lost(claimed(Spec("t"), losses=2), WORKER, BEGAN, NOW).state is State.DEAD
    assert lost(claimed(Spec("t", on_lost=OnLost.DEAD)), WORKER, BEGAN, NOW).state is State.DEAD


def test_a_loss_says_how_its_process_ended() -> None:
    settlement = lost(claimed(Spec("t"), losses=2), WORKER, BEGAN, NOW, "the process running it ended with signal 9")

    assert settlement.error == ("the process running it ended with signal 9 (3 workers were lost while running it)")
    [one] = read_attempts(settlement.attempts)
    assert (one.outcome, one.error) == ("lost", "the process running it ended with signal 9")
    assert lost(claimed(Spec("t")), WORKER, BEGAN, NOW).error == "the worker that ran it sent no heartbeat"
    assert len(lost(claimed(Spec("t")), WORKER, BEGAN, NOW, "x" * 10**6).error or "") == LONGEST_ERROR


@pytest.mark.parametrize("spec", [b"", b"{", b'{"task": 1}', b'{"task": "t", "on_lost": "new"}', b'{"task": "\xff"}'])
def test_a_lost_run_whose_definition_cannot_be_read_is_dead(spec: bytes) -> None:
    """It may have forbidden a second start."""
    settlement = lost(msgspec.structs.replace(claimed(Spec("t")), spec=spec), WORKER, BEGAN, NOW)

    assert (settlement.state, settlement.losses) == (State.DEAD, 1)
    assert settlement.error is not None
    assert settlement.error.startswith("the worker that ran it sent no heartbeat (the definition cannot be read")


def test_a_cancelled_attempt_is_neither_a_failure_nor_a_loss() -> None:
    spec = Spec("t")
    first = fail(claimed(spec), spec)
    run = claimed(spec, failures=1, losses=1, attempts=first.attempts)

    settlement = cancelled(run, WORKER, BEGAN, NOW)

    assert settlement == Settlement(
        run, State.CANCELLED, NOW, BEGAN, failures=1, losses=1, attempts=settlement.attempts
    )
    earlier, last = read_attempts(settlement.attempts)
    assert earlier.outcome == "failed"
    assert (last.number, last.outcome, last.worker_id, last.started_at, last.ended_at) == (
        3,
        "cancelled",
        WORKER,
        BEGAN,
        NOW,
    )


def test_attempts_are_numbered_over_failures_and_losses() -> None:
    assert claimed(Spec("t"), failures=2, losses=1).attempt == 4


def test_one_that_gave_way_is_handed_back_with_a_note_and_without_an_error() -> None:
    spec = Spec("t", max_retries=0)

    back = handed_back(preempted(claimed(spec), WORKER, BEGAN, NOW), NOW)

    assert (back.state, back.due, back.failures, back.losses) == (State.WAITING, BEGAN, 0, 0)
    assert (back.error_type, back.error) == (None, None)
    [note] = read_attempts(back.attempts)
    assert (note.number, note.outcome, note.error_type, note.error) == (1, "preempted", None, None)


def test_one_that_gave_way_has_a_number_of_its_own() -> None:
    spec = Spec("t", max_retries=1)
    twice = preempted(preempted(claimed(spec), WORKER, BEGAN, NOW), WORKER, BEGAN, NOW)

    first = fail(twice, spec)
    again = msgspec.structs.replace(twice, failures=1, attempts=first.attempts)
    last = lost(preempted(again, WORKER, BEGAN, NOW), WORKER, BEGAN, NOW)

    assert (first.state, first.failures, last.failures, last.losses) == (State.WAITING, 1, 1, 1)
    assert [(one.number, one.outcome) for one in read_attempts(last.attempts)] == [
        (1, "preempted"),
        (2, "preempted"),
        (3, "failed"),
        (4, "preempted"),
        (5, "lost"),
    ]


def test_numbers_go_on_when_the_first_attempts_are_no_longer_kept() -> None:
    run = claimed(Spec("t"))
    for _ in range(60):
        run = preempted(run, WORKER, BEGAN, NOW)

    kept = read_attempts(run.attempts)

    assert (len(kept), kept[-1].number, next_number(kept, 0)) == (50, 60, 61)


def test_the_newest_attempts_keep_the_end_of_their_tracebacks() -> None:
    """All other fields of the older ones stay, also those that a newer oncue stored."""
    spec = Spec("t", max_retries=10)
    attempts = b'[{"number":1,"worker_id":null,"started_at":1,"ended_at":2,"outcome":"failed","traceback":"t","new":1}]'
    for number in range(1, TRACEBACKS_KEPT + 2):
        run = claimed(spec, failures=number, attempts=attempts)
        long = "begins\n" + "x" * LONGEST_TRACEBACK + f"\nends {number}"
        attempts = fail(run, spec, error_class="a.Boom", traceback=long).attempts or b""

    tried = read_attempts(attempts)
    assert [one.traceback for one in tried[-TRACEBACKS_KEPT:]] == [f"ends {n}" for n in (2, 3, 4)]
    assert {one.traceback for one in tried[:-TRACEBACKS_KEPT]} == {None}
    assert {one.error_class for one in tried[1:]} == {"a.Boom"}
    assert msgspec.json.decode(attempts)[0]["new"] == 1
