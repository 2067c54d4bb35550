"""Decide what the end of an attempt means for its run. Each function returns the Settlement to write."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from oncue.domain.errors import NoRetry
from oncue.domain.fingerprint import Fault, fault
from oncue.domain.ids import NOTICES, WorkerId
from oncue.domain.instants import Duration, Instant
from oncue.domain.job import Spec, decode_spec
from oncue.domain.plain_text import end_of, plain, printable
from oncue.domain.policy import Again, Dead, after_failure, after_loss
from oncue.domain.run import Attempt, Claimed, Settlement, State, with_attempt

LONGEST_ERROR = 4_000
LONGEST_TRACEBACK = 4 * 1024  # bytes
NO_RETRY = NoRetry.__name__
LEFT_BEHIND = "its function did not stop and was left behind"
NO_HEARTBEAT = "the worker that ran it sent no heartbeat"
LOST_SETTLEMENT = "lost_settlement: its worker knows nothing of it any more, as after a failover that lost writes"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A visible failure. `retry=False`: no retry would help, or the task raised NoRetry; `after`: its RetryAfter's."""

    error_type: str
    error: str
    outcome: Literal["failed", "timed_out"] = "failed"
    retry: bool = True
    after: Duration | None = None
    frame: str | None = None  # where in the task the error rose
    error_class: str | None = None
    traceback: str = ""


def succeeded(run: Claimed, started_at: Instant, now: Instant, result: bytes | None) -> Settlement:
    return Settlement(
        run=run,
        state=State.SUCCEEDED,
        started_at=started_at,
        ended_at=now,
        failures=run.failures,
        losses=run.losses,
        result=result,
        attempts=run.attempts,
    )


def failed(
    run: Claimed, spec: Spec, worker: WorkerId, started_at: Instant, now: Instant, failure: Failure, luck: float
) -> Settlement:
    """Settle a visible failure. Its texts are cleaned, so that every database can store them."""
    failures = run.failures + 1
    decision = (
        after_failure(spec.retry, spec.max_retries, failures, now, luck, failure.after)
        if failure.retry
        else Dead("the task raised NoRetry" if failure.error_type == NO_RETRY else "not retried")
    )
    kind, error = printable(failure.error_type), plain(failure.error, LONGEST_ERROR)
    path = None if failure.error_class is None else printable(failure.error_class)
    trace = end_of(failure.traceback, LONGEST_TRACEBACK) or None
    tried = Attempt(run.attempt, worker, started_at, now, failure.outcome, kind, error, path, trace)
    counted = _fault(run, spec.task, tried, failure.frame)
    return _unsuccessful(run, decision, tried, counted, failures=failures, losses=run.losses)


def preempted(run: Claimed, worker: WorkerId, started_at: Instant, now: Instant) -> Claimed:
    """Record a preemption; the run then returns to the queue without using up an attempt.

    The number of preemptions decides when the run may be preempted again. The record has no error.
    """
    return replace(run, attempts=with_attempt(run.attempts, Attempt(run.attempt, worker, started_at, now, "preempted")))


def handed_back(run: Claimed, now: Instant) -> Settlement:
    """Return a run to the queue as if it had not been claimed."""
    return Settlement(
        run=run,
        state=State.WAITING,
        ended_at=now,
        due=run.due,
        failures=run.failures,
        losses=run.losses,
        attempts=run.attempts,
    )


def cancelled(
    run: Claimed, worker: WorkerId, started_at: Instant, now: Instant, error: str | None = None
) -> Settlement:
    """Settle a cancelled attempt: neither a failure nor a loss."""
    stopped = Attempt(run.attempt, worker, started_at, now, "cancelled", error=error)
    return Settlement(
        run=run,
        state=State.CANCELLED,
        started_at=started_at,
        ended_at=now,
        failures=run.failures,
        losses=run.losses,
        attempts=with_attempt(run.attempts, stopped),
    )


def lost(run: Claimed, worker: WorkerId, claimed_at: Instant, now: Instant, error: str = NO_HEARTBEAT) -> Settlement:
    """Settle a loss: its worker sent no heartbeat, or its own process died as `error` says. Uses up no retry."""
    losses = run.losses + 1
    tried = Attempt(run.attempt, worker, claimed_at, now, "lost", "WorkerLost", plain(error, LONGEST_ERROR))
    counted = _fault(run, _task_of(run.spec), tried)
    decision = _after_loss(run.spec, losses, now)
    return _unsuccessful(run, decision, tried, counted, failures=run.failures, losses=losses)


def given_up(run: Claimed, started_at: Instant, now: Instant, why: str) -> Settlement:
    """Settle as dead when the outcome cannot be determined or written. Uses no value that could itself be invalid."""
    return Settlement(
        run=run,
        state=State.DEAD,
        started_at=started_at,
        ended_at=now,
        failures=run.failures + 1,
        losses=run.losses,
        error_type="InternalError",
        error=why,
        attempts=run.attempts,
    )


def expired(run: Claimed, now: Instant) -> Settlement:
    """Settle a run that could not start in time."""
    return Settlement(run=run, state=State.EXPIRED, ended_at=now, failures=run.failures, losses=run.losses)


def _after_loss(spec: bytes, losses: int, now: Instant) -> Again | Dead:
    """Read `on_lost` only: if a newer oncue wrote the definition, a worker of that version understands the rest."""
    try:
        found = decode_spec(spec)
        if "on_lost" in found.not_understood:
            raise ValueError("this oncue does not know the value of on_lost")
    except ValueError as wrong:  # on_lost may be dead, which forbids a second start
        return Dead(f"the definition cannot be read, so the run is not started again: {wrong}")
    return after_loss(found.on_lost, losses, now)


def _fault(run: Claimed, task: str, tried: Attempt, frame: str | None = None) -> Fault | None:
    """None: for notices, which are no jobs of their user."""
    return None if run.job_id == NOTICES else fault(task, tried.error_type or "", tried.error or "", frame)


def _task_of(spec: bytes) -> str:
    try:
        return decode_spec(spec).task
    except ValueError:  # damaged
        return ""


def _unsuccessful(
    run: Claimed, decision: Again | Dead, attempt: Attempt, counted: Fault | None, *, failures: int, losses: int
) -> Settlement:
    again = isinstance(decision, Again)
    return Settlement(
        run=run,
        state=State.WAITING if again else State.DEAD,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        due=decision.due if isinstance(decision, Again) else None,
        failures=failures,
        losses=losses,
        error_type=attempt.error_type,
        error=attempt.error if isinstance(decision, Again) else f"{attempt.error} ({decision.reason})",
        attempts=with_attempt(run.attempts, attempt),
        fault=counted,
    )
