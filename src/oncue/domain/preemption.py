"""Choose which runs to preempt when a high-priority run waits and no slot is free."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Spec
from oncue.domain.placement import Priority, Resources
from oncue.domain.run import Claimed, read_attempts

LONGEST_STINT = Duration(HOUR)


def may_preempt(spec: Spec, run: Claimed, started_at: Instant, now: Instant) -> bool:
    """Whether a run may be preempted: it is preemptible, not high-priority, and has run for its minimum time."""
    if not spec.preemptible or spec.priority is Priority.HIGH:
        return False
    gave_way = sum(attempt.outcome == "preempted" for attempt in read_attempts(run.attempts))
    return now - started_at >= stint(gave_way)


def stint(gave_way: int) -> Duration:
    """Return the least time before a run is preempted (again): half a second, a minute, then twice as long each time.

    The growth lets it finish in the end, even under constant high-priority load. The first time is short, so that
    high-priority runs start at once.
    """
    if not gave_way:
        return Duration(SECOND // 2)
    return Duration(min(MINUTE << min(gave_way - 1, 10), LONGEST_STINT))


def choose_preempted(short: Resources, held: Sequence[tuple[Resources, bool]]) -> list[int] | None:
    """Choose the fewest runs to preempt so that `short` becomes free, the first of `held` first.

    `held` has what each run holds, and whether its slots are of the kind that is short. None: all together are not
    enough.
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
