"""A cron expression in plain English. Written from what it matches, not from how it was typed."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.domain.cron import Cron
from oncue.domain.cron_fields import DayRule, Fields, values_of

_MONTHS = tuple(
    "January February March April May June July August September October November December".split()
)  # fmt: skip
_WEEKDAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")

_MOST_TIMES = 6  # more times of day than this are put as minutes and hours


def describe(cron: Cron) -> str:
    """`at 09:00, Monday to Friday`, `every 15 minutes`, `at 00:00 on the last day of the month`."""
    time, days = _time(cron.fields), _days(cron.fields.days)
    if not days and time.startswith("at ") and " every " not in time:
        days = " every day"
    if cron.years:
        days += f", only in {_listed(cron.years)}"
    return time + days


def _time(fields: Fields) -> str:
    seconds, minutes, hours = values_of(fields.seconds), values_of(fields.minutes), values_of(fields.hours)
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES:
        return f"at {_listed_words([_clock(h, m, s) for h in hours for m in minutes for s in seconds])}"
    if seconds == [0]:
        return _minutes_and_hours(minutes, hours)
    pace = _pace(seconds, 60, "second")
    if pace and len(minutes) == 60:
        return pace + _during(hours)
    return f"{pace or _numbered('at second', seconds)} of {_of_minutes(minutes)}{_of_hours(hours)}"


def _minutes_and_hours(minutes: list[int], hours: list[int]) -> str:
    if pace := _pace(minutes, 60, "minute"):
        return pace + _during(hours)
    if minutes == [0] and (pace := _pace(hours, 24, "hour")):
        return pace
    if len(minutes) == 1 and len(hours) < 24 and _is_run(hours):
        return f"every hour from {_clock(hours[0], minutes[0])} to {_clock(hours[-1], minutes[0])}"
    return f"{_numbered('at minute', minutes)} of {_of_hours(hours).removeprefix(' of ') or 'every hour'}"


def _pace(values: list[int], size: int, unit: str) -> str:
    """`every 15 minutes` if these values are evenly spread over the whole of `size`, else nothing."""
    step = size // len(values)
    if values == list(range(0, size, step)) and step * len(values) == size:
        return f"every {unit}" if step == 1 else f"every {step} {unit}s"
    return ""


def _during(hours: list[int]) -> str:
    if len(hours) == 24:
        return ""
    if _is_run(hours):
        return f" from {_clock(hours[0], 0)} until {_clock(hours[-1] + 1, 0)}"
    return f" in {_numbered('hour', hours)}"


def _of_minutes(minutes: list[int]) -> str:
    return "every minute" if len(minutes) == 60 else _numbered("minute", minutes)


def _of_hours(hours: list[int]) -> str:
    return "" if len(hours) == 24 else f" of {_numbered('hour', hours)}"


def _days(rule: DayRule) -> str:
    """The day part with its leading space or comma; nothing when every day matches."""
    months = _listed_words(_runs(values_of(rule.months), lambda month: _MONTHS[month - 1]))
    every_month = len(values_of(rule.months)) == 12
    of_month = "of the month" if every_month else f"of {months}"
    dates, weekdays = _dates(rule, of_month), _weekdays(rule, of_month)
    if not dates and not weekdays:
        return "" if every_month else f" every day in {months}"
    if dates and weekdays:
        in_months = "" if every_month or of_month in dates + weekdays else f" in {months}"
        return f" on {dates}{' if it is ' if rule.both else ' or on '}{weekdays}{in_months}"
    if dates or of_month in weekdays:
        return f" on {dates or weekdays}"
    return f", {weekdays}" + ("" if every_month else f" in {months}")


def _dates(rule: DayRule, of_month: str) -> str:
    """The matching dates; nothing when all of them match and so only the weekday decides."""
    dates = values_of(rule.dates)
    if len(dates) == 31 and rule.both:
        return ""
    parts = [_numbered("day", dates)] if dates else []
    parts += [f"the workday nearest to day {date}" for date in values_of(rule.nearest_workdays)]
    parts += ["the last day"] if rule.last_date else []
    parts += ["the last workday"] if rule.last_workday else []
    return f"{_listed_words(parts)} {of_month}"


def _weekdays(rule: DayRule, of_month: str) -> str:
    """The matching weekdays; nothing when all of them match and so only the date decides."""
    plain = sorted((day - 1) % 7 for day in values_of(rule.weekdays))
    if len(plain) == 7 and rule.both:
        return ""
    special = [
        f"the {_ORDINALS[nth]} {_weekday(day)}" for day, nth in sorted(rule.nth_weekdays, key=lambda pair: pair[::-1])
    ]
    special += [f"the last {_weekday(day)}" for day in values_of(rule.last_weekdays)]
    names = _runs(plain, lambda day: _WEEKDAYS[day])
    return _listed_words(names + special) + (f" {of_month}" if special else "")


def _weekday(day: int) -> str:
    return _WEEKDAYS[(day - 1) % 7]


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
