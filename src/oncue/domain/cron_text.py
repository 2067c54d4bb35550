"""Describe a cron expression in plain English, by the times it matches and not by how it was typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncue.domain.cron import Cron
from oncue.domain.cron_fields import DayRule, Fields, values_of

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
