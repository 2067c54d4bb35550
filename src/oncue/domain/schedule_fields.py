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
        raise Invalid.of(path, "wrong_type", "must be a string")
    if len(raw) > LONGEST_TEXT:
        raise Invalid.of(path, "too_long", f"has {len(raw)} characters; at most {LONGEST_TEXT} are allowed")
    return raw


@takes(type=["integer", "string"], maxLength=LONGEST_TEXT)
def _number_or_text(raw: Any, path: str) -> int | str:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise Invalid.of(path, "wrong_type", 'must be a number or a cron field, like 9 or "9-17"')
    return raw if isinstance(raw, int) else _string(raw, path)


@takes(type=["string", "array"], maxLength=LONGEST_TEXT, items=fields.schema_of(_string), maxItems=MOST_DAYS)
def _days(raw: Any, path: str) -> str | tuple[str, ...]:
    if isinstance(raw, list) and len(raw) <= MOST_DAYS:
        return tuple(_string(one, f"{path}.{place}") for place, one in enumerate(raw))
    if not isinstance(raw, str):
        raise Invalid.of(path, "wrong_type", 'must be a cron field or a list, like "mon-fri" or ["mon", "wed"]')
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
        message = 'must be a string like "now", "every 30s" or "0 9 * * 1-5", or an object like {"cron": "0 9 * * *"}'
        raise Invalid.of(path, "wrong_type", message)
    return Asked(**fields.object_of(raw, path, _SCHEDULE, nothing=_NULLABLE))


_KINDS = ("at", "cron", "every", "calendar")
_ANY_SERIES = frozenset({"start_at", "end_at", "jitter", "max_runs"})
_APPLIES = {
    "at": frozenset({"jitter"}),
    "every": _ANY_SERIES,
    "cron": _ANY_SERIES | {"timezone", "dst_gap", "dst_fold"},
    "calendar": _ANY_SERIES | {"timezone", "dst_gap", "dst_fold"},
}


def merged(there: dict[str, Any], given: Any) -> Any:
    """Merge an edit into a schedule; `there` is the schedule as the API shows it. The caller checks the result.

    Fields that the edit leaves out stay; null removes a field. A new kind replaces the old one, together with the
    fields that do not apply to the new kind. "now", and a value that is not a schedule, are returned unchanged.
    """
    if isinstance(given, str) and given != "now":
        try:
            asked = shorthand(given)
        except Invalid:
            return given
        given = {kind: said for kind in _KINDS if (said := getattr(asked, kind)) is not None}
    if not isinstance(given, dict):
        return given
    kind, named = _kind_of(there), _kind_of(given)
    kept = there
    if named is not None:
        stays = there.keys() - {*_KINDS} if named == kind else _APPLIES[named]
        kept = {name: value for name, value in there.items() if name in stays}
    return {name: value for name, value in (kept | given).items() if value is not None}


def _kind_of(schedule: dict[str, Any]) -> str | None:
    """Return the kind. The API shows a calendar together with its cron expression; it counts as a calendar."""
    return next((kind for kind in reversed(_KINDS) if schedule.get(kind) is not None), None)
