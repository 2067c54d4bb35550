"""Compute when a cron expression fires next in a time zone, with declared behaviour at daylight-saving changes.

An expression names *wall times*. A wall time that occurs once fires once. Policies decide about the other two kinds:

    does not exist (spring)    shift: the first instant after the gap      skip: not at all
    occurs twice (autumn)      first: the first time only                  both: both times

That is for fixed-time jobs. When the minute or the hour field starts with `*`, as in Debian's cron, the job follows
real time: it fires at each instant whose wall time matches, which is `skip` and `both`.

Everything is a function of its arguments: no state, no clock. Wall times and instants are whole seconds since
1970-01-01, in local time and in UTC; only `next_after` uses microseconds.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from oncue.domain.cron_days import days_by_year, next_day
from oncue.domain.cron_fields import Fields, read_fields, values_of
from oncue.domain.errors import Invalid
from oncue.domain.instants import FIRST_YEAR, LAST_YEAR, SECOND, Instant
from oncue.domain.zones import Segment, timeline

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
