"""What is told of a run's attempts: the recorded ones, the one that ended it, and how late the first one started."""

from __future__ import annotations

import msgspec

from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, Instant, rfc3339
from oncue.domain.run import Attempt, RunView, State, next_number, read_attempts


def attempts_of(found: RunView) -> tuple[Attempt, ...]:
    """The recorded attempts, which ended without success, and the one that ended the run otherwise."""
    recorded = read_attempts(found.attempts)
    if found.ended_at is None or found.started_at is None:
        return recorded
    number = next_number(recorded, found.failures + found.losses)
    if found.state is State.SUCCEEDED:
        return (*recorded, Attempt(number, found.worker_id, found.started_at, found.ended_at, "succeeded"))
    stopped = found.state is State.CANCELLED and not (recorded and recorded[-1].started_at == found.started_at)
    if stopped:
        return (*recorded, Attempt(number, found.worker_id, found.started_at, found.ended_at, "cancelled"))
    return recorded


def last_failure(tried: tuple[Attempt, ...]) -> Attempt | None:
    """The last attempt that failed or was lost: a preemption is neither."""
    for one in reversed(tried):
        if one.outcome != "preempted":
            return one
    return None


def error_type_of(found: RunView) -> str | None:
    """The type of the error that a run ended with; of one that has not ended, of its last failure or loss."""
    if found.error_type is not None or found.attempts is None:
        return found.error_type
    failed = last_failure(attempts_of(found))
    return None if failed is None else failed.error_type


def attempt_number(found: RunView, tried: tuple[Attempt, ...]) -> int:
    """How many attempts have started."""
    if found.state is State.RUNNING:
        return next_number(tried, found.failures + found.losses)
    return tried[-1].number if tried else 0


def lag_ms(found: RunView, tried: tuple[Attempt, ...]) -> int | None:
    """How late the first attempt started. Unknown once the first of many attempts is no longer kept."""
    if tried and tried[0].number > 1:
        return None
    start = tried[0].started_at if tried else found.started_at
    return None if start is None else (start - found.wanted) // MILLISECOND


class ShownAttempt(msgspec.Struct, frozen=True, gc=False):
    number: int
    executor_id: WorkerId | None
    start_time: str | None
    end_time: str | None
    outcome: str
    error_type: str | None
    error_class: str | None
    error_message: str | None
    traceback: str | None


def show_attempt(one: Attempt, *, whole: bool = False) -> ShownAttempt:
    """`whole`: with its traceback, which would make a page of runs large."""
    return ShownAttempt(
        one.number,
        one.worker_id,
        time_or_none(one.started_at),
        time_or_none(one.ended_at),
        one.outcome,
        one.error_type,
        one.error_class,
        one.error,
        one.traceback if whole else None,
    )


def time_or_none(at: Instant | None) -> str | None:
    return None if at is None else rfc3339(at)
