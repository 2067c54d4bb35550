"""Times and durations for people: relative in lists, with the time zone where one object is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, instant, rfc3339

HALF_A_YEAR = 182 * DAY


def near(at: datetime, now: Instant, *, utc: bool = False) -> str:
    """Format for a list: `2m ago` or `in 4m` within a day, else `Jan 31 10:00`, in another year `2028-01-31`."""
    away = instant(at) - now
    if abs(away) < DAY:
        return "now" if abs(away) < SECOND else f"in {_length(away, up=True)}" if away > 0 else f"{_length(-away)} ago"
    there = _there(at, utc=utc)
    return f"{there:%b %d %H:%M}" if abs(away) < HALF_A_YEAR else f"{there:%Y-%m-%d}"


def to_the_second(at: datetime, *, utc: bool = False) -> str:
    """Format for a wide list: `2027-01-31 10:00:00`, in UTC `2027-01-31 09:00:00Z`."""
    return f"{_there(at, utc=utc):%Y-%m-%d %H:%M:%S}{'Z' if utc else ''}"


def exact(at: datetime, *, utc: bool = False) -> str:
    """Format for one object: `2027-01-31 10:00:00 CET (09:00:00Z)`, in UTC only `2027-01-31 09:00:00Z`."""
    there, universal = _there(at, utc=utc), at.astimezone(UTC)
    if there.utcoffset() == timedelta():
        return f"{universal:%Y-%m-%d %H:%M:%S}Z"
    other_day = f"{universal:%Y-%m-%d} " if universal.date() != there.date() else ""
    return f"{there:%Y-%m-%d %H:%M:%S %Z} ({other_day}{universal:%H:%M:%S}Z)"


def plain(at: datetime) -> str:
    """Format for programs, as the API does: RFC 3339 in UTC."""
    return rfc3339(instant(at))


def took(length: timedelta) -> str:
    """Format a duration in two units at most: `350ms`, `4.2s`, `3m 12s`, `2h 5m`, `3d 4h`."""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1_000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours < 24 else f"{hours // 24}d {hours % 24}h"


def _length(away: int, *, up: bool = False) -> str:
    """Format in the largest unit that fits, rounded down; with `up` to the nearest, so that 9m 59s are `10m`."""
    for larger, unit, name in ((MINUTE, SECOND, "s"), (HOUR, MINUTE, "m")):
        count = (away + unit // 2 if up else away) // unit
        if count < larger // unit:
            return f"{count}{name}"
    return f"{(away + HOUR // 2 if up else away) // HOUR}h"


def _there(at: datetime, *, utc: bool) -> datetime:
    return at.astimezone(UTC) if utc else at.astimezone()
