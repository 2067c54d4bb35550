"""Compute when a cron expression fires next in a time zone, with declared behaviour at daylight-saving changes.

An expression names *wall times*. A wall time that occurs once fires once. Policies decide about the other two kinds:

    does not exist (spring)    shift: the first instant after the gap      skip: not at all
    occurs twice (autumn)      first: the first time only                  both: both times

That is for fixed-time jobs. When the minute or the hour field starts with `*`, as in Debian's cron, the job follows
real time: it fires at each instant whose wall time matches, which is `skip` and `both`.

Everything is a function of its arguments: no state, no clock. Wall times and instants are whole seconds since
1970-01-01, in local time and in UTC; only `next_after` uses microseconds.

- `fields.py` reads the text of an expression into masks.
- `text.py` says in words when an expression fires, and what a clock change does to it.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import isleap
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from oncue.domain.cron.fields import DayRule, Fields, mask_of, read_fields, values_of
from oncue.domain.errors import Invalid
from oncue.domain.instants import FIRST_YEAR, LAST_YEAR, SECOND, Instant
from oncue.domain.zones import Segment, timeline

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


_DAY = 86_400
_END = (date(LAST_YEAR + 1, 1, 2) - date(1970, 1, 1)).days * _DAY  # by then the last year is over in every zone


class DstGap(StrEnum):
    """What happens to a fixed time that the clock jumps over."""

    SHIFT = "shift"
    SKIP = "skip"


class DstFold(StrEnum):
    """What happens to a fixed time that occurs twice because the clock is set back."""

    FIRST = "first"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Cron:
    """A valid expression that fires at least once. Text and years decide about equality; the rest follows from them."""

    text: str
    years: tuple[int, ...]  # none: every year
    fields: Fields = field(compare=False, repr=False)
    minutes_of_day: int = field(compare=False, repr=False)  # mask
    first_time: int = field(compare=False, repr=False)  # second of the day
    days_by_year: tuple[int, ...] = field(compare=False, repr=False)

    def next_wall(self, wall: int) -> int | None:
        """Return the first matching wall time at or after `wall`."""
        day, second = divmod(wall, _DAY)
        due = next_day(self.days_by_year, day)
        if due == day:
            time = self._next_time(second)
            if time is not None:
                return day * _DAY + time
            due = next_day(self.days_by_year, day + 1)
        return None if due is None else due * _DAY + self.first_time

    def _next_time(self, second_of_day: int) -> int | None:
        minute, second = divmod(second_of_day, 60)
        rest = self.minutes_of_day >> minute
        if rest & 1:
            seconds = self.fields.seconds >> second
            if seconds:
                return second_of_day + _lowest(seconds)
            rest -= 1
        if rest:
            return (minute + _lowest(rest)) * 60 + self.first_time % 60
        return None

    def count_walls(self, start: int, end: int) -> int:
        """Count the matching wall times in [start, end)."""
        count, day = 0, next_day(self.days_by_year, start // _DAY)
        while day is not None and day * _DAY < end:
            count += self._times_before(end - day * _DAY) - self._times_before(start - day * _DAY)
            day = next_day(self.days_by_year, day + 1)
        return count

    def _times_before(self, second_of_day: int) -> int:
        minute, second = divmod(min(max(second_of_day, 0), _DAY), 60)
        seconds = self.fields.seconds
        whole_minutes = (self.minutes_of_day & ((1 << minute) - 1)).bit_count()
        in_this_minute = (seconds & ((1 << second) - 1)).bit_count() if self.minutes_of_day >> minute & 1 else 0
        return whole_minutes * seconds.bit_count() + in_this_minute


def _lowest(mask: int) -> int:
    """Return the smallest value in a mask, which must not be empty."""
    return (mask & -mask).bit_length() - 1


def parse_cron(text: str, path: str = "cron", years: AbstractSet[int] | tuple[int, ...] = ()) -> Cron:
    """Parse five fields, or six with leading seconds, and the years to restrict it to. Invalid says what to write."""
    try:
        return _parse(text, tuple(sorted(set(years))) if years else ())
    except Invalid as wrong:
        raise wrong.under(path) from None


@lru_cache(maxsize=4096)
def _parse(text: str, years: tuple[int, ...]) -> Cron:
    fields = read_fields(text)
    if years and not FIRST_YEAR <= years[0] <= years[-1] <= LAST_YEAR:
        raise Invalid.of("", "bad_cron", f"years must be between {FIRST_YEAR} and {LAST_YEAR}")
    days = days_by_year(fields.days, years)
    if not any(days):
        when = "in the years given" if years else "in any year"
        raise Invalid.of("", "never_fires", f"never fires: no date {when} matches the day and month fields")
    minutes_of_day = 0
    for hour in values_of(fields.hours):
        minutes_of_day |= fields.minutes << 60 * hour
    first_time = _lowest(minutes_of_day) * 60 + _lowest(fields.seconds)
    return Cron(" ".join(text.split()), years, fields, minutes_of_day, first_time, days)


def next_after(
    cron: Cron, zone: ZoneInfo, after: Instant, gap: DstGap = DstGap.SHIFT, fold: DstFold = DstFold.FIRST
) -> Instant | None:
    """Return the first instant strictly later than `after` at which the expression fires; None: it never does again."""
    if cron.fields.wildcard:
        gap, fold = DstGap.SKIP, DstFold.BOTH
    segments = timeline(zone)
    at = max(after // SECOND + 1, 0)
    while at < _END:
        segment = segments.at(at)
        due = cron.next_wall(_wall(segment, at, gap, fold))
        if due is None:
            return None
        fires = due - segment.offset
        if fires < segment.end:
            return Instant(max(fires, segment.start) * SECOND)
        at = _resume(segment, at, due)
    return None


def _wall(segment: Segment, at: int, gap: DstGap, fold: DstFold) -> int:
    """Return the first wall time that may fire at or after `at`, an instant within the segment."""
    wall = at + segment.offset
    if segment.before == segment.offset:
        return wall
    jumps = segment.before < segment.offset
    # Shifted times are searched from the start of the gap; the first pass of a fold has fired before it.
    if (jumps and gap is DstGap.SHIFT) or (not jumps and fold is DstFold.FIRST):
        continued = segment.start + segment.before
        return continued if at == segment.start else max(wall, continued)
    return wall


def _resume(segment: Segment, at: int, due: int) -> int:
    """Return where to continue the search when `due` lies beyond the segment that was searched from `at`.

    Offsets are shorter than a day. So an instant two days after `at` is later than its wall time, where nothing matches
    before `due`; and an instant two days before `due` cannot have reached it. The search skips all between them.
    """
    if segment.end - at < 2 * _DAY:
        return segment.end
    return max(segment.end, due - 2 * _DAY)
