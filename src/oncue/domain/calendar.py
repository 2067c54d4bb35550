"""Turn calendar fields (year, month, date, weekdays, hour, minute) into a cron expression."""

from __future__ import annotations

import re

import msgspec

from oncue.domain.errors import Invalid, Problem, tried
from oncue.domain.instants import FIRST_YEAR, LAST_YEAR


class Calendar(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Each field is a number or a cron field ("1,15", "9-17", "mon-fri"). With date and weekday, either matches."""

    year: int | str | None = None
    month: int | str | None = None
    date: int | str | None = None
    hour: int | str | None = None
    minute: int | str | None = None
    days_of_week: str | tuple[str, ...] | None = None


def to_cron(calendar: Calendar) -> tuple[str, tuple[int, ...]]:
    """Return the cron expression and the years. Omitted coarser fields mean any value, finer ones the least value."""
    weekdays = calendar.days_of_week
    if isinstance(weekdays, tuple):
        weekdays = ",".join(weekdays)
    fields = [calendar.year, calendar.month, calendar.date, calendar.hour, calendar.minute]
    given = [i for i, field in enumerate(fields) if field is not None] + ([2] if weekdays is not None else [])
    if not given:
        raise Invalid.of(
            "calendar", "bad_calendar", "give at least one of year, month, date, days_of_week, hour, minute"
        )
    finest = max(given)
    least = ("*", "1", "1" if weekdays is None else "*", "0", "0")
    _, month, date, hour, minute = (
        str(field) if field is not None else (least[i] if i > finest else "*") for i, field in enumerate(fields)
    )
    problems = [
        Problem("calendar", "bad_calendar", f"{field[:40]!r} must be a number or a cron field, like 9 or 9-17")
        for field in (month, date, hour, minute, "*" if weekdays is None else weekdays)
        if not field or len(field.split()) != 1
    ]
    years = () if calendar.year is None else tried(problems, _years, str(calendar.year))
    if problems or years is None:
        raise Invalid(*problems)
    return f"{minute} {hour} {date} {month} {weekdays or '*'}", years


def _years(text: str) -> tuple[int, ...]:
    years: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d{4})(?:-(\d{4}))?", part, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not FIRST_YEAR <= first <= last <= LAST_YEAR:
            raise Invalid.of(
                "calendar.year", "bad_calendar", f'{part[:20]!r} must be a year or a range, like "2027" or "2027-2030"'
            )
        years.update(range(first, last + 1))
    return tuple(sorted(years))
