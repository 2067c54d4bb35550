"""Decide about retries, losses and expiry, as functions over plain values. Engines write the decisions."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from oncue.domain.instants import MINUTE, SECOND, Duration, Instant

LOSSES = 3  # a run becomes a dead letter when this many workers died while running it
ALONE_FROM = 2  # from this loss on a run gets a process of its own, so that no other run counts its losses


class Overlap(StrEnum):
    """What a scheduled occurrence does while its job's previous run is active."""

    QUEUE = "queue"
    SKIP = "skip"
    ALLOW = "allow"
    REPLACE = "replace"


class CatchUp(StrEnum):
    """Which occurrences still run when no scheduler planned them in time."""

    LAST = "last"
    SKIP = "skip"
    ALL = "all"


class OnLost(StrEnum):
    """What happens to a run whose worker died: run it again, or never risk a second start."""

    RERUN = "rerun"
    DEAD = "dead"


class OnLeftBehind(StrEnum):
    """Whether the group and the concurrency key of a run wait for a function that does not stop when told to."""

    HOLD = "hold"
    RELEASE = "release"


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The delay after the n-th failure: backoff × factorⁿ⁻¹, at most max_backoff, plus up to jitter of itself."""

    backoff: Duration = Duration(2 * SECOND)
    factor: float = 2.0
    max_backoff: Duration = Duration(5 * MINUTE)
    jitter: float = 0.2


def backoff(retry: Retry, failures: int, luck: float) -> Duration:
    """Return the delay after this many failures; `luck` in [0, 1) draws the jitter, which only adds."""
    if failures < 1:
        raise ValueError("failures must be at least 1")
    doublings = min(failures - 1, 64)  # beyond that max_backoff applies anyway, and floats would overflow
    length = min(retry.backoff * retry.factor**doublings, float(retry.max_backoff))
    return Duration(int(length * (1 + retry.jitter * luck)))


class Again(msgspec.Struct, frozen=True):
    """The run waits and is retried from `due` on."""

    due: Instant


class Dead(msgspec.Struct, frozen=True):
    """The run becomes a dead letter, for this reason."""

    reason: str


def after_failure(
    retry: Retry, max_retries: int, failures: int, now: Instant, luck: float, asked: Duration | None = None
) -> Again | Dead:
    """Decide after a visible failure (exception, exit code, status), which `failures` includes.

    `asked` is the delay of a task's RetryAfter.
    """
    if failures > max_retries:
        tries = f"{failures} attempt{'s' * (failures > 1)}"
        return Dead(f"failed after {tries}; max_retries is {max_retries}")
    return Again(Instant(now + (backoff(retry, failures, luck) if asked is None else asked)))


def after_loss(on_lost: OnLost, losses: int, now: Instant) -> Again | Dead:
    """Decide after a loss: the worker sent no heartbeat. `losses` includes this one; max_retries does not apply."""
    if on_lost is OnLost.DEAD:
        return Dead("the worker was lost and on_lost is dead, so the run is not started a second time")
    if losses >= LOSSES:
        return Dead(f"{losses} workers were lost while running it")
    return Again(now)


def must_run_alone(losses: int) -> bool:
    return losses >= ALONE_FROM


def expires_at(start_within: Duration | None, wanted: Instant) -> Instant | None:
    """Return the instant at which a run that has not started expires."""
    return None if start_within is None else Instant(wanted + start_within)
