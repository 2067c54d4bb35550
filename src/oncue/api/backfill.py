"""Making up for the past: occurrences of a recurring job as runs, asked for by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from uuid import UUID

from starlette.requests import Request

from oncue.api.answers import answer
from oncue.api.auth import Caller
from oncue.api.changes import Changed
from oncue.api.context import Api
from oncue.api.decide import until_settled
from oncue.api.idempotency import idempotent
from oncue.api.outcome import Outcome, outcome
from oncue.api.reading import path_id, read_object
from oncue.domain import change
from oncue.domain.change import JobChange
from oncue.domain.errors import Invalid, NotFound, Problem
from oncue.domain.fields import Reader, instant, read_fields
from oncue.domain.ids import JobId
from oncue.domain.instants import MICROSECOND, MINUTE, Instant, rfc3339

STRETCH: Mapping[str, Reader] = {"from": instant, "to": instant}
CLOCKS_DIFFER = MINUTE  # a caller's "until now" may lie so much ahead of ours


async def backfill(api: Api, request: Request, caller: Caller) -> Outcome:
    """A run for each occurrence in [from, to), due now. Asked for again: the same runs, and none twice."""
    raw, asked_at = await read_object(request), api.clock.now()
    first, last = _stretch(raw, asked_at)
    job_id = JobId(path_id(request))

    async def make(_: UUID) -> Outcome:
        decided = await until_settled(api.clock, lambda: _backfilled(api, job_id, first, last, caller))
        if decided.add:
            await api.hint_runs(asked_at)  # workers look from there on: no later than the first run is due
        changed = (Changed(decided.uid, job_id),) if decided.add else ()
        return outcome(answer({"run_ids": [run.run_id for run in decided.add]}, HTTPStatus.ACCEPTED), changed)

    return await idempotent(api, request, caller, raw, make)


async def _backfilled(api: Api, job_id: JobId, first: Instant, last: Instant, caller: Caller) -> JobChange | None:
    """None: it was edited meanwhile."""
    snap = await api.engine.jobs.read(caller.sees, job_id)
    if snap is None:
        raise NotFound
    # a job's own id stands for all its backfills, so that overlapping ones share their runs; ten thousand steps of a
    # calendar take a while, which other callers need not wait for
    decided = await asyncio.to_thread(change.backfill, snap, job_id, first, last, api.clock.now())
    applied = await api.engine.jobs.apply(decided, api.clock.now(), api.quota_of_runs(caller))
    return decided if applied else None


def _stretch(raw: dict[str, Any], now: Instant) -> tuple[Instant, Instant]:
    """The first and the last instant of [from, to), as far as it is past: what is to come is up to the schedule."""
    problems: list[Problem] = []
    found = read_fields(raw, STRETCH, problems)
    missing = [name for name in STRETCH if name not in raw]
    problems += [Problem(name, "required", "say from when to when, like 2027-01-31T09:00:00Z") for name in missing]
    if problems:
        raise Invalid(*problems)
    start, end = found["from"], found["to"]
    if end > now + CLOCKS_DIFFER:
        message = f"is to come: only the past can be made up for, and it is {rfc3339(now)} now"
        raise Invalid.of("to", "in_the_future", message)
    if end <= start:
        raise Invalid.of("to", "bad_window", "must be later than from")
    return start, Instant(min(end - MICROSECOND, now))
