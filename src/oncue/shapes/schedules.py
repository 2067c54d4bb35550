"""Schedules as values for Python code: `cron("0 9 * * 1-5", "Europe/Berlin")`, `every("1h")`, `at(…)`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack
from zoneinfo import ZoneInfo

import msgspec

Length = str | timedelta
When = str | datetime
Zone = str | ZoneInfo


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a job runs, in the fields that the API takes. `cron`, `every` and `at` build one."""

    cron: str | None = None
    every: str | None = None
    at: str | None = None
    timezone: str | None = None
    dst_gap: str | None = None
    dst_fold: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    jitter: str | None = None
    max_runs: int | None = None

    @property
    def recurring(self) -> bool:
        return self.at is None


class Series(TypedDict, total=False):
    """What every recurring schedule may have: a time range, a random delay, a number of runs."""

    start_at: When
    """no occurrence before this instant"""
    end_at: When
    """no occurrence after this instant"""
    jitter: Length
    """a random delay of each start, at most this long"""
    max_runs: int
    """the schedule ends after this many occurrences"""


def cron(
    expression: str,
    timezone: Zone | None = None,
    *,
    dst_gap: Literal["shift", "skip"] | None = None,
    dst_fold: Literal["first", "second", "both"] | None = None,
    **series: Unpack[Series],
) -> Schedule:
    """Run by a cron expression, in a time zone (by default UTC): `cron("0 9 * * 1-5", "Europe/Berlin")`."""
    rest = _series(series)
    return Schedule(cron=expression, timezone=_zone(timezone), dst_gap=dst_gap, dst_fold=dst_fold, **rest)


def every(length: Length, /, **series: Unpack[Series]) -> Schedule:
    """Run at an interval: `every("1h")`, `every(timedelta(minutes=5))`."""
    return Schedule(every=duration_text(length), **_series(series))


def at(when: When, /, timezone: Zone | None = None) -> Schedule:
    """Run once, at an instant: `at(datetime(2027, 1, 31, 9), "Europe/Berlin")`, `at("2027-01-31T08:00:00Z")`.

    An aware datetime needs no time zone.
    """
    return Schedule(at=instant_text(when, timezone), timezone=_zone(timezone))


def duration_text(length: Length) -> str:
    """Return a duration as text, as it is sent."""
    found: str = length if isinstance(length, str) else msgspec.to_builtins(length)  # ISO 8601
    return found


def instant_text(when: When, timezone: Zone | None = None) -> str:
    """Return an instant as text, as it is sent. ValueError: a datetime without a time zone."""
    if isinstance(when, datetime) and when.tzinfo is None and timezone is None:
        raise ValueError("the datetime has no time zone; write datetime(…, tzinfo=ZoneInfo('Europe/Berlin'))")
    if not isinstance(when, str | datetime):
        raise TypeError(f"an instant is a datetime or a text like '2027-01-31T09:00:00Z', not {when!r:.80}")
    return when if isinstance(when, str) else when.isoformat()


def _zone(zone: Zone | None) -> str | None:
    return None if zone is None else str(zone)


def _series(given: Series) -> dict[str, Any]:
    return {name: _text(value) for name, value in given.items()}


def _text(value: Any) -> Any:
    match value:
        case datetime():
            return instant_text(value)
        case timedelta():
            return duration_text(value)
        case _:
            return value
