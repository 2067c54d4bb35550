"""Calls on schedules that belong to no job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_object
from oncue.api.shared.context import Api
from oncue.domain.errors import Invalid, Problem, inside
from oncue.domain.fields import Reader, instant, read_fields, whole
from oncue.domain.preview import MOST_SHOWN, USUALLY_SHOWN
from oncue.domain.schedule import parse_schedule, read_schedule

ASKED: Mapping[str, Reader] = {"schedule": read_schedule, "count": whole(1, MOST_SHOWN), "after": instant}
NULLABLE = frozenset({"after"})


async def show_ahead(api: Api, request: Request, caller: Caller) -> Response:
    """Preview when a schedule fires. Stores nothing."""
    asked, now = _asked(await read_object(request)), api.clock.now()
    with inside("schedule"):
        schedule = parse_schedule(asked["schedule"], now)
    count, after = asked.get("count", USUALLY_SHOWN), asked.get("after")
    with api.watchdog.aside():
        return answer(await api.previews.show(caller, schedule, count, after, now))


def _asked(raw: dict[str, Any]) -> dict[str, Any]:
    problems: list[Problem] = []
    found = read_fields(raw, ASKED, problems, nothing=NULLABLE)
    if "schedule" not in raw:
        problems.append(Problem("schedule", "required", 'is required, for example "0 9 * * 1-5" or {"every": "30s"}'))
    if problems:
        raise Invalid(*problems)
    return found
