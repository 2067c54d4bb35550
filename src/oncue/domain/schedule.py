"""Schedules: now, at an instant, by cron, at an interval or by calendar fields; and their occurrences.

A schedule is stored as users wrote it, normalised. `next_after` is pure: it gives every caller the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from zoneinfo import ZoneInfo

import msgspec

from oncue.domain.calendar import Calendar, to_cron
from oncue.domain.cron import Cron, DstFold, DstGap, next_after, parse_cron
from oncue.domain.cron_text import describe
from oncue.domain.errors import Invalid, Problem, tried
from oncue.domain.ids import RunId
from oncue.domain.instants import (
    DAY,
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
