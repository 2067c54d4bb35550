"""Preview what an edit of a job would do, without doing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.editing import check_match, edited_definition
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_object
from oncue.api.jobs import snapshot
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.domain.edits import changed, definition_changes, withdrawn
from oncue.domain.errors import Invalid
from oncue.domain.fields import Reader, takes
from oncue.domain.instants import Instant
from oncue.domain.job import Snapshot
from oncue.domain.preview import USUALLY_SHOWN, Preview
from oncue.domain.tried import time_or_none
from oncue.intake.edits import decide

MOST_SHOWN = 100
MOST_WITHDRAWN = 100


@takes(type="integer", minimum=1, maximum=MOST_SHOWN, default=USUALLY_SHOWN)
def _count(raw: str, path: str) -> int:
    if not (raw.isascii() and raw.isdecimal() and len(raw) < 4 and 1 <= int(raw) <= MOST_SHOWN):
        raise Invalid.of(path, "out_of_range", f"is a whole number from 1 to {MOST_SHOWN}")
    return int(raw)


PARAMETERS: Mapping[str, Reader] = {"count": _count}


async def preview(api: Api, request: Request, caller: Caller) -> Response:
    """Decide the edit as `PATCH` does, and show what follows from it. Writes nothing."""
    count = read_query(request, PARAMETERS).get("count", USUALLY_SHOWN)
    check_match(request, (await snapshot(api, request, caller)).job)
    raw = await read_object(request, api.largest_job)
    snap, now = await snapshot(api, request, caller), api.clock.now()
    wanted = await edited_definition(api, snap, raw, caller, now)
    decided = decide(api.intake, snap, wanted, now)
    await api.engine.declaring.rehearse([], [decided], api.intake.quota_of(caller))
    after = changed(snap, decided)
    gone = withdrawn(snap, decided)
    shown: dict[str, Any] = {
        "job": views.job(after, await api.owner_of(snap.job.uid, caller), None),
        "changes": definition_changes(snap.job.spec, snap.job.payload, *wanted),
        "before": await _ahead(api, caller, snap, count, now),
        "after": await _ahead(api, caller, after, count, now),
        "withdrawn": [
            {"run_id": run.run_id, "scheduled_for": time_or_none(run.nominal)} for run in gone[:MOST_WITHDRAWN]
        ],
        "withdrawn_count": None if snap.crowded else len(gone),
        "takes_effect_at": time_or_none(views.next_run_at(after)),
    }
    return answer(shown)


async def _ahead(api: Api, caller: Caller, snap: Snapshot, count: int, now: Instant) -> Preview:
    """Preview the schedule of a job, with as many occurrences as `max_runs` has left."""
    schedule = snap.job.spec.schedule
    if schedule.max_runs is not None and snap.cursor is not None:
        ahead = sum(run.scheduled and run.nominal is not None and run.nominal > now for run in snap.waiting)
        count = min(count, max(0, schedule.max_runs - snap.cursor.planned + ahead))
    with api.watchdog.aside():
        return await api.previews.show(caller, schedule, count, None, now)
