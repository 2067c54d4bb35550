"""Readers of single fields: a JSON value and its path in, the checked value out, or Invalid with what to write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from math import isfinite
from typing import Any, TypeVar

from oncue.domain.errors import Invalid, Problem
from oncue.domain.instants import DURATION_PATTERN, MILLISECOND, Duration, Instant, parse_duration, parse_instant
from oncue.domain.plain_text import printable

Reader = Callable[[Any, str], Any]
Schema = dict[str, Any]
R = TypeVar("R", bound=Reader)

# Control characters, line separators, marks that turn the direction of text around, and halves of surrogate pairs:
# with these a name can look like another one, or break whatever prints it.
_TREACHEROUS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def takes(**schema: Any) -> Callable[[R], R]:
    """Say what a reader takes, as JSON Schema: all that it takes fits, and what fits may still be refused."""

    def say(reader: R) -> R:
        vars(reader)["schema"] = schema
        return reader

    return say


def schema_of(reader: Reader) -> Schema:
    """What a reader takes. One that does not say it has no place in a table of readers."""
    found: Schema = vars(reader)["schema"]
    return found


def object_schema(
    readers: Mapping[str, Reader], *, required: tuple[str, ...] = (), nothing: AbstractSet[str] = frozenset()
) -> Schema:
    """What `read_fields` and `object_of` take with this table."""
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
    """Every field that is right; every other one is added to `problems`. Those in `nothing` may be null: left out."""
    found: dict[str, Any] = {}
    for name, value in raw.items():
        where = f"{path}.{name}" if path else name
        reader = readers.get(name)
        if reader is None:
            shown = printable(name)
            message = f"there is no field {shown!r} here: take it out, or look at its spelling"
            problems.append(Problem(f"{path}.{shown}" if path else shown, "unknown_field", message))
        elif value is not None or name not in nothing:
            try:
                found[name] = reader(value, where)
            except Invalid as wrong:
                problems.extend(wrong.problems)
    return found


def object_of(
    raw: Any,
    path: str,
    readers: Mapping[str, Reader],
    *,
    required: tuple[str, ...] = (),
    nothing: AbstractSet[str] = frozenset(),
) -> dict[str, Any]:
    """The fields of an object within the request."""
    if not isinstance(raw, dict):
        raise Invalid.of(path, "wrong_type", f"is an object with the fields {', '.join(readers)}")
    missing = [Problem(f"{path}.{name}", "required", f"{name} goes with it") for name in required if name not in raw]
    problems: list[Problem] = []
    found = read_fields(raw, readers, problems, path, nothing=nothing)
    if problems or missing:
        raise Invalid(*problems, *missing)
    return found


def text(longest: int) -> Reader:
    """A name of some kind: on one line, without characters that deceive."""

    @takes(type="string", minLength=1, maxLength=longest, pattern=r"\S")
    def read(raw: Any, path: str) -> str:
        if not isinstance(raw, str):
            raise Invalid.of(path, "wrong_type", "is a string")
        if not raw.strip():
            raise Invalid.of(path, "too_short", "is empty: write something, or leave it out")
        if len(raw) > longest:
            raise Invalid.of(path, "too_long", f"has {len(raw)} characters; at most {longest} are kept")
        if bad := _TREACHEROUS.search(raw):
            code = f"U+{ord(bad[0]):04X}"
            raise Invalid.of(
                path, "bad_text", f"has the invisible character {code}: write visible ones and spaces only"
            )
        return raw

    return read


def texts(most: int, longest: int) -> Reader:
    read_one = text(longest)

    @takes(type="array", items=schema_of(read_one), maxItems=most)
    def read(raw: Any, path: str) -> tuple[str, ...]:
        if not isinstance(raw, list):
            raise Invalid.of(path, "wrong_type", 'is a list of strings, like ["a", "b"]')
        if len(raw) > most:
            raise Invalid.of(path, "too_many", f"has {len(raw)} entries; at most {most} are kept")
        return tuple(read_one(one, f"{path}.{place}") for place, one in enumerate(raw))

    return read


def whole(least: int, most: int) -> Reader:
    @takes(type="integer", minimum=least, maximum=most)
    def read(raw: Any, path: str) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int):
            raise Invalid.of(path, "wrong_type", f"is a whole number from {least} to {most}")
        if not least <= raw <= most:
            raise Invalid.of(path, "out_of_range", f"is a whole number from {least} to {most}")
        return raw

    return read


def number(least: float, most: float) -> Reader:
    @takes(type="number", minimum=least, maximum=most)
    def read(raw: Any, path: str) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise Invalid.of(path, "wrong_type", f"is a number from {least} to {most}")
        if not least <= raw <= most or not isfinite(raw):
            raise Invalid.of(path, "out_of_range", f"is a number from {least} to {most}")
        return float(raw)

    return read


@takes(type="boolean")
def truth(raw: Any, path: str) -> bool:
    if not isinstance(raw, bool):
        raise Invalid.of(path, "wrong_type", "is true or false")
    return raw


def duration(least: Duration = MILLISECOND) -> Reader:
    @takes(type="string", pattern=DURATION_PATTERN, examples=["30s"])
    def read(raw: Any, path: str) -> Duration:
        if not isinstance(raw, str):
            raise Invalid.of(path, "wrong_type", 'is a string like "250ms", "30s", "5m", "2h" or "7d"')
        return parse_duration(raw, path, least=least)

    return read


def choice(values: Mapping[str, Any]) -> Reader:
    @takes(type="string", enum=list(values))
    def read(raw: Any, path: str) -> Any:
        if not isinstance(raw, str) or raw not in values:
            raise Invalid.of(path, "unknown_value", f"is one of {', '.join(values)}")
        return values[raw]

    return read


@takes(type="string", format="date-time")
def instant(raw: Any, path: str) -> Instant:
    if not isinstance(raw, str):
        raise Invalid.of(path, "wrong_type", "is an RFC 3339 instant with an offset, like 2027-01-31T09:00:00Z")
    return parse_instant(raw, path)
