"""List a job's occurrences with outcomes, from its occurrence history and its runs; and run past ones (backfill)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import path_id, read_object
from oncue.api.listing import MOST_RUNS_LOOKED_AT, filled_page, page, wanted_page, window
from oncue.api.listing import instant as in_query
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import idempotent
from oncue.api.shared.outcome import Changed, Outcome, outcome
from oncue.domain import change
from oncue.domain.change import JobChange
from oncue.domain.errors import Invalid, NotFound, Problem
from oncue.domain.fields import Reader, instant, read_fields
from oncue.domain.ids import JobId
from oncue.domain.instants import MICROSECOND, MINUTE, Instant, rfc3339
from oncue.domain.ledger import Entry
from oncue.domain.run import RunView, Trigger
from oncue.engines.marks import mark, unmark
from oncue.engines.port import Lists, Page, RunQuery
from oncue.intake.edits import until_settled

T = TypeVar("T")
Occurred = RunView | Entry

BY_HAND = frozenset({Trigger.RUN_NOW, Trigger.REQUEUE})  # not occurrences of the schedule

WINDOW: Mapping[str, Reader] = {"start_time": in_query, "end_time": in_query}
STRETCH: Mapping[str, Reader] = {"from": instant, "to": instant}
CLOCKS_DIFFER = MINUTE  # a caller's clock may be ahead of ours by this much


class _Side(msgspec.Struct, frozen=True, array_like=True):
    """How far one of the two listings has been read."""

    after: str | None = None
    done: bool = False


class _Place(msgspec.Struct, frozen=True, array_like=True):
    runs: _Side = _Side()
    entries: _Side = _Side()


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller, WINDOW)
    job_id = JobId(path_id(request))
    if await api.engine.jobs.read(caller.sees, job_id) is None:
        raise NotFound
    start, end = window(wanted.filters)

    async def read(limit: int, after: str | None) -> Page[Occurred]:
        return await read_page(api.engine.lists, job_id, limit, after, start)

    keep = None if start is end is None else (lambda one: is_within(one, start, end))
    found = await filled_page(read, wanted, keep, _seen_to, MOST_RUNS_LOOKED_AT)
    return answer(page("occurrences", found, views.occurrence, wanted))


def is_within(one: Occurred, start: Instant | None, end: Instant | None) -> bool:
    """Whether an occurrence, or one of a time range of them, was scheduled for [start, end)."""
    first, last = (one.first, one.last) if isinstance(one, Entry) else (when(one), when(one))
    return (start is None or last >= start) and (end is None or first < end)


async def read_page(
    lists: Lists, job_id: JobId, limit: int, after: str | None, start: Instant | None = None
) -> Page[Occurred]:
    """Merge a page from two listings: read a full page of each, then exactly the part that the page takes.

    It ends with what is older than `start`: a run that ended before was scheduled for before, too.
    """
    place = unmark(after, _Place) if after else _Place()

    def list_runs(limit: int, after: str | None) -> Awaitable[Page[RunView]]:
        return lists.runs(RunQuery(job_id=job_id, limit=limit, after=after))

    def list_entries(limit: int, after: str | None) -> Awaitable[Page[Entry]]:
        return lists.ledger(None, job_id, limit, after)

    def is_old(one: Occurred) -> bool:
        at = _seen_to(one)
        return start is not None and at is not None and at < start

    runs, runs_after = await _read(list_runs, place.runs, limit)
    entries, entries_after = await _read(list_entries, place.entries, limit)
    of_runs, of_entries = _shares(runs, entries, limit, more_runs=not runs_after.done)
    if of_runs < len(runs):
        runs, runs_after = await _read(list_runs, place.runs, of_runs)
    if of_entries < len(entries):
        entries, entries_after = await _read(list_entries, place.entries, of_entries)
    items: list[Occurred] = [*(run for run in runs if run.trigger not in BY_HAND), *entries]
    runs_after = _Side(done=True) if runs and is_old(runs[-1]) else runs_after
    entries_after = _Side(done=True) if entries and is_old(entries[-1]) else entries_after
    at_the_end = runs_after.done and entries_after.done
    return Page(
        tuple(sorted(items, key=_newness, reverse=True)),
        None if at_the_end else mark(_Place(runs_after, entries_after)),
    )


async def _read(
    listing: Callable[[int, str | None], Awaitable[Page[T]]], side: _Side, limit: int
) -> tuple[tuple[T, ...], _Side]:
    if side.done or not limit:
        return (), side
    found = await listing(limit, side.after)
    return found.items, _Side(found.next, found.next is None)


def _shares(runs: Sequence[RunView], entries: Sequence[Entry], limit: int, *, more_runs: bool) -> tuple[int, int]:
    """How many of each listing make up the newest `limit`. Beyond the last run read, the newest is unknown."""
    i = j = 0
    while i + j < limit and (i < len(runs) or (j < len(entries) and not more_runs)):
        if j == len(entries) or (i < len(runs) and _newness(runs[i]) >= _newness(entries[j])):
            i += 1
        else:
            j += 1
    return i, j


def _newness(one: Occurred) -> tuple[bool, Instant]:
    """The sort key: runs that have not ended come first, as in the listing of runs."""
    return isinstance(one, RunView) and not one.state.final, when(one)


def _seen_to(one: Occurred) -> Instant | None:
    """The time by which the lists are ordered: whatever was scheduled for later has been read before this one."""
    return one.last if isinstance(one, Entry) else one.ended_at


def when(one: Occurred) -> Instant:
    """The instant that an occurrence was scheduled for; of a time range, the last one."""
    if isinstance(one, Entry):
        return one.last
    return one.wanted if one.nominal is None else one.nominal


async def backfill(api: Api, request: Request, caller: Caller) -> Outcome:
    """Create a run for each occurrence in [from, to), due now. A repeated request gets the same runs, none twice."""
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
    """None: the job was edited meanwhile."""
    snap = await api.engine.jobs.read(caller.sees, job_id)
    if snap is None:
        raise NotFound
    # the job's own id is the origin of all its backfills, so that overlapping ones share their runs; ten thousand steps
    # of a calendar take a while, which other requests must not wait for
    decided = await asyncio.to_thread(change.backfill, snap, job_id, first, last, api.clock.now())
    applied = await api.engine.jobs.apply(decided, api.clock.now(), api.quota_of_runs(caller))
    return decided if applied else None


def _stretch(raw: dict[str, Any], now: Instant) -> tuple[Instant, Instant]:
    """The first and last instant of [from, to) in the past: future occurrences belong to the schedule."""
    problems: list[Problem] = []
    found = read_fields(raw, STRETCH, problems)
    missing = [name for name in STRETCH if name not in raw]
    problems += [Problem(name, "required", "is required, for example 2027-01-31T09:00:00Z") for name in missing]
    if problems:
        raise Invalid(*problems)
    start, end = found["from"], found["to"]
    if end > now + CLOCKS_DIFFER:
        message = f"is in the future; a backfill covers the past only, and the current time is {rfc3339(now)}"
        raise Invalid.of("to", "in_the_future", message)
    if end <= start:
        raise Invalid.of("to", "bad_window", "must be later than from")
    return start, Instant(min(end - MICROSECOND, now))
