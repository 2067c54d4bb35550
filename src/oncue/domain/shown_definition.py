"""A definition as users see it: every field as it is requested, with defaults filled in."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

from oncue.domain.definition import STORED_AS
from oncue.domain.instants import Duration, rfc3339, show_duration
from oncue.domain.job import Rate, Spec
from oncue.domain.notify import Entry, show_entries
from oncue.domain.placement import Priority, Resources
from oncue.domain.policy import Retry
from oncue.domain.schedule import Schedule
from oncue.shapes.jobs import JobFields

SHOWN = 1_000  # different values that a function keeps to show them again: those of a page of jobs are mostly the same


def show_definition(spec: Spec) -> dict[str, Any]:
    """Show every field of a definition but its payload."""
    return dict(zip(DEFINITION, shown_values(spec), strict=True))


def shown_values(spec: Spec) -> list[Any]:
    """Return the same without names, in the order of `DEFINITION`."""
    values = list(_values(spec))
    for place, show, usual, shown in _SHOWN_OTHERWISE:
        value = values[place]
        if value is usual:  # the same object in every definition that leaves the field out
            values[place] = shown
        elif value is not None:
            values[place] = show(value)
    return values


def show_priority(found: Priority) -> str:
    return _PRIORITIES[found]


_PRIORITIES = {one: one.name.lower() for one in Priority}  # used for every row: the name of an enum is slow to read


@lru_cache(maxsize=SHOWN)
def _retry(found: Retry) -> dict[str, Any]:
    return {
        "backoff": show_duration(found.backoff),
        "factor": found.factor,
        "max_backoff": show_duration(found.max_backoff),
        "jitter": found.jitter,
    }


def _rate(found: Rate) -> dict[str, Any]:
    shown = {"limit": found.limit, "per": show_duration(found.per)}
    return shown if found.key is None else {**shown, "key": found.key}


_ZONED = ("timezone", "dst_gap", "dst_fold")
_zoned = attrgetter(*_ZONED)
_NO_ZONE = _zoned(Schedule())


def show_schedule(found: Schedule) -> dict[str, Any]:
    """Show a schedule, always as an object, without omitted fields; a calendar with its cron expression."""
    shown: dict[str, Any] = {}
    if found.at is not None:
        shown["at"] = rfc3339(found.at)
    if found.cron is not None:
        shown["cron"] = found.cron
    if found.every is not None:
        shown["every"] = show_duration(found.every)
    if found.calendar is not None:
        shown["calendar"] = found.calendar
    if found.start_at is not None:
        shown["start_at"] = rfc3339(found.start_at)
    if found.end_at is not None:
        shown["end_at"] = rfc3339(found.end_at)
    if found.jitter:
        shown["jitter"] = show_duration(found.jitter)
    if found.max_runs is not None:
        shown["max_runs"] = found.max_runs
    zone = _zoned(found)
    if found.recurring:
        return shown | dict(zip(_ZONED, zone, strict=True))
    if zone != _NO_ZONE:
        shown |= {name: value for name, value, usual in zip(_ZONED, zone, _NO_ZONE, strict=True) if value != usual}
    return shown


@lru_cache(maxsize=SHOWN)
def show_resources(found: Resources) -> dict[str, Any]:
    return {"cpu": found.cpu_milli / 1_000, "memory_mb": found.memory_mb, "slots": found.slots}


# How a field of a definition is shown, by the type it is stored as; any other is shown as it is stored.
_BY_TYPE: dict[Any, Callable[[Any], Any]] = {
    Schedule: show_schedule,
    Priority: show_priority,
    Duration: show_duration,
    Retry: _retry,
    Rate: _rate,
    Resources: show_resources,
    tuple[Entry, ...]: show_entries,
}
DEFINITION = [name for name in JobFields.__annotations__ if name != "payload"]
_values = attrgetter(*DEFINITION)
_SHOWN_OTHERWISE = [
    (place, show, usual, None if usual is None else show(usual))
    for place, (show, usual) in enumerate(
        zip((_BY_TYPE.get(STORED_AS[name]) for name in DEFINITION), _values(Spec(task="")), strict=True)
    )
    if show is not None
]
