"""A second opinion on cron, slow and naive on purpose: it shares no code and no idea with the engine.

It reads expressions with its own eyes, walks through time step by step and asks `zoneinfo` at each step. Real
transitions come from the zone files themselves.
"""

from __future__ import annotations

import calendar
import random
import struct
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from oncue.domain.instants import Instant, instant, moment

TRAPS = {"localtime", "posixrules", "Factory"}
MONTHS = ["", *"jan feb mar apr may jun jul aug sep oct nov dec".split()]
WEEKDAYS = "sun mon tue wed thu fri sat".split()


def at(text: str) -> Instant:
    """`2027-03-28 01:00` or `2027-03-28 01:00:30`, in UTC."""
    return instant(datetime.fromisoformat(text).replace(tzinfo=UTC))


def shown(when: Instant | None) -> str | None:
    """An instant as `at` takes it: easy to read in a failing assert."""
    if when is None:
        return None
    return moment(when).strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")


def all_zones() -> list[str]:
    return sorted(
        name
        for name in zoneinfo.available_timezones() - TRAPS
        if not name.startswith("right/") and not name.startswith("posix/")
    )


def different_zones() -> list[str]:
    """One name for each clock: of names with the same changes since 1970 one is enough."""
    clocks = {(ZoneInfo(name).utcoffset(datetime(1970, 1, 1)), transitions(name)): name for name in all_zones()}
    return sorted(clocks.values())


# What the zone files say


LISTED_UNTIL = 2_145_916_800  # 2038: beyond it zones only repeat themselves


@cache
def transitions(name: str) -> tuple[tuple[int, int, int], ...]:
    """(second, offset before, offset after) of each change since 1970: as the zone's file lists them, then to 2038."""
    changes, before, last, data = [], 0, 0, _zone_file(name)
    for second, offset in _listed(data):
        if offset != before and second > 0:
            changes.append((second, before, offset))
        before, last = offset, max(second, 0)
    if b"," in data.splitlines()[-1]:  # a rule for ever, and some files stop where it takes over
        changes += _walked(ZoneInfo(name), last, LISTED_UNTIL)
    return tuple(changes)


def _zone_file(name: str) -> bytes:
    """The very file that `zoneinfo` reads."""
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder, name)).is_file():
            return path.read_bytes()
    return resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()


def _listed(data: bytes) -> list[tuple[int, int]]:
    """(second, offset from then on), the offset of the beginning first. RFC 8536."""

    def counts(start: int) -> tuple[int, ...]:
        return struct.unpack(">6l", data[start + 20 : start + 44])

    is_ut, is_std, leaps, times, types, letters = counts(0)
    start = 44 + times * 5 + types * 6 + letters + leaps * 8 + is_std + is_ut + 44  # the 64-bit half
    _, _, _, times, types, _ = counts(start - 44)
    seconds = struct.unpack(f">{times}q", data[start : start + times * 8])
    kinds = data[start + times * 8 : start + times * 9]
    table = start + times * 9
    offsets = [struct.unpack(">l", data[table + 6 * i : table + 6 * i + 4])[0] for i in range(types)]
    return [(-(2**60), offsets[0]), *((second, offsets[kind]) for second, kind in zip(seconds, kinds, strict=True))]


def _walked(zone: ZoneInfo, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    def offset(second: int) -> int:
        return int(datetime.fromtimestamp(second, zone).utcoffset().total_seconds())  # type: ignore[union-attr]  # it has a zone

    for day in range(start, end, 86_400):
        if offset(day) != offset(day + 86_400):
            change = next(day + m * 60 for m in range(1, 1441) if offset(day + m * 60) != offset(day))
            yield change, offset(day), offset(change)


# What an expression says


def _number(word: str) -> int:
    word = word.lower()
    if word in MONTHS:
        return MONTHS.index(word)
    return WEEKDAYS.index(word) if word in WEEKDAYS else int(word)


def _in_list(field: str, value: int, low: int, high: int) -> bool:
    for term in field.split(","):
        body, _, step = term.partition("/")
        if body in ("*", "?"):
            first, last = low, high
        elif "-" in body:
            first, last = (_number(word) for word in body.split("-"))
        else:
            first = _number(body)
            last = high if step else first
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


def _workday_near(day: date) -> date:
    """The nearest Monday to Friday of the same month, by trying ever further away."""
    for distance in (0, -1, 1, -2, 2):
        near = day + timedelta(days=distance)
        if near.month == day.month and near.isoweekday() <= 5:
            return near
    raise AssertionError


def _date_matches(term: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == length
    if term == "LW":
        return day == _workday_near(day.replace(day=length))
    if term.endswith("W"):
        return int(term[:-1]) <= length and day == _workday_near(day.replace(day=int(term[:-1])))
    return _in_list(term, day.day, 1, 31)


def _weekday_matches(term: str, day: date) -> bool:
    weekday = day.isoweekday() % 7
    if "#" in term:
        name, nth = term.split("#")
        same = [d for d in range(1, day.day + 1) if day.replace(day=d).isoweekday() % 7 == weekday]
        return _number(name) % 7 == weekday and len(same) == int(nth)
    if term.endswith("L"):
        return _number(term[:-1]) % 7 == weekday and (day + timedelta(days=7)).month != day.month
    return _in_list(term, weekday, 0, 6) or (weekday == 0 and term[0] not in "*?" and _in_list(term, 7, 0, 6))


@cache
def day_matches(text: str, day: date) -> bool:
    dates, months, weekdays = text.split()[-3:]
    if not _in_list(months, day.month, 1, 12):
        return False
    by_date = any(_date_matches(term, day) for term in dates.split(","))
    by_weekday = any(_weekday_matches(term, day) for term in weekdays.split(","))
    if dates[0] in "*?" or weekdays[0] in "*?":
        return by_date and by_weekday
    return by_date or by_weekday


def matcher(text: str) -> Callable[[datetime], bool]:
    """Does a wall time match?"""
    fields = text.split()
    second, minute, hour = fields[:3] if len(fields) == 6 else ["0", *fields[:2]]
    seconds = {value for value in range(60) if _in_list(second, value, 0, 59)}
    minutes = {value for value in range(60) if _in_list(minute, value, 0, 59)}
    hours = {value for value in range(24) if _in_list(hour, value, 0, 23)}

    def matches(wall: datetime) -> bool:
        return (
            wall.minute in minutes and wall.hour in hours and wall.second in seconds and day_matches(text, wall.date())
        )

    return matches


def is_wildcard(text: str) -> bool:
    minute, hour = text.split()[-5:-3]
    return minute[0] == "*" or hour[0] == "*"


# What both say together


class Step(NamedTuple):
    second: int
    wall: datetime  # with its fold
    jumped_over: list[datetime]  # wall times that this step should have been, had the clock not been put forward


def walk(name: str, start: int, end: int, step: int) -> list[Step]:
    """Every `step` seconds after `start` up to `end`."""
    zone, steps = ZoneInfo(name), []
    expected = datetime.fromtimestamp(start, zone).replace(tzinfo=None, fold=0) + timedelta(seconds=step)
    for second in range(start + step, end, step):
        wall = datetime.fromtimestamp(second, zone).replace(tzinfo=None)
        jumped_over = []
        while expected < wall:
            jumped_over.append(expected)
            expected += timedelta(seconds=step)
        steps.append(Step(second, wall, jumped_over))
        expected = wall.replace(fold=0) + timedelta(seconds=step)
    return steps


def fires(text: str, steps: list[Step], gap: str, fold: str) -> list[int]:
    """The seconds of a walk at which the expression fires."""
    matches, wildcard = matcher(text), is_wildcard(text)
    found = []
    for second, wall, jumped_over in steps:
        due = matches(wall) and (wildcard or fold == "both" or wall.fold == 0)
        shifted = not wildcard and gap == "shift" and any(map(matches, jumped_over))
        if due or shifted:
            found.append(second)
    return found


# Expressions to try


def random_expression(chance: random.Random, hour: int, minute: int) -> str:
    """An expression that tends to fire around a wall time."""
    minutes = chance.choice(
        [str(minute), str(chance.randrange(60)), "*", "*/15", "0,30", "*/7", "0-59/20", f"{min(minute, 40)}-59", "0"]
    )
    near = (hour + chance.choice([-1, 0, 0, 0, 1])) % 24
    hours = chance.choice([str(near), str(near), f"{min(near, 20)}-23", "*", "*/2", "0-23", f"0,{near}", "0"])
    days = chance.choice(["* * *"] * 6 + ["*/2 * *", "* * 0,6", "1-15 * 1-5", "L * 5L", "? * mon-sat", "* */2 *"])
    return f"{minutes} {hours} {days}"
