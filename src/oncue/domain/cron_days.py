"""Compute which days of a year a cron expression matches.

There are only fourteen calendars: a year is a leap year or not and begins on one of seven weekdays. Each rule is
evaluated once per calendar, exactly, so "never" is certain and a search of two centuries is a few lookups.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import isleap
from datetime import date
from functools import lru_cache

from oncue.domain.cron_fields import DayRule, mask_of
from oncue.domain.instants import FIRST_YEAR, LAST_YEAR

_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SUNDAY, _SATURDAY = 0, 6

# One year more on each side, without matching days, saves special cases at the edges.
_YEARS = range(FIRST_YEAR - 1, LAST_YEAR + 2)
_YEAR_STARTS = tuple((date(year, 1, 1) - date(1970, 1, 1)).days for year in _YEARS)


def _weekday_of_new_year(year: int) -> int:
    return date(year, 1, 1).isoweekday() % 7


@lru_cache(maxsize=512)
def days_by_year(rule: DayRule, years: tuple[int, ...]) -> tuple[int, ...]:
    """Return a mask of matching days for each of `_YEARS`; bit 0 is 1 January. Empty `years` means all."""
    calendars: dict[tuple[bool, int], int] = {}
    masks = []
    for year in _YEARS:
        if not FIRST_YEAR <= year <= LAST_YEAR or (years and year not in years):
            masks.append(0)
            continue
        kind = isleap(year), _weekday_of_new_year(year)
        if kind not in calendars:
            calendars[kind] = _days_of_year(rule, *kind)
        masks.append(calendars[kind])
    return tuple(masks)


def next_day(masks: tuple[int, ...], day: int) -> int | None:
    """Return the first matching day at or after `day`, both counted from 1970-01-01."""
    index = bisect_right(_YEAR_STARTS, day) - 1
    rest = masks[index] >> (day - _YEAR_STARTS[index])
    if rest:
        return day + (rest & -rest).bit_length() - 1
    for later in range(index + 1, len(masks)):
        if mask := masks[later]:
            return _YEAR_STARTS[later] + (mask & -mask).bit_length() - 1
    return None


def _days_of_year(rule: DayRule, leap: bool, new_year: int) -> int:
    mask, first = 0, 0
    for month, length in enumerate(_MONTH_LENGTHS, start=1):
        length += leap and month == 2
        if rule.months >> month & 1:
            mask |= _days_of_month(rule, length, (new_year + first) % 7) >> 1 << first
        first += length
    return mask


@lru_cache(maxsize=1024)
def _days_of_month(rule: DayRule, length: int, first_weekday: int) -> int:
    """Return the mask of a month's matching dates; there are twenty-eight kinds of months."""
    by_date = {day for day in range(1, length + 1) if rule.dates >> day & 1}
    by_date |= {
        _nearest_workday(day, length, first_weekday) for day in range(1, length + 1) if rule.nearest_workdays >> day & 1
    }
    if rule.last_date:
        by_date.add(length)
    if rule.last_workday:
        by_date.add(_nearest_workday(length, length, first_weekday))
    by_weekday = {day for day in range(1, length + 1) if _weekday_matches(rule, day, length, first_weekday)}
    return mask_of(by_date & by_weekday if rule.both else by_date | by_weekday)


def _weekday_matches(rule: DayRule, day: int, length: int, first_weekday: int) -> bool:
    weekday = (first_weekday + day - 1) % 7
    nth = (day + 6) // 7
    is_last = day + 7 > length
    return bool(
        rule.weekdays >> weekday & 1
        or (weekday, nth) in rule.nth_weekdays
        or (is_last and rule.last_weekdays >> weekday & 1)
    )


def _nearest_workday(day: int, length: int, first_weekday: int) -> int:
    """Return the Monday to Friday nearest to `day` within the month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day
