"""Read the JSON of a schedule, a string or an object, into the value that `parse_schedule` takes."""

from __future__ import annotations

from typing import Any

from oncue.domain import fields
from oncue.domain.calendar import Calendar
from oncue.domain.cron import DstFold, DstGap
from oncue.domain.errors import Invalid
from oncue.domain.fields import Reader, object_schema, takes
from oncue.domain.schedule import Asked, shorthand

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
