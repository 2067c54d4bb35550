"""Policies as functions over plain values: retries, losses, expiry. They decide; engines write."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from oncue.domain.instants import MINUTE, SECOND, Duration, Instant

LOSSES = 3  # a run that took this many workers down with it is dead
ALONE_FROM = 2  # from this loss on it runs in a process of its own, so that innocents do not collect a poison's deaths


class Overlap(StrEnum):
    """What a scheduled occurrence does when its job's previous run is still going."""

    QUEUE = "queue"
    SKIP = "skip"
    ALLOW = "allow"
    REPLACE = "replace"


class CatchUp(StrEnum):
    """What becomes of occurrences that nobody planned in time."""

    LAST = "last"
    SKIP = "skip"
    ALL = "all"


class OnLost(StrEnum):
    """What becomes of a run whose worker died: run it again, or never risk a second start."""

    RERUN = "rerun"
    DEAD = "dead"


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The wait after the n-th failure: backoff × factorⁿ⁻¹, at most max_backoff, plus up to jitter of itself."""

    backoff: Duration = Duration(2 * SECOND)
    factor: float = 2.0
    max_backoff: Duration = Duration(5 * MINUTE)
    jitter: float = 0.2


def backoff(retry: Retry, failures: int, luck: float) -> Duration:
    """The wait after this many failures; `luck` in [0, 1) draws the jitter, which only ever adds."""
    if failures < 1:
        raise ValueError("backoff follows a failure")
    doublings = min(failures - 1, 64)  # beyond, only max_backoff can answer, and floats would overflow
    length = min(retry.backoff * retry.factor**doublings, float(retry.max_backoff))
    return Duration(int(length * (1 + retry.jitter * luck)))


class Again(msgspec.Struct, frozen=True):
    """The run waits and is tried again from `due` on."""

    due: Instant


class Dead(msgspec.Struct, frozen=True):
    """The run is a dead letter, for this reason."""

    reason: str


def after_failure(
    retry: Retry, max_retries: int, failures: int, now: Instant, luck: float, asked: Duration | None = None
) -> Again | Dead:
    """A visible failure (exception, exit code, status): `failures` counts this one; `asked` is a task's RetryAfter."""
    if failures > max_retries:
        tries = f"{failures} attempt{'s' * (failures > 1)}"
        return Dead(f"failed after {tries}; max_retries is {max_retries}")
    return Again(Instant(now + (backoff(retry, failures, luck) if asked is None else asked)))


def after_loss(on_lost: OnLost, losses: int, now: Instant) -> Again | Dead:
    """An invisible failure: its worker fell silent. `losses` counts this one; max_retries has no say in it."""
    if on_lost is OnLost.DEAD:
        return Dead("its worker was lost, and on_lost is dead: it may have run, and is not started twice")
    if losses >= LOSSES:
        return Dead(f"{losses} workers were lost while running it")
    return Again(now)


def must_run_alone(losses: int) -> bool:
    return losses >= ALONE_FROM


def expires_at(start_within: Duration | None, wanted: Instant) -> Instant | None:
    """The instant after which a run that never started is of no use any more."""
    return None if start_within is None else Instant(wanted + start_within)
