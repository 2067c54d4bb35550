"""What an attempt's end means for its run: each function returns the one Settlement that says what to write."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from oncue.domain.ids import WorkerId
from oncue.domain.instants import Duration, Instant
from oncue.domain.job import Spec, decode_spec
from oncue.domain.plain_text import plain, printable
from oncue.domain.policy import Again, Dead, after_failure, after_loss
from oncue.domain.run import Attempt, Claimed, Settlement, State, with_attempt

LONGEST_ERROR = 4_000
FELL_SILENT = "the worker running it fell silent"


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
    run: Claimed,
    spec: Spec,
    worker: WorkerId,
    started_at: Instant,
    now: Instant,
    *,
    error_type: str,
    error: str,
    luck: float,
    outcome: Literal["failed", "timed_out"] = "failed",
    retry: bool = True,
    asked: Duration | None = None,
) -> Settlement:
    """A visible failure. `retry=False` is a task's NoRetry; `asked` its RetryAfter.

    Whatever stands in the texts, what is written of them every store takes.
    """
    failures = run.failures + 1
    decision = (
        after_failure(spec.retry, spec.max_retries, failures, now, luck, asked)
        if retry
        else Dead("the task said not to retry")
    )
    return _unsuccessful(
        run,
        decision,
        Attempt(run.attempt, worker, started_at, now, outcome, printable(error_type), plain(error, LONGEST_ERROR)),
        failures=failures,
        losses=run.losses,
    )


def preempted(run: Claimed, worker: WorkerId, started_at: Instant, now: Instant) -> Claimed:
    """To be handed back, unspent, with a note that it gave way: how often it did decides when it may be asked again.

    Nothing went wrong: the note has no error.
    """
    return replace(run, attempts=with_attempt(run.attempts, Attempt(run.attempt, worker, started_at, now, "preempted")))


def handed_back(run: Claimed, now: Instant) -> Settlement:
    """Never really tried: it waits again as if it had not been claimed."""
    return Settlement(
        run=run,
        state=State.WAITING,
        ended_at=now,
        due=run.due,
        failures=run.failures,
        losses=run.losses,
        attempts=run.attempts,
    )


def cancelled(run: Claimed, worker: WorkerId, started_at: Instant, now: Instant) -> Settlement:
    """It was asked to stop, and did: neither a failure nor a loss."""
    stopped = Attempt(run.attempt, worker, started_at, now, "cancelled")
    return Settlement(
        run=run,
        state=State.CANCELLED,
        started_at=started_at,
        ended_at=now,
        failures=run.failures,
        losses=run.losses,
        attempts=with_attempt(run.attempts, stopped),
    )


def lost(run: Claimed, worker: WorkerId, claimed_at: Instant, now: Instant, error: str = FELL_SILENT) -> Settlement:
    """Its worker fell silent, or its own process died as `error` tells: a loss, whatever retries are left."""
    losses = run.losses + 1
    return _unsuccessful(
        run,
        _after_loss(run.spec, losses, now),
        Attempt(run.attempt, worker, claimed_at, now, "lost", "WorkerLost", plain(error, LONGEST_ERROR)),
        failures=run.failures,
        losses=losses,
    )


def given_up(run: Claimed, started_at: Instant, now: Instant, why: str) -> Settlement:
    """The last resort, made of nothing that can be wrong: what it came to could not be made out, or not be written."""
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


def _after_loss(spec: bytes, losses: int, now: Instant) -> Again | Dead:
    """Of a definition that a newer oncue made only this one word matters: a worker that knows the rest will take it."""
    try:
        found = decode_spec(spec)
        if "on_lost" in found.not_understood:
            raise ValueError("its on_lost is one that this oncue does not know")
    except ValueError as wrong:  # it may have said that a second start is never to be risked
        return Dead(f"its definition cannot be read, so it is not started again: {wrong}")
    return after_loss(found.on_lost, losses, now)


def _unsuccessful(run: Claimed, decision: Again | Dead, attempt: Attempt, *, failures: int, losses: int) -> Settlement:
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
    )
