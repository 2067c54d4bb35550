"""Read single fields: a JSON value and its path in, the checked value out, or Invalid with a valid example."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from math import isfinite
from typing import Any, TypeVar

from oncue.domain.errors import Invalid, Problem, tried
from oncue.domain.instants import (
    DURATION_PATTERN,
    MILLISECOND,
    Duration,
    Instant,
    parse_duration,
    parse_instant,
    seconds_hint,
)
from oncue.domain.meanings import did_you_mean
from oncue.domain.plain_text import kind_of, printable

Reader = Callable[[Any, str], Any]
Schema = dict[str, Any]
R = TypeVar("R", bound=Reader)

LONGEST_SHOWN = 40  # characters of a refused text
LARGEST_SHOWN = 10**20
MOST_SUGGESTED = 5  # did-you-mean hints per request: each compares a name with all others

# Control characters, line separators, marks that reverse the direction of text, characters without a shape, and halves
# of surrogate pairs: with these a name can look like another name, or break the program that prints it. Not the two
# joiners, U+200C and U+200D: Persian and emoji need them.
_TREACHEROUS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff]"
)


def takes(**schema: Any) -> Callable[[R], R]:
    """Attach a JSON Schema to a reader. Every value it accepts fits the schema; a fitting value may be refused."""

    def say(reader: R) -> R:
        vars(reader)["schema"] = schema
        return reader

    return say


def schema_of(reader: Reader) -> Schema:
    """Return the schema of a reader. Every reader in a table of readers has one."""
    found: Schema = vars(reader)["schema"]
    return found


def object_schema(
    readers: Mapping[str, Reader], *, required: tuple[str, ...] = (), nothing: AbstractSet[str] = frozenset()
) -> Schema:
    """Build the schema of the objects that `read_fields` and `object_of` accept with this table."""
    properties = {
        name: {"anyOf": [schema_of(reader), {"type": "null"}]} if name in nothing else schema_of(reader)
        for name, reader in readers.items()
    }
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def read_fields(
    raw: Mapping[str, Any],
    readers: Mapping[str, Reader],
    problems: list[Problem],
    path: str = "",
    *,
    nothing: AbstractSet[str] = frozenset(),
) -> dict[str, Any]:
    """Return the valid fields and add the others to `problems`. Fields in `nothing` may be null, as if left out."""
    found: dict[str, Any] = {}
    for name, value in raw.items():
        where = f"{path}.{name}" if path else name
        reader = readers.get(name)
        if reader is None:
            shown = printable(name)
            advice = did_you_mean(shown, readers) if len(problems) < MOST_SUGGESTED else "check the spelling"
            where = f"{path}.{shown}" if path else shown
            problems.append(Problem(where, "unknown_field", f"unknown field {shown!r}; {advice}"))
        elif value is not None or name not in nothing:
            try:
                found[name] = reader(value, where)
            except Invalid as wrong:
                problems.extend(wrong.problems)
    return found


def shown(raw: Any) -> str:
    """Format a refused value for a message: a short one as JSON has it, of others only what they are."""
    match raw:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[raw]
        case str():
            return repr(raw if len(raw) <= LONGEST_SHOWN else f"{raw[:LONGEST_SHOWN]}…")
        case int():
            return str(raw) if abs(raw) < LARGEST_SHOWN else "a longer number"
        case float():
            return repr(raw)
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a value of the type {kind_of(raw)}"


def object_of(
    raw: Any,
    path: str,
    readers: Mapping[str, Reader],
    *,
    required: tuple[str, ...] = (),
    nothing: AbstractSet[str] = frozenset(),
) -> dict[str, Any]:
    """Read the fields of an object within the request."""
    if not isinstance(raw, dict):
        message = f"must be an object with the fields {', '.join(readers)}, not {shown(raw)}"
        raise Invalid.of(path, "wrong_type", message)
    missing = [Problem(f"{path}.{name}", "required", "is required") for name in required if name not in raw]
    problems: list[Problem] = []
    found = read_fields(raw, readers, problems, path, nothing=nothing)
    if problems or missing:
        raise Invalid(*problems, *missing)
    return found


def each(raw: list[Any], path: str, read: Reader) -> tuple[Any, ...]:
    """Read the entries of a list. Invalid: all that is wrong with any."""
    problems: list[Problem] = []
    found = tuple(tried(problems, read, one, f"{path}.{place}") for place, one in enumerate(raw))
    if problems:
        raise Invalid(*problems)
    return found


def text(longest: int) -> Reader:
    """Read a name: one line, without invisible characters."""

    @takes(type="string", minLength=1, maxLength=longest, pattern=r"\S")
    def read(raw: Any, path: str) -> str:
        if not isinstance(raw, str):
            raise Invalid.of(path, "wrong_type", f"must be a string, not {shown(raw)}")
        if not raw.strip():
            raise Invalid.of(path, "too_short", "is empty; write a value, or leave the field out")
        if len(raw) > longest:
            raise Invalid.of(path, "too_long", f"has {len(raw)} characters; at most {longest} are allowed")
        if bad := _TREACHEROUS.search(raw):
            code = f"U+{ord(bad[0]):04X}"
            raise Invalid.of(
                path, "bad_text", f"has the invisible character {code}; write visible characters and spaces only"
            )
        return raw

    return read


def path_name(longest: int) -> Reader:
    """Read a name that is part of a URL, where `.` and `..` mean other things."""
    read_text = text(longest)

    @takes(**schema_of(read_text))
    def read(raw: Any, path: str) -> str:
        if raw in (".", ".."):
            raise Invalid.of(path, "bad_text", f"must not be {raw!r}, which has another meaning in URLs")
        found: str = read_text(raw, path)
        return found

    return read


def texts(most: int, longest: int) -> Reader:
    read_one = text(longest)

    @takes(type="array", items=schema_of(read_one), maxItems=most)
    def read(raw: Any, path: str) -> tuple[str, ...]:
        if not isinstance(raw, list):
            raise Invalid.of(path, "wrong_type", f'must be a list of strings, like ["a", "b"], not {shown(raw)}')
        if len(raw) > most:
            raise Invalid.of(path, "too_many", f"has {len(raw)} entries; at most {most} are allowed")
        return each(raw, path, read_one)

    return read


def whole(least: int, most: int) -> Reader:
    @takes(type="integer", minimum=least, maximum=most)
    def read(raw: Any, path: str) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int):
            raise Invalid.of(path, "wrong_type", f"{shown(raw)} is not a whole number from {least} to {most}")
        if not least <= raw <= most:
            raise Invalid.of(path, "out_of_range", f"{shown(raw)} is not a whole number from {least} to {most}")
        return raw

    return read


def number(least: float, most: float) -> Reader:
    @takes(type="number", minimum=least, maximum=most)
    def read(raw: Any, path: str) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise Invalid.of(path, "wrong_type", f"{shown(raw)} is not a number from {least} to {most}")
        if not least <= raw <= most or not isfinite(raw):
            raise Invalid.of(path, "out_of_range", f"{shown(raw)} is not a number from {least} to {most}")
        return float(raw)

    return read


@takes(type="boolean")
def truth(raw: Any, path: str) -> bool:
    if not isinstance(raw, bool):
        raise Invalid.of(path, "wrong_type", f"{shown(raw)} is neither true nor false")
    return raw


def duration(least: Duration = MILLISECOND) -> Reader:
    @takes(type="string", pattern=DURATION_PATTERN, examples=["30s"])
    def read(raw: Any, path: str) -> Duration:
        if not isinstance(raw, str):
            like = f'write a string like "250ms", "30s", "5m", "2h" or "7d"{seconds_hint(raw)}'
            message = f"{shown(raw)} is not a duration; {like}"
            raise Invalid.of(path, "wrong_type", message)
        return parse_duration(raw, path, least=least)

    return read


def choice(values: Mapping[str, Any]) -> Reader:
    @takes(type="string", enum=list(values))
    def read(raw: Any, path: str) -> Any:
        if not isinstance(raw, str) or raw not in values:
            raise Invalid.of(path, "unknown_value", f"{shown(raw)} is not one of {', '.join(values)}")
        return values[raw]

    return read


@takes(type="string", format="date-time")
def instant(raw: Any, path: str) -> Instant:
    if not isinstance(raw, str):
        message = f"{shown(raw)} is not an RFC 3339 instant with an offset, like 2027-01-31T09:00:00Z"
        raise Invalid.of(path, "wrong_type", message)
    return parse_instant(raw, path)
