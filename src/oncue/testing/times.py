"""Times as tests write them: datetimes, timedeltas and texts, beside our own integers of microseconds."""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.domain.instants import Duration, Instant, instant, of_timedelta, parse_duration
from oncue.domain.time_input import parse_time

Time = str | datetime | int
"""An instant: an aware datetime, text like "2027-01-31T09:00Z" or "in 10m", or microseconds since 1970."""

Span = str | timedelta | int
"""A duration: a timedelta, text like "10m", or microseconds."""


def to_instant(when: Time, now: Instant) -> Instant:
    """Read an instant; relative texts count from `now`. ValueError, Invalid: there is no time zone, or no time."""
    match when:
        case str():
            return parse_time(when, now, "time")
        case datetime():
            return instant(when)
        case _:
            return Instant(when)


def to_duration(length: Span) -> Duration:
    """Read a duration. Invalid: the text is none."""
    match length:
        case str():
            return parse_duration(length, "duration", least=Duration(0))
        case timedelta():
            return of_timedelta(length)
        case _:
            return Duration(length)
