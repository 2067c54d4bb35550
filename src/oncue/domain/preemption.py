"""Preemption: which run gives way when something of high priority waits and every place is taken."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Spec
from oncue.domain.placement import Priority, Resources
from oncue.domain.run import Claimed, read_attempts

LONGEST_STINT = Duration(HOUR)


def may_preempt(spec: Spec, run: Claimed, started_at: Instant, now: Instant) -> bool:
    """One that says so, is not of high priority itself, and has had its time."""
    if not spec.preemptible or spec.priority is Priority.HIGH:
        return False
    gave_way = sum(attempt.outcome == "preempted" for attempt in read_attempts(run.attempts))
    return now - started_at >= stint(gave_way)


def stint(gave_way: int) -> Duration:
    """The time of its own that a run has before it may be preempted again: a minute, then twice as long each time.

    So it ends at last, however much of high priority there is. At first hardly any: else high ones would wait.
    """
    if not gave_way:
        return Duration(SECOND // 2)
    return Duration(min(MINUTE << min(gave_way - 1, 10), LONGEST_STINT))


def give_way(short: Resources, held: Sequence[tuple[Resources, bool]]) -> list[int] | None:
    """Which of those that hold something have to give it back, the first of them first; no more than it takes.

    `held` tells what each holds, and whether its slots are of the kind that is short. None: all were not enough.
    """
    chosen: list[int] = []
    for n, (size, same_kind) in enumerate(held):
        if _enough(short, [held[other] for other in chosen]):
            break
        if _helps(short, size, same_kind):
            chosen.append(n)
    if not _enough(short, [held[n] for n in chosen]):
        return None
    for n in reversed(chosen):
        without = [other for other in chosen if other != n]
        if _enough(short, [held[other] for other in without]):
            chosen = without
    return chosen


def _helps(short: Resources, size: Resources, same_kind: bool) -> bool:
    return bool(
        (short.cpu_milli and size.cpu_milli) or (short.memory_mb and size.memory_mb) or (short.slots and same_kind)
    )


def _enough(short: Resources, held: Sequence[tuple[Resources, bool]]) -> bool:
    return (
        sum(size.cpu_milli for size, _ in held) >= short.cpu_milli
        and sum(size.memory_mb for size, _ in held) >= short.memory_mb
        and sum(size.slots for size, same_kind in held if same_kind) >= short.slots
    )
