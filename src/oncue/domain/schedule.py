"""Schedules: now, at an instant, by cron, at an interval or by calendar fields; and their occurrences.

A schedule is stored as users wrote it, normalised. `next_after` is pure: it gives every caller the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from oncue.domain import fields
from oncue.domain.cron import Cron, DstFold, DstGap, next_after, parse_cron
from oncue.domain.cron.text import describe
from oncue.domain.errors import Invalid, Problem, tried
from oncue.domain.fields import Reader, object_schema, takes
from oncue.domain.ids import RunId
from oncue.domain.instants import (
    DAY,
    FIRST_YEAR,
    LAST_YEAR,
    MICROSECOND,
    SECOND,
    Duration,
    Instant,
    parse_duration,
    rfc3339,
    show_duration,
    whole_millisecond,
)
from oncue.domain.time_input import parse_time
from oncue.domain.zones import PACKAGED, Rules, zone


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


DENSEST = SECOND
FURTHEST = Duration(3_653 * DAY)


class Kind(StrEnum):
    NOW = "now"
    AT = "at"
    CRON = "cron"
    EVERY = "every"


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of `at`, `cron`, `every`, or none: now. `parse_schedule` checks it; it is stored and read back unchanged."""

    at: Instant | None = None
    cron: str | None = None
    every: Duration | None = None
    anchor: Instant = Instant(0)
    calendar: Calendar | None = None
    years: tuple[int, ...] = ()
    timezone: str = "UTC"
    dst_gap: DstGap = DstGap.SHIFT
    dst_fold: DstFold = DstFold.FIRST
    start_at: Instant | None = None
    end_at: Instant | None = None
    jitter: Duration = Duration(0)
    max_runs: int | None = None

    @property
    def kind(self) -> Kind:
        if self.cron is not None:
            return Kind.CRON
        if self.every is not None:
            return Kind.EVERY
        return Kind.NOW if self.at is None else Kind.AT

    @property
    def recurring(self) -> bool:
        return self.cron is not None or self.every is not None


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule object from a request, before it is checked."""

    at: str | None = None
    cron: str | None = None
    every: str | None = None
    calendar: Calendar | None = None
    timezone: str | None = None
    dst_gap: DstGap = DstGap.SHIFT
    dst_fold: DstFold = DstFold.FIRST
    start_at: str | None = None
    end_at: str | None = None
    jitter: str | None = None
    max_runs: int | None = None


def parse_schedule(asked: Asked | str | None, now: Instant) -> Schedule:
    """Check a requested schedule; `now` anchors `every`, bounds `at`, and is what `in 10m` counts from. Invalid: all
    that is wrong with it.
    """
    if asked is None or asked == "now":
        return Schedule()
    return _from_object(shorthand(asked) if isinstance(asked, str) else asked, now)


def shorthand(text: str) -> Asked:
    """Parse a text other than "now" into a schedule object."""
    if text.startswith("every "):
        return Asked(every=text.removeprefix("every ").strip())
    if text[:1] == "@" or len(text.split()) in (5, 6):
        return Asked(cron=text)
    if text.startswith("in ") or (text[:4].isdigit() and "-" in text[:6]):
        return Asked(at=text)
    raise Invalid.of(
        "",
        "bad_schedule",
        f'{text[:40]!r} is not a schedule; write "now", "in 10m", an instant like "2027-01-31T09:00:00Z",'
        ' a cron expression like "0 9 * * 1-5", or "every 30s"',
    )


def _from_object(asked: Asked, now: Instant) -> Schedule:
    problems: list[Problem] = []
    asked = _without_echo(asked)
    given = [name for name in ("at", "cron", "every", "calendar") if getattr(asked, name) is not None]
    if len(given) > 1:
        message = f"give only one of at, cron, every, calendar, not {' and '.join(given)}"
        problems.append(Problem(given[1], "bad_schedule", message))
    here = _zone(asked, problems)
    schedule = _window(asked, now, here, problems)
    if asked.at is not None:
        schedule = msgspec.structs.replace(schedule, at=tried(problems, _at, asked, now, here))
    if asked.every is not None:
        every = tried(problems, parse_duration, asked.every, "every", least=DENSEST)
        anchor = schedule.start_at if schedule.start_at is not None else whole_millisecond(now)
        schedule = msgspec.structs.replace(schedule, every=every, anchor=anchor)
    if asked.cron is not None:
        schedule = msgspec.structs.replace(schedule, cron=asked.cron)
        tried(problems, cron_of, schedule)
    if asked.calendar is not None:
        without_year = msgspec.structs.replace(asked.calendar, year=None)  # which must not hide a wrong hour
        made = tried(problems, to_cron, asked.calendar) or tried([], to_cron, without_year) or ("* * * * *", ())
        schedule = msgspec.structs.replace(schedule, calendar=asked.calendar, cron=made[0], years=made[1])
        tried(problems, cron_of, schedule)
    if not given or given == ["at"]:
        problems += _only_recurring(asked)
    if problems:
        raise Invalid(*problems)
    return schedule


def _without_echo(asked: Asked) -> Asked:
    """Drop the cron expression that an answer shows with a calendar: clients may send both back."""
    if asked.calendar is None or asked.cron is None:
        return asked
    made = tried([], to_cron, asked.calendar)
    if made is not None and asked.cron == made[0]:
        return msgspec.structs.replace(asked, cron=None)
    return asked


def _only_recurring(asked: Asked) -> list[Problem]:
    """Refuse fields that apply to recurring schedules only, instead of ignoring them."""
    message = "needs cron, every or calendar; this schedule runs once"
    fields = ("start_at", "end_at", "max_runs")
    return [
        Problem(field, "bad_schedule", f"{field} {message}") for field in fields if getattr(asked, field) is not None
    ]


def _at(asked: Asked, now: Instant, here: ZoneInfo | None) -> Instant:
    at = parse_time(asked.at or "", now, "at", zone=here, gap=asked.dst_gap, fold=asked.dst_fold)
    if at > now + FURTHEST:
        raise Invalid.of(
            "at", "too_far", f"{rfc3339(at)} is more than {show_duration(FURTHEST)} ahead; choose an earlier time"
        )
    return at


def _zone(asked: Asked, problems: list[Problem]) -> ZoneInfo | None:
    """Return the zone; for a wrong one UTC, so that what is local to it can be checked."""
    return None if asked.timezone is None else tried(problems, zone, asked.timezone) or zone("UTC")


def _window(asked: Asked, now: Instant, here: ZoneInfo | None, problems: list[Problem]) -> Schedule:
    """Parse the fields that all recurring schedules share."""

    def time(field: str) -> Instant | None:
        text = getattr(asked, field)
        return None if text is None else tried(problems, parse_time, text, now, field, zone=here)

    start_at, end_at, jitter = time("start_at"), time("end_at"), asked.jitter
    if start_at is not None and end_at is not None and end_at <= start_at:
        message = f"end_at, {rfc3339(end_at)}, must be later than start_at, {rfc3339(start_at)}"
        problems.append(Problem("end_at", "bad_window", message))
    if asked.max_runs is not None and asked.max_runs < 1:
        message = f"max_runs must be at least 1, not {asked.max_runs}; leave it out for no limit"
        problems.append(Problem("max_runs", "too_small", message))
    length = None if jitter is None else tried(problems, parse_duration, jitter, "jitter", least=Duration(0))
    return Schedule(
        timezone="UTC" if asked.timezone is None else asked.timezone,
        dst_gap=asked.dst_gap,
        dst_fold=asked.dst_fold,
        start_at=start_at,
        end_at=end_at,
        jitter=length or Duration(0),
        max_runs=asked.max_runs,
    )


def cron_of(schedule: Schedule) -> Cron:
    return parse_cron(schedule.cron or "", "calendar" if schedule.calendar else "cron", schedule.years)


def rules_of(schedule: Schedule, rules: Rules = PACKAGED) -> str | None:
    """Return the version of the time-zone rules that its occurrences depend on; None: it depends on none."""
    return None if schedule.cron is None or schedule.timezone == "UTC" else rules.version


def next_occurrence(schedule: Schedule, after: Instant, rules: Rules = PACKAGED) -> Instant | None:
    """Return the first nominal instant of a recurring schedule strictly later than `after`; None: no more follow."""
    if schedule.start_at is not None:
        after = max(after, Instant(schedule.start_at - MICROSECOND))
    if schedule.every is not None:
        found: Instant | None = _next_interval(schedule.every, schedule.anchor, after)
    else:
        found = next_after(
            cron_of(schedule), zone(schedule.timezone, rules=rules), after, schedule.dst_gap, schedule.dst_fold
        )
    if found is None or (schedule.end_at is not None and found > schedule.end_at):
        return None
    return found


def _next_interval(every: Duration, anchor: Instant, after: Instant) -> Instant:
    passed = max(0, (after - anchor) // every)
    return Instant(anchor + (passed + 1) * every)


def occurrences(schedule: Schedule, after: Instant, until: Instant, rules: Rules = PACKAGED) -> Iterator[Instant]:
    """Yield every nominal instant in (after, until], in order; the caller stops when it has enough."""
    found = next_occurrence(schedule, after, rules)
    while found is not None and found <= until:
        yield found
        found = next_occurrence(schedule, found, rules)


def last_occurrence(schedule: Schedule, after: Instant, until: Instant) -> Instant | None:
    """Return the latest nominal instant in (after, until], by bisection: a few dozen steps for years of occurrences."""
    latest, nothing_after = None, until
    while after < nothing_after:
        middle = Instant((after + nothing_after) // 2)
        found = next_occurrence(schedule, middle)
        if found is not None and found <= until:
            latest = after = found
        else:
            nothing_after = middle
    return latest


def due_at(schedule: Schedule, nominal: Instant, run_id: RunId) -> Instant:
    """Return the nominal instant plus jitter, which follows from the run's id, so that replanning draws the same."""
    return Instant(nominal + run_id.int % (schedule.jitter + 1))


def describe_schedule(schedule: Schedule) -> str:
    """Describe in plain English: "every 30s", "at 09:00, Monday to Friday (Europe/Berlin)"."""
    match schedule.kind:
        case Kind.NOW:
            return "now"
        case Kind.AT:
            return f"once, at {rfc3339(schedule.at or Instant(0))}"
        case Kind.EVERY:
            return f"every {show_duration(schedule.every or SECOND)}"
        case Kind.CRON:
            return f"{describe(cron_of(schedule))} ({schedule.timezone})"


MOST_RUNS = 1_000_000_000
LONGEST_TEXT = 1_000
MOST_DAYS = 50


@takes(type="string", maxLength=LONGEST_TEXT)
def _string(raw: Any, path: str) -> str:
    if not isinstance(raw, str):
        raise Invalid.of(path, "wrong_type", f"must be a string, not {fields.shown(raw)}")
    if len(raw) > LONGEST_TEXT:
        raise Invalid.of(path, "too_long", f"has {len(raw)} characters; at most {LONGEST_TEXT} are allowed")
    return raw


@takes(type=["integer", "string"], maxLength=LONGEST_TEXT)
def _number_or_text(raw: Any, path: str) -> int | str:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        message = f'must be a number or a cron field, like 9 or "9-17", not {fields.shown(raw)}'
        raise Invalid.of(path, "wrong_type", message)
    return raw if isinstance(raw, int) else _string(raw, path)


@takes(type=["string", "array"], maxLength=LONGEST_TEXT, items=fields.schema_of(_string), maxItems=MOST_DAYS)
def _days(raw: Any, path: str) -> str | tuple[str, ...]:
    if isinstance(raw, list) and len(raw) <= MOST_DAYS:
        return tuple(_string(one, f"{path}.{place}") for place, one in enumerate(raw))
    if not isinstance(raw, str):
        message = f'must be a cron field or a list, like "mon-fri" or ["mon", "wed"], not {fields.shown(raw)}'
        raise Invalid.of(path, "wrong_type", message)
    return _string(raw, path)


_CALENDAR: dict[str, Reader] = {
    **dict.fromkeys(("year", "month", "date", "hour", "minute"), _number_or_text),
    "days_of_week": _days,
}


@takes(title="Calendar", **object_schema(_CALENDAR, nothing=_CALENDAR.keys()))
def _calendar(raw: Any, path: str) -> Calendar:
    return Calendar(**fields.object_of(raw, path, _CALENDAR, nothing=_CALENDAR.keys()))


_SCHEDULE: dict[str, Reader] = {
    **dict.fromkeys(("at", "cron", "every", "timezone", "start_at", "end_at", "jitter"), _string),
    "calendar": _calendar,
    "dst_gap": fields.choice({one.value: one for one in DstGap}),
    "dst_fold": fields.choice({one.value: one for one in DstFold}),
    "max_runs": fields.whole(1, MOST_RUNS),
}
_NULLABLE = frozenset({"at", "cron", "every", "calendar", "start_at", "end_at", "jitter", "max_runs"})
SCHEDULE = {"title": "Schedule", **object_schema(_SCHEDULE, nothing=_NULLABLE)}


@takes(anyOf=[fields.schema_of(_string), SCHEDULE])
def read_schedule(raw: Any, path: str = "schedule") -> Asked | str:
    """Check types and field names; `parse_schedule` checks the values."""
    if isinstance(raw, str):
        return _string(raw, path)
    if not isinstance(raw, dict):
        like = 'a string like "now", "every 30s" or "0 9 * * 1-5", or an object like {"cron": "0 9 * * *"}'
        message = f"must be {like}, not {fields.shown(raw)}"
        raise Invalid.of(path, "wrong_type", message)
    return Asked(**fields.object_of(raw, path, _SCHEDULE, nothing=_NULLABLE))


def readable(raw: dict[str, Any]) -> Asked:
    """Return what can be read of a wrong schedule: its values are checked, too. Something valid stands for the rest."""
    found = fields.read_fields(raw, _SCHEDULE, [], nothing=_NULLABLE)
    if raw.get("timezone") is not None:
        found.setdefault("timezone", "UTC")
    if not found.keys() & KINDS:
        found["every"] = "1h"
    return Asked(**found)


KINDS = frozenset({"at", "cron", "every", "calendar"})
_OF_A_SERIES = ("start_at", "end_at", "max_runs")


def rescheduled(there: dict[str, Any], given: Any) -> Any:
    """Return the schedule after an edit; `there` is the schedule as the API shows it. The caller checks the result.

    A text changes when: time zone, daylight-saving policies, window and jitter stay; a one-shot has no window. An
    object replaces the schedule whole, and a value that is no schedule is returned unchanged.
    """
    if not isinstance(given, str):
        return given
    try:
        asked = Asked() if given == "now" else shorthand(given)
    except Invalid:
        return given
    when = {kind: said for kind in KINDS if (said := getattr(asked, kind)) is not None}
    recurs = when.keys() & {"cron", "every"}
    goes = KINDS if recurs else KINDS.union(_OF_A_SERIES)
    return {name: value for name, value in there.items() if name not in goes} | when
