"""Read a cron expression: five or six fields of text become bit masks, or an Invalid that says what to write.

A mask is an integer whose bit n is set when the value n matches: small, hashable, and searched with one shift.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from oncue.domain.errors import Invalid, Problem, tried

LONGEST_TEXT = 600  # characters: enough for a list of every value in every field
_LONGEST_ITEM = 20  # characters of a list's item: twice what is useful, so that messages stay short
_SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Field(msgspec.Struct, frozen=True):
    """One field: its values are `low` to `high`; `largest` may be written too (7 for Sunday)."""

    name: str
    low: int
    high: int
    largest: int
    unit: str  # of the interval to suggest when a step is too large
    names: tuple[str, ...] = ()

    def refuse(self, problem: str) -> Invalid:
        return _refuse(f"{self.name}: {problem}")


SECOND = Field("second", 0, 59, 59, "s")
MINUTE = Field("minute", 0, 59, 59, "m")
HOUR = Field("hour", 0, 23, 23, "h")
DATE = Field("day-of-month", 1, 31, 31, "d")
_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MONTH = Field("month", 1, 12, 12, "", _MONTH_NAMES)
WEEKDAY = Field("day-of-week", 0, 6, 7, "d", ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))


class DayRule(msgspec.Struct, frozen=True):
    """Which days match. With `both` a day must match dates and weekdays; otherwise one of them is enough."""

    months: int
    dates: int
    nearest_workdays: int  # 15W: the Monday to Friday nearest to the 15th, in the same month
    last_date: bool  # L
    last_workday: bool  # LW
    weekdays: int
    nth_weekdays: frozenset[tuple[int, int]]  # MON#2 is (1, 2)
    last_weekdays: int  # 5L: the last Friday
    both: bool


class Fields(msgspec.Struct, frozen=True):
    """A parsed expression. `wildcard`: its minutes or hours start with `*`, so it follows real time."""

    seconds: int
    minutes: int
    hours: int
    days: DayRule
    wildcard: bool


def mask_of(values: Iterable[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def values_of(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def read_fields(text: str) -> Fields:
    """Parse an expression without its years. Invalid, with an empty path, names the field and the remedy."""
    second, minute, hour, date, month, weekday = _split(text)
    problems: list[Problem] = []
    seconds, minutes, hours = (
        tried(problems, _mask, field, said) for field, said in ((SECOND, second), (MINUTE, minute), (HOUR, hour))
    )
    days = _day_rule(date, month, weekday, problems)
    if seconds is None or minutes is None or hours is None or days is None:
        raise Invalid(*problems)
    return Fields(seconds, minutes, hours, days, wildcard=minute.startswith("*") or hour.startswith("*"))


def _split(text: str) -> list[str]:
    """Split into six fields in upper case, seconds first."""
    if len(text) > LONGEST_TEXT:
        raise _refuse(f"a cron expression has at most {LONGEST_TEXT} characters; this one has {len(text)}")
    if odd := [character for character in text if not " " <= character <= "~"]:
        raise _refuse(f"{odd[0]!r} is not allowed in a cron expression; write printable ASCII characters only")
    fields = _in_full(text.strip()).upper().split()
    if long := [item for field in fields for item in field.split(",") if len(item) > _LONGEST_ITEM]:
        raise _refuse(f"'{long[0][:_LONGEST_ITEM]}…' is invalid; write a field like 5, 1-5, */15 or 1,15")
    match len(fields):
        case 5:
            return ["0", *fields]
        case 6:
            return fields
        case count:
            raise _refuse(
                f"{count} field{'' if count == 1 else 's'} found; "
                "write five (minute hour day-of-month month day-of-week), or six with seconds in front"
            )


def _in_full(text: str) -> str:
    """Expand `@daily` and the like to a full expression."""
    if not text.startswith("@"):
        return text
    if text.lower() not in _SHORTHANDS:
        raise _refuse(f"{text[:_LONGEST_ITEM]!r} is not one of {', '.join(_SHORTHANDS)}")
    return _SHORTHANDS[text.lower()]


def _refuse(problem: str) -> Invalid:
    return Invalid.of("", "bad_cron", problem)


def _day_rule(date: str, month: str, weekday: str, problems: list[Problem]) -> DayRule | None:
    dates, months = tried(problems, _dates, date), tried(problems, _mask, MONTH, month)
    weekdays = tried(problems, _weekdays, weekday)
    if dates is None or months is None or weekdays is None:
        return None
    return DayRule(months, *dates, *weekdays, both=date[0] in "*?" or weekday[0] in "*?")


def _dates(text: str) -> tuple[int, int, bool, bool]:
    """Return dates, the dates of nearest workdays, whether the last date is one, and whether the last workday is."""
    plain, special = _sort_out(DATE, text, lambda term: term[0] == "L" or term[-1] == "W")
    nearest = mask_of(_nearest_workday(term) for term in special if term not in ("L", "LW"))
    return plain, nearest, "L" in special, "LW" in special


def _weekdays(text: str) -> tuple[int, frozenset[tuple[int, int]], int]:
    """Return weekdays, those that count in a month, and those that are the last of it."""
    plain, special = _sort_out(WEEKDAY, text, lambda term: "#" in term or term[-1] == "L")
    nth = frozenset(_nth_weekday(term) for term in special if "#" in term)
    return _sunday_once(plain), nth, mask_of(_last_weekday(term) for term in special if "#" not in term)


def _sort_out(field: Field, text: str, is_special: Callable[[str], bool]) -> tuple[int, list[str]]:
    """Split a day field into the mask of its ordinary terms and a list of its special ones (L, W, #)."""
    if text == "?":
        text = "*"
    terms = text.split(",")
    special = [term for term in terms if term and is_special(term)]
    plain = [term for term in terms if term not in special]
    return (_mask(field, ",".join(plain)) if plain else 0), special


def _sunday_once(weekdays: int) -> int:
    return (weekdays | weekdays >> 7) & 0b111_1111


def _nearest_workday(term: str) -> int:
    if not re.fullmatch("[0-9]{1,6}W", term):
        raise DATE.refuse(
            f"{term!r} is invalid; write L (last day), LW (last workday) or 15W (workday nearest the 15th)"
        )
    return _value(DATE, term[:-1])


def _nth_weekday(term: str) -> tuple[int, int]:
    weekday, _, nth = term.partition("#")
    if not weekday or nth not in ("1", "2", "3", "4", "5"):
        raise WEEKDAY.refuse(f"{term!r} is invalid; write MON#1 to MON#5 for the first to the fifth Monday")
    return _value(WEEKDAY, weekday) % 7, int(nth)


def _last_weekday(term: str) -> int:
    if term == "L":
        raise WEEKDAY.refuse("'L' needs a day; write 5L for the last Friday of the month, or 6 for Saturdays")
    return _value(WEEKDAY, term[:-1]) % 7


def _mask(field: Field, text: str) -> int:
    return mask_of(value for term in text.split(",") for value in _term(field, term))


def _term(field: Field, term: str) -> range:
    """Return the values of one item of a list: `*`, `5`, `1-5`, or one of these with a step."""
    body, slash, step_text = term.partition("/")
    low, high = _bounds(field, body, term)
    if not slash:
        return range(low, high + 1)
    if "-" not in body:
        high = field.high
    step = int(step_text) if re.fullmatch("[0-9]{1,6}", step_text) else 0
    if step < 1:
        raise field.refuse(f"{term!r} needs a step of 1 or more after the slash")
    if step > high - low:
        interval = f", or schedule 'every {step}{field.unit}'" if field.unit else ""
        raise field.refuse(f"the step of {term!r} is larger than the range; write {low}{interval}")
    return range(low, high + 1, step)


def _bounds(field: Field, body: str, term: str) -> tuple[int, int]:
    if not body:
        raise field.refuse(f"an item{f' of {term!r}' if term else ''} is empty; write * for every value")
    if body == "*":
        return field.low, field.high
    first, dash, last = body.partition("-")
    if not first or (dash and not last):
        raise field.refuse(f"{term!r} is invalid; write a range like 1-5")
    low = _value(field, first)
    high = _value(field, last) if dash else low
    if last == "SUN" and low > 0:
        high = 7
    if high < low:
        raise field.refuse(f"the range {term!r} ends before it begins; write {_unwrapped(field, low, high, term)}")
    return low, high


def _value(field: Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.low
    if not re.fullmatch("[0-9]{1,6}", text):
        names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
        raise field.refuse(f"{text!r} is not a number from {field.low} to {field.largest}{names}")
    value = int(text)
    if not field.low <= value <= field.largest:
        raise field.refuse(f"{value} is not between {field.low} and {field.largest}")
    return value


def _unwrapped(field: Field, low: int, high: int, term: str) -> str:
    """Rewrite a range that wraps around the end: 22-2 as 22-23,0-2."""
    body, _, step = term.partition("/")
    size = field.high - field.low + 1
    if step.isdecimal() and int(step) > 0:
        wrapped = ((value - field.low) % size + field.low for value in range(low, high + size + 1, int(step)))
        return ",".join(str(value) for value in sorted(set(wrapped)))

    def spelled(value: int) -> str:
        return field.names[value - field.low] if any(name in body for name in field.names) else str(value)

    halves = [(low, field.high), (field.low, high)] if low <= field.high else [(field.low, high)]
    return ",".join(spelled(a) if a == b else f"{spelled(a)}-{spelled(b)}" for a, b in halves)
