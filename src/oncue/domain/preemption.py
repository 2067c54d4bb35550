"""Preemption: which run gives way when something of high priority waits and every place is taken."""

from __future__ import annotations

from oncue.domain.instants import HOUR, MINUTE, Duration, Instant
from oncue.domain.job import Spec
from oncue.domain.placement import Priority
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

    So it ends at last, however much of high priority there is.
    """
    if not gave_way:
        return Duration(0)
    return Duration(min(MINUTE << min(gave_way - 1, 10), LONGEST_STINT))
