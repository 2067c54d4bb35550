"""Describe a cron expression in plain English, by the times it matches and not by how it was typed; and what a clock
change does to it, in words for people and in numbers for the ledger.

Only fixed-time jobs lose or shift occurrences: a wildcard job follows real time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from oncue.domain.cron import Cron, DstGap
from oncue.domain.cron.fields import DayRule, Fields, values_of
from oncue.domain.instants import SECOND, Instant
from oncue.domain.zones import Segment, Timeline, timeline

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")

_MOST_TIMES = 6  # more times of day than this are described as minutes and hours


def describe(cron: Cron) -> str:
    """Describe: `at 09:00, Monday to Friday`, `every 15 minutes`, `at 00:00 on the last day of the month`."""
    time, days, months = _time(cron.fields), _days(cron.fields.days), _months(cron.fields.days)
    if not days and months:
        days = f" in {months}"
    if time.startswith("at ") and " every " not in time and not days.startswith((" on", ",")):
        time += " every day"
    years = f", only in {_joined(_runs(cron.years, str))}" if cron.years else ""
    return time + days + years


def _time(fields: Fields) -> str:
    seconds, minutes, hours = values_of(fields.seconds), values_of(fields.minutes), values_of(fields.hours)
    if seconds == minutes == [0] and (pace := _pace(hours, 24, "hour")):
        return pace
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES:
        return f"at {_joined([_clock(h, m, s) for h in hours for m in minutes for s in seconds])}"
    if seconds == [0]:
        return _minutes_and_hours(minutes, hours)
    pace = _pace(seconds, 60, "second")
    if pace and len(minutes) == 60:
        return pace + _during(hours, 59, seconds[-1])
    minutes_and_hours = f"{_numbered('minute', minutes, every=60)} of {_numbered('hour', hours, every=24)}"
    return f"{pace or _numbered('at second', seconds)} of {minutes_and_hours}"


def _minutes_and_hours(minutes: list[int], hours: list[int]) -> str:
    if pace := _pace(minutes, 60, "minute"):
        return pace + _during(hours, minutes[-1], 0)
    if len(minutes) == 1 and len(hours) < 24 and _is_run(hours):
        return f"every hour from {_clock(hours[0], minutes[0])} to {_clock(hours[-1], minutes[0])}"
    return f"{_numbered('at minute', minutes)} of {_numbered('hour', hours, every=24)}"


def _pace(values: list[int], size: int, unit: str) -> str:
    """Return `every 15 minutes` if these values are spread evenly over all of `size`, else ''."""
    step = size // len(values)
    if len(values) == 1 or size % step or values != list(range(0, size, step)):
        return ""
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _during(hours: list[int], last_minute: int, last_second: int) -> str:
    if len(hours) == 24:
        return ""
    if _is_run(hours):
        return f" from {_clock(hours[0], 0)} to {_clock(hours[-1], last_minute, last_second)}"
    return f" of {_numbered('hour', hours)}"


def _days(rule: DayRule) -> str:
    """Describe the days, with a leading space or comma; '' when all days of the months match."""
    months = _months(rule)
    of_months = f"of {months or 'the month'}"
    dates, weekdays = _dates(rule, of_months), _weekdays(rule, of_months)
    if not weekdays:
        return f" on {dates}" if dates else ""
    if months and of_months not in weekdays:
        weekdays += f" in {months}"
    if dates:
        return f" on {dates}{', only on' if rule.both else ' or on'} {weekdays}"
    return f" on {weekdays}" if of_months in weekdays else f", {weekdays}"


def _months(rule: DayRule) -> str:
    months = values_of(rule.months)
    return "" if len(months) == 12 else _joined(_runs(months, lambda month: _MONTHS[month - 1]))


def _dates(rule: DayRule, of_months: str) -> str:
    """Describe the matching dates; '' when all match, so that only the weekday decides."""
    dates = values_of(rule.dates)
    if len(dates) == 31 and rule.both:
        return ""
    parts = [_numbered("day", dates)] if dates else []
    parts += [f"the workday nearest to day {date}" for date in values_of(rule.nearest_workdays)]
    parts += ["the last day"] if rule.last_date else []
    parts += ["the last workday"] if rule.last_workday else []
    return f"{_joined(parts)} {of_months}"


def _weekdays(rule: DayRule, of_months: str) -> str:
    """Describe the matching weekdays; '' when all match, so that only the date decides."""
    plain = sorted((day - 1) % 7 for day in values_of(rule.weekdays))
    if len(plain) == 7 and rule.both:
        return ""
    special = [f"the {_ORDINALS[nth]} {_weekday(day)}" for nth, day in sorted((n, d) for d, n in rule.nth_weekdays)]
    special += [f"the last {_weekday(day)}" for day in values_of(rule.last_weekdays)]
    named = _joined(_runs(plain, lambda day: _WEEKDAYS[day]) + special)
    return f"{named} {of_months}" if special else named


def _weekday(day: int) -> str:
    return _WEEKDAYS[(day - 1) % 7]


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _numbered(word: str, values: list[int], every: int = 0) -> str:
    """Return `minute 5`, `minutes 5 and 10`; `every minute` when there are `every` of them."""
    if len(values) == every:
        return f"every {word}"
    return f"{word}{'s' if len(values) > 1 else ''} {_joined(_runs(values, str))}"


def _runs(values: Sequence[int], name: Callable[[int], str]) -> list[str]:
    """Name the values; three or more in a row become `first to last`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    named = []
    for run in runs:
        named += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else [name(value) for value in run]
    return named


def _is_run(values: list[int]) -> bool:
    return values == list(range(values[0], values[-1] + 1))


def _joined(parts: list[str]) -> str:
    """Join to `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


_DAY = 86_400
_EPOCH = datetime(1970, 1, 1)


class Skipped(msgspec.Struct, frozen=True):
    """Nominal times that one gap removes under `skip`. `at` is the first instant after the gap."""

    at: Instant
    count: int
    note: str


def note_on(cron: Cron, zone: ZoneInfo, at: Instant, gap: DstGap = DstGap.SHIFT) -> str | None:
    """Describe what is special about the occurrence `at` from `next_after`; None on ordinary days."""
    segments, second = timeline(zone), at // SECOND
    segment = segments.at(second)
    if gap is DstGap.SHIFT and (missing := _missing(cron, segment, second)):
        return f"{_does_not_exist(cron, segment, missing)}; {_shifted(cron, segment, missing)}"
    wall = second + segment.offset
    if _has_wall(segments, segments.at(second + _DAY), wall, second):
        return f"first of the two {_clock_of(wall)}s"
    if _has_wall(segments, segments.at(second - _DAY), wall, second):
        return f"second of the two {_clock_of(wall)}s"
    return None


def swallowed(cron: Cron, zone: ZoneInfo, at: Instant, gap: DstGap = DstGap.SHIFT) -> int:
    """Count the further nominal times of a gap that are coalesced into the occurrence `at`."""
    if gap is not DstGap.SHIFT:
        return 0
    second = at // SECOND
    segment = timeline(zone).at(second)
    missing = _missing(cron, segment, second)
    return missing - 1 + _fires_by_itself(cron, segment) if missing else 0


def skipped_between(cron: Cron, zone: ZoneInfo, after: Instant, until: Instant) -> tuple[Skipped, ...]:
    """Return the nominal times that a job with `skip` loses in the gaps that end in (after, until]."""
    skipped = []
    segments, last = timeline(zone), until // SECOND
    segment = segments.at(max(after // SECOND, 0))
    while segment.end <= last and cron.next_wall(segment.end - _DAY) is not None:
        segment = segments.at(segment.end)
        if missing := _missing(cron, segment, segment.start):
            note = f"{_does_not_exist(cron, segment, missing)}; skipped"
            skipped.append(Skipped(Instant(segment.start * SECOND), missing, note))
    return tuple(skipped)


def _missing(cron: Cron, segment: Segment, second: int) -> int:
    """Count the nominal times of a fixed-time job in the gap that ends at `second`."""
    if cron.fields.wildcard or second != segment.start or segment.before >= segment.offset:
        return 0
    return cron.count_walls(segment.start + segment.before, segment.start + segment.offset)


def _fires_by_itself(cron: Cron, segment: Segment) -> bool:
    """Whether the wall time right after the gap matches as well."""
    reopens = segment.start + segment.offset
    return cron.next_wall(reopens) == reopens


def _has_wall(segments: Timeline, neighbour: Segment, wall: int, second: int) -> bool:
    """Whether `wall` is also the wall time of another instant than `second`, at the neighbour's offset."""
    twin = wall - neighbour.offset
    return twin != second and twin + segments.at(twin).offset == wall


def _does_not_exist(cron: Cron, segment: Segment, missing: int) -> str:
    gap_start, gap_end = segment.start + segment.before, segment.start + segment.offset
    first = cron.next_wall(gap_start)
    assert first is not None  # something is missing
    more = "" if missing == 1 else f" and {missing - 1} more"
    verb = "does" if missing == 1 else "do"
    day, next_day = _date(first), _date(gap_end)
    target = _clock_of(gap_end) if day == next_day else f"{next_day} {_clock_of(gap_end)}"
    clocks = f"clocks go forward from {_clock_of(gap_start)} to {target}"
    return f"{_clock_of(first)}{more} {verb} not exist on {day} ({clocks})"


def _shifted(cron: Cron, segment: Segment, missing: int) -> str:
    if _fires_by_itself(cron, segment):
        return f"runs once, together with {_clock_of(segment.start + segment.offset)}"
    return "runs right after the gap" if missing == 1 else "runs once, right after the gap"


def _date(wall: int) -> str:
    return (_EPOCH + timedelta(seconds=wall)).strftime("%Y-%m-%d")


def _clock_of(wall: int) -> str:
    minute, second = divmod(wall % _DAY, 60)
    return _clock(minute // 60, minute % 60, second)
