"""Turn the JSON of a request into a checked definition. Reports all problems at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from types import NoneType
from typing import Any, get_args

import msgspec

from oncue.domain import fields
from oncue.domain.errors import Invalid, Problem, first_problems, inside
from oncue.domain.fields import Reader, Schema, object_schema, read_fields, schema_of, takes
from oncue.domain.instants import Duration, Instant, show_duration
from oncue.domain.job import Rate, Spec
from oncue.domain.lane import Concurrency
from oncue.domain.notify import Entry, read_notify
from oncue.domain.placement import NOTIFY, SYSTEM_QUEUE, Priority, Resources
from oncue.domain.plain_json import DEEPEST, has_more_values, not_plain
from oncue.domain.policy import CatchUp, OnLeftBehind, OnLost, Overlap, Retry
from oncue.domain.schedule import parse_schedule, read_schedule, readable
from oncue.shapes.jobs import JobFields, Range

MOST_AT_A_TIME = 100_000
MOST_CORES = 4_096
MOST_MEMORY_MB = 64 * 1024 * 1024
LABEL_BYTES = 1_000  # of all labels together: they are part of a class, which is found by its value
MOST_VALUES = 500_000  # in a payload: what a process needs to check and copy them is bounded by this


class Limits(msgspec.Struct, frozen=True):
    """How large the parts of a definition may be: characters of text, entries of lists, bytes of payload."""

    payload: int = 256 * 1024
    name: int = 200
    queue: int = 100
    tag: int = 100
    tags: int = 50
    label: int = 64
    labels: int = 16


USUAL = Limits()


def define(
    raw: Mapping[str, Any], defaults: Mapping[str, Any], now: Instant, limits: Limits = USUAL
) -> tuple[Spec, bytes | None]:
    """Read a definition and its payload. Invalid: every wrong field, and why.

    `defaults` are the task's registered values for fields that the job leaves out; `retry` and `resources` are merged
    part by part. A job that says null for a field has none, whatever the task's default is.
    """
    problems: list[Problem] = []
    found = read_fields(_with_defaults(raw, defaults), _readers(limits), problems, nothing=_NULLABLE)
    if "task" not in raw:
        problems.append(Problem("task", "required", 'is required, like "task": "hello"'))
    problems += _reserved(found)
    try:
        with inside("schedule"):
            unread = "schedule" not in found and isinstance(raw.get("schedule"), dict)
            found["schedule"] = parse_schedule(readable(raw["schedule"]) if unread else found.get("schedule"), now)
    except Invalid as wrong:
        problems.extend(wrong.problems)
    if problems:
        raise Invalid(*problems)
    payload = found.pop("payload", None)
    return Spec(**found), payload


def _reserved(found: Mapping[str, Any]) -> list[Problem]:
    """Return what is oncue's own: its notices must not be made by users, or a notice could lead to another."""
    ours = (("task", NOTIFY), ("queue", SYSTEM_QUEUE))
    message = "is reserved for oncue's own notices; choose another name"
    return [Problem(field, "reserved", message) for field, name in ours if found.get(field) == name]


def define_payload(raw: Any, limits: Limits = USUAL) -> bytes | None:
    """Read the payload alone."""
    found: bytes | None = None if raw is None else _readers(limits)["payload"](raw, "payload")
    return found


def definition_schema(limits: Limits = USUAL) -> Schema:
    """Return the JSON Schema of the objects that `define` accepts."""
    return object_schema(_readers(limits), required=("task",), nothing=_NULLABLE)


# The fields that a task may have defaults for: the policies. An older process ignores those that it does not know.
DEFAULTED = (
    "queue",
    "priority",
    "tags",
    "max_retries",
    "retry",
    "timeout",
    "overlap",
    "catch_up",
    "catch_up_window",
    "start_within",
    "on_lost",
    "on_left_behind",
    "group",
    "concurrency",
    "rate",
    "resources",
    "labels",
    "preemptible",
)
_MERGED = ("retry", "resources")  # part by part
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Spec) if field.encode_name}
_NULLABLE = frozenset({"payload", *(name for name, kind in _TYPES.items() if NoneType in get_args(kind))})

# Every field of a definition, with the type that its value is stored as where it is not null.
STORED_AS: dict[str, Any] = {
    name: next(one for one in get_args(kind) if one is not NoneType) if name in _NULLABLE else kind
    for name, kind in _TYPES.items()
}


def _with_defaults(raw: Mapping[str, Any], defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    if not defaults:
        return raw
    asked = {name: defaults[name] for name in DEFAULTED if name in defaults} | dict(raw)
    for name in _MERGED:
        if isinstance(asked.get(name), dict) and isinstance(defaults.get(name), dict):
            asked[name] = defaults[name] | asked[name]
    return asked


@lru_cache(maxsize=16)
def _readers(limits: Limits) -> dict[str, Reader]:
    """By name where a field is unlike others that are stored as the same type, else by that type."""
    by_name = {
        "schedule": read_schedule,
        "payload": _payload(limits.payload),
        "key": fields.path_name(limits.name),
        "queue": fields.path_name(limits.queue),
        "catch_up_window": fields.duration(least=Duration(0)),
        "labels": _labels(limits),
    }
    by_type = _BY_TYPE | {str: fields.text(limits.name), tuple[str, ...]: fields.texts(limits.tags, limits.tag)}
    return {name: by_name.get(name) or _reader_of(STORED_AS[name], by_type) for name in JobFields.__annotations__}


def _reader_of(kind: Any, by_type: Mapping[Any, Reader]) -> Reader:
    bounds = next((one for one in get_args(kind) if isinstance(one, Range)), None)
    return by_type[kind] if bounds is None else fields.whole(*bounds)


def _payload(limit: int) -> Reader:
    """Read a payload: an object of keyword arguments, stored as compact JSON."""

    @takes(type="object")
    def read(raw: Any, path: str) -> bytes:
        if not isinstance(raw, dict):
            message = 'must be an object of the task\'s arguments, like {"to": "a@example.org"}'
            raise Invalid.of(path, "wrong_type", message)
        stored = _encoded(raw)
        if (stored is None or len(stored) > MOST_VALUES) and has_more_values(raw, MOST_VALUES):  # each has a byte
            message = f"has more than {MOST_VALUES} values; write those of a kind as one text"
            raise Invalid.of(path, "too_many_values", message)
        if stored is None or not _is_plain(raw, stored):
            raise Invalid(*first_problems(not_plain(raw, path)))
        if len(stored) > limit:
            raise Invalid.of(path, "too_large", f"has {len(stored)} bytes as compact JSON; at most {limit} are allowed")
        return stored

    return read


# A NUL, the encoding of NaN, an integer that may have more than 64 bits; or text that looks like them.
_PERHAPS_NOT_PLAIN = re.compile(rb"\\u0000|null|\d{19}")


def _encoded(raw: dict[str, Any]) -> bytes | None:
    """Encode as compact JSON. None: not plain JSON."""
    try:
        return msgspec.json.encode(raw)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        return None


def _is_plain(raw: dict[str, Any], stored: bytes) -> bool:
    """Whether it is plain JSON. Values are checked one by one only when it may be none."""
    flat = stored.count(b"{") + stored.count(b"[") <= DEEPEST
    return (flat and not _PERHAPS_NOT_PLAIN.search(stored)) or not any(not_plain(raw, ""))


_RETRY: dict[str, Reader] = {
    "backoff": fields.duration(),
    "factor": fields.number(1, 100),
    "max_backoff": fields.duration(),
    "jitter": fields.number(0, 1),
}


@takes(title="Retry", **object_schema(_RETRY))
def _retry(raw: Any, path: str) -> Retry:
    retry = Retry(**fields.object_of(raw, path, _RETRY))
    if retry.backoff > retry.max_backoff:
        first, longest = show_duration(retry.backoff), show_duration(retry.max_backoff)
        message = f"{first} is longer than max_backoff, {longest}; raise max_backoff, too"
        raise Invalid.of(f"{path}.backoff", "too_large", message)
    return retry


_CONCURRENCY: dict[str, Reader] = {"key": fields.text(200), "limit": fields.whole(1, MOST_AT_A_TIME)}


@takes(title="Concurrency", **object_schema(_CONCURRENCY, required=("key", "limit")))
def _concurrency(raw: Any, path: str) -> Concurrency:
    return Concurrency(**fields.object_of(raw, path, _CONCURRENCY, required=("key", "limit")))


_RATE: dict[str, Reader] = {"limit": fields.whole(1, MOST_AT_A_TIME), "per": fields.duration(), "key": fields.text(200)}


@takes(title="Rate", **object_schema(_RATE, required=("limit", "per")))
def _rate(raw: Any, path: str) -> Rate:
    return Rate(**fields.object_of(raw, path, _RATE, required=("limit", "per")))


_RESOURCES: dict[str, Reader] = {
    "cpu": fields.number(0, MOST_CORES),
    "memory_mb": fields.whole(0, MOST_MEMORY_MB),
    "slots": fields.whole(1, MOST_AT_A_TIME),
}


@takes(title="Resources", **object_schema(_RESOURCES))
def _resources(raw: Any, path: str) -> Resources:
    found = fields.object_of(raw, path, _RESOURCES)
    # rounded up, but not only because 2.007 has no exact binary fraction
    return Resources(cpu_milli=ceil(round(found.pop("cpu", 0.0) * 1_000, 6)), **found)


def _labels(limits: Limits) -> Reader:
    read_all = fields.texts(limits.labels, limits.label)

    @takes(**schema_of(read_all))
    def read(raw: Any, path: str) -> tuple[str, ...]:
        found: tuple[str, ...] = read_all(raw, path)
        if sum(len(label.encode()) for label in found) > LABEL_BYTES:
            raise Invalid.of(path, "too_large", f"have more than {LABEL_BYTES} bytes together; shorten them")
        return found

    return read


_BY_TYPE: dict[Any, Reader] = {
    bool: fields.truth,
    Duration: fields.duration(),
    Priority: fields.choice({one.name.lower(): one for one in Priority}),
    **{kind: fields.choice({one.value: one for one in kind}) for kind in (Overlap, CatchUp, OnLost, OnLeftBehind)},
    Retry: _retry,
    Concurrency: _concurrency,
    Rate: _rate,
    Resources: _resources,
    tuple[Entry, ...]: read_notify,
}
