"""Instants and durations: integers of microseconds, parsed strictly, printed one way.

An `Instant` counts microseconds since 1970-01-01T00:00:00Z. Integers compare exactly, are cheap, and mean the same on
every engine; `datetime` is used only at the border to people and time zones.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

from oncue.domain.errors import Invalid

Instant = NewType("Instant", int)
Duration = NewType("Duration", int)

MICROSECOND = Duration(1)
MILLISECOND = Duration(1_000)
SECOND = Duration(1_000_000)
MINUTE = Duration(60 * SECOND)
HOUR = Duration(60 * MINUTE)
DAY = Duration(24 * HOUR)

LONG_AGO = Instant(0)  # before every occurrence of every schedule
NEVER = Instant(2**62)  # later than every instant: the due instant of held or paused work
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE = timedelta(microseconds=1)

# Dates a schedule may name. Databases can hold more, but time-zone rules are not reliable beyond.
FIRST_YEAR, LAST_YEAR = 1970, 2199


def instant(moment: datetime) -> Instant:
    """Convert an aware datetime to an Instant."""
    if moment.tzinfo is None:
        raise ValueError("the datetime has no time zone; pass tzinfo, like tzinfo=UTC")
    return Instant((moment - EPOCH) // _ONE)


def moment(at: Instant) -> datetime:
    """Convert an Instant to an aware datetime in UTC."""
    return EPOCH + timedelta(microseconds=at)


@lru_cache(maxsize=4_000)
def rfc3339(at: Instant) -> str:
    """Format as the API does: UTC, milliseconds, `Z`. Pages have thousands of instants, which may all differ."""
    hour, rest = divmod(at, HOUR)
    return _hour(hour) + _SECONDS[rest // SECOND] + _MILLISECONDS[rest % SECOND // MILLISECOND]


@lru_cache(maxsize=1_000)
def _hour(number: int) -> str:
    return moment(Instant(number * HOUR)).isoformat()[: len("2027-01-31T09:")]


_SECONDS = [f"{minute:02d}:{second:02d}." for minute in range(60) for second in range(60)]
_MILLISECONDS = [f"{number:03d}Z" for number in range(1_000)]


def day_of(at: Instant) -> int:
    """Return the day in UTC, counted from 1970-01-01."""
    return at // DAY


def date_of(day: int) -> str:
    """Format a day as the API does, like 2027-01-31."""
    return (EPOCH + timedelta(days=day)).date().isoformat()


def whole_millisecond(at: Instant) -> Instant:
    """Round up to a millisecond, which is what the API prints: never early."""
    return Instant(-(-at // MILLISECOND) * MILLISECOND)


_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def parse_instant(text: str, path: str = "") -> Instant:
    """Parse RFC 3339 with an offset, rounded *up* to the millisecond, so that nothing starts early."""
    found = _RFC3339.fullmatch(text)
    if not found:
        raise Invalid.of(
            path, "bad_instant", f"{text[:40]!r} is not an RFC 3339 instant with an offset, like 2027-01-31T09:00:00Z"
        )
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        whole = datetime.fromisoformat(f"{year}-{month}-{day}T{hour}:{minute}:{second}{_offset(zone)}")
        seconds = (whole - EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError) as wrong:
        raise Invalid.of(path, "bad_instant", f"{text[:40]!r} is not a real instant: {wrong}") from None
    if hour == "24" or not FIRST_YEAR <= int(year) <= LAST_YEAR:
        raise Invalid.of(path, "bad_instant", f"{text[:40]!r} is outside the years {FIRST_YEAR} to {LAST_YEAR}")
    nanoseconds = int((fraction or "").ljust(9, "0"))
    return Instant(seconds * SECOND + -(-nanoseconds // 1_000_000) * MILLISECOND)


def _offset(zone: str) -> str:
    if zone in "Zz":
        return "+00:00"
    if int(zone[1:3]) > 23 or int(zone[4:6]) > 59:
        raise ValueError(f"offset {zone} does not exist")
    return zone


_UNITS: dict[str, Duration] = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": Duration(7 * DAY)}
_SHORT = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?(ms|s|m|h|d|w)", re.ASCII)
_ISO = re.compile(
    r"P(?:(\d{1,6})W|(?:(\d{1,6})D)?(?:T(?=\d)(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,10})(?:\.(\d{1,6}))?S)?)?)",
    re.ASCII,
)
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)
DURATION_PATTERN = f"^({_SHORT.pattern}|{_ISO.pattern})$"
LONGEST = Duration(3_660 * DAY)


def parse_duration(text: str, path: str = "", *, least: Duration = MILLISECOND) -> Duration:
    """Parse `"250ms"`, `"30s"`, `"1.5h"`, `"7d"` or ISO 8601 (`"PT1H30M"`), without months and years."""
    length = _short(text)
    if length is None:
        length = _iso(text)
    if length is None:
        shown = f'{text[:40]!r} is not a duration like "250ms", "30s", "5m", "2h", "7d" or "PT1H"'
        raise Invalid.of(path, "bad_duration", shown + seconds_hint(text))
    if not least <= length <= LONGEST:
        raise Invalid.of(
            path, "bad_duration", f"{text[:40]!r} must be between {show_duration(least)} and {show_duration(LONGEST)}"
        )
    return length


def seconds_hint(given: object) -> str:
    """Say how a number without a unit is written as seconds; nothing about anything else."""
    number = _NUMBER.fullmatch(str(given))
    return f'; {number[0]} seconds is "{number[0]}s"' if number else ""


def _short(text: str) -> Duration | None:
    found = _SHORT.fullmatch(text)
    if not found:
        return None
    whole, fraction, unit = found.groups()
    return Duration(int(whole) * _UNITS[unit] + int((fraction or "0").ljust(6, "0")) * _UNITS[unit] // 1_000_000)


def _iso(text: str) -> Duration | None:
    found = _ISO.fullmatch(text)
    if not found or not any(found.groups()):
        return None
    weeks, days, hours, minutes, seconds, fraction = (
        int(group) if i < 5 and group else group or 0 for i, group in enumerate(found.groups())
    )
    micros = int(str(fraction).ljust(6, "0")) if fraction else 0
    return Duration(
        int(weeks) * 7 * DAY
        + int(days) * DAY
        + int(hours) * HOUR
        + int(minutes) * MINUTE
        + int(seconds) * SECOND
        + micros
    )


def of_timedelta(length: timedelta) -> Duration:
    return Duration(length // _ONE)


@lru_cache(maxsize=1_000)
def show_duration(length: Duration) -> str:
    """Format in the largest unit that divides it: an hour is `1h`, 90 s `90s`; otherwise in milliseconds."""
    for unit in ("d", "h", "m", "s", "ms"):
        if length and length % _UNITS[unit] == 0:
            return f"{length // _UNITS[unit]}{unit}"
    whole, rest = divmod(length, MILLISECOND)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") + "ms" if length else "0s"
