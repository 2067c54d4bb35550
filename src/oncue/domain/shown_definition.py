"""A definition as users see it: every field as it is requested, with defaults filled in."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from oncue.domain.definition import STORED_AS
from oncue.domain.instants import Duration, show_duration
from oncue.domain.job import Rate, Spec
from oncue.domain.notify import Entry, show_entries
from oncue.domain.placement import Priority, Resources
from oncue.domain.policy import Retry
from oncue.domain.schedule import Schedule
from oncue.domain.tried import time_or_none
from oncue.shapes.jobs import JobFields


def show_definition(spec: Spec) -> dict[str, Any]:
    """Show every field of a definition but its payload."""
    found = dict(zip(_DEFINITION, _values(spec), strict=True))
    for name, show in _SHOWN_OTHERWISE:
        if found[name] is not None:
            found[name] = show(found[name])
    return found


def show_priority(found: Priority) -> str:
    return found.name.lower()


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


NO_SCHEDULE = Schedule()


def show_schedule(found: Schedule) -> dict[str, Any]:
    """Show a schedule, always as an object, without omitted fields; a calendar with its cron expression."""
    said = {
        "at": time_or_none(found.at),
        "cron": found.cron,
        "every": None if found.every is None else show_duration(found.every),
        "calendar": found.calendar,
        "start_at": time_or_none(found.start_at),
        "end_at": time_or_none(found.end_at),
        "jitter": show_duration(found.jitter) if found.jitter else None,
        "max_runs": found.max_runs,
    }
    given = {name: value for name, value in said.items() if value is not None}
    zoned = {name: getattr(found, name) for name in ("timezone", "dst_gap", "dst_fold")}
    if found.recurring:
        return given | zoned
    return given | {name: value for name, value in zoned.items() if value != getattr(NO_SCHEDULE, name)}


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
_DEFINITION = [name for name in JobFields.__annotations__ if name != "payload"]
_SHOWN_OTHERWISE = [(name, _BY_TYPE[STORED_AS[name]]) for name in _DEFINITION if STORED_AS[name] in _BY_TYPE]
_values = attrgetter(*_DEFINITION)
