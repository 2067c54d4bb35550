"""List jobs and runs: filtered, page by page, each page with a bounded number of queries."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller, forbidden
from oncue.api.http.reading import as_uuid, read_job_id
from oncue.api.job_health import Health, fits, is_unwell, unwell
from oncue.api.shared.context import Api
from oncue.domain.errors import Invalid, Problem
from oncue.domain.fields import Reader, choice, read_fields, takes, text
from oncue.domain.ids import NOTICES, ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import NEVER, Instant, parse_instant, rfc3339
from oncue.domain.job import Cursor, JobStatus, Snapshot, WaitingRun
from oncue.domain.plain_text import printable
from oncue.domain.run import RunView, State, Status, Trigger
from oncue.engines.port import JobQuery, JobRow, LastAndNext, Page, RunQuery

LARGEST_PAGE = 1_000  # items
USUAL_PAGE = 100  # items, if the request has no limit
LOOKED_AT_ONCE, MOST_LOOKED_AT = 100, 200  # rows read for one page, where a filter skips some
MOST_RUNS_LOOKED_AT = 1_000  # the same of runs, which come without payloads
NO_FILTERS: Mapping[str, Reader] = MappingProxyType({})
_SEAL = 9  # bytes

T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True):
    """The requested page and its filters; `after` is the engine's cursor."""

    limit: int
    after: str | None
    scope: str
    filters: dict[str, Any] = {}


def wanted_page(request: Request, caller: Caller, filters: Mapping[str, Reader] = NO_FILTERS) -> Wanted:
    """Invalid: a parameter is wrong or unknown, or the token is not from this listing."""
    given, problems = _parameters(request)
    if "user_id" in given.keys() & filters.keys():
        _check_sees_all(caller)
    found = read_fields(given, {**filters, **PAGING}, problems)
    if problems:
        raise Invalid(*problems)
    limit, token = found.pop("limit", USUAL_PAGE), found.pop("page_token", None)
    scope = f"{request.url.path} {caller.uid} {urlencode([(name, given[name]) for name in sorted(found)])}"
    return Wanted(limit, None if token is None else _unseal(token, scope), scope, found)


def read_query(request: Request, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read the parameters of a call that is not a listing."""
    given, problems = _parameters(request)
    found = read_fields(given, readers, problems)
    if problems:
        raise Invalid(*problems)
    return found


def _parameters(request: Request) -> tuple[dict[str, str], list[Problem]]:
    pairs = request.query_params.multi_items()
    twice = {name for name, n in Counter(name for name, _ in pairs).items() if n > 1}
    return dict(pairs), [Problem(printable(name), "given_twice", "is given more than once") for name in sorted(twice)]


def several(values: Mapping[str, T]) -> Reader:
    """Read one or more words, separated by commas."""
    word = "|".join(map(re.escape, values))

    @takes(type="string", pattern=f"^({word})(,({word}))*$")
    def read(raw: str, path: str) -> frozenset[T]:
        words = raw.split(",")
        if not values.keys() >= set(words):
            message = f"must be one or more of {', '.join(values)}, separated by commas"
            raise Invalid.of(path, "unknown_value", message)
        return frozenset(values[one] for one in words)

    return read


@takes(type="string", format="date-time")
def instant(raw: Any, path: str) -> Instant:
    """Read a filter by time. The plus sign of an offset arrives as a space, unless the query has it as %2B."""
    return parse_instant(re.sub(r" (?=\d\d:\d\d$)", "+", raw), path)


def window(
    filters: Mapping[str, Any], first: str = "start_time", last: str = "end_time"
) -> tuple[Instant | None, Instant | None]:
    """Read the window from the one up to, but not including, the other."""
    start, end = filters.get(first), filters.get(last)
    if start is not None and end is not None and end <= start:
        raise Invalid.of(last, "bad_window", f"must be later than {first}")
    return start, end


@takes(type="string", format="uuid")
def _worker_id(raw: str, path: str) -> WorkerId:
    found = as_uuid(raw)
    if found is None:
        raise Invalid.of(path, "bad_id", "is the id of a worker, like 0190c2a5-7c00-7000-8000-000000000000")
    return WorkerId(found)


async def filled_page(
    read: Callable[[int, str | None], Awaitable[Page[T]]],
    wanted: Wanted,
    keep: Callable[[T], bool] | None = None,
    time_of: Callable[[T], Instant | None] = lambda _: None,
    most: int = MOST_LOOKED_AT,
) -> Page[T]:
    """Return a page of the matching items. It reads a bounded number of rows: it may be short although more follow.

    Such a page has `looked_to`: `time_of` the last item that was read, unless the engine says itself how far it looked.
    """
    if keep is None:
        return await read(wanted.limit, wanted.after)
    items, after, looked_at = list[T](), wanted.after, 0
    while looked_at < most:
        room = wanted.limit - len(items)
        asked = max(room, LOOKED_AT_ONCE, most // 4) if looked_at else room  # nearly always all of the first rows match
        found = await read(asked, after)
        looked_at += len(found.items)
        fitting = [number for number, item in enumerate(found.items, 1) if keep(item)]
        if len(fitting) > room:  # the page ends with the last item that fits: read up to there
            found = await read(fitting[room - 1], after)
        items += filter(keep, found.items)
        after = found.next
        if after is None or len(items) >= wanted.limit:
            return Page(tuple(items), after)
        if len(found.items) < asked:
            break
    last = found.items[-1] if found.items else None
    return Page(tuple(items), after, found.looked_to or (None if last is None else time_of(last)))


def page(name: str, found: Page[T], shown: Callable[[T], Any], wanted: Wanted) -> dict[str, Any]:
    """Build the answer: the items under `name`, and the token of the next page, null on the last one.

    `looked_back_to`: a filter left the page short although more may follow; null: it is as long as it can be.
    """
    items: Sequence[Any] = [shown(item) for item in found.items]
    return {
        name: items,
        "next_page_token": None if found.next is None else _seal(found.next, wanted.scope),
        "looked_back_to": None if found.looked_to is None else rfc3339(found.looked_to),
    }


def number(least: int, most: int, usual: int) -> Reader:
    """Read a number of the query; `usual` is what is taken without it."""

    @takes(type="integer", minimum=least, maximum=most, default=usual)
    def read(raw: str, path: str) -> int:
        if not (raw.isascii() and raw.isdecimal() and len(raw) < 6 and least <= int(raw) <= most):
            raise Invalid.of(path, "out_of_range", f"is a whole number from {least} to {most}")
        return int(raw)

    return read


@takes(type="string")
def _token(raw: str, path: str) -> str:
    return raw


PAGING: Mapping[str, Reader] = {
    "limit": number(1, LARGEST_PAGE, USUAL_PAGE),
    "page_token": _token,
}  # of every listing, in addition to filters


def _seal(mark: str, scope: str) -> str:
    """Sign a cursor for its listing and its reader, so that any other token is refused instead of misread."""
    return base64.urlsafe_b64encode(_digest(mark, scope) + mark.encode()).decode().rstrip("=")


def _unseal(token: str, scope: str) -> str:
    try:
        opened = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        seal, mark = opened[:_SEAL], opened[_SEAL:].decode("ascii")
    except (binascii.Error, ValueError):
        seal, mark = b"", ""
    if seal != _digest(mark, scope):
        raise Invalid.of("page_token", "bad_page_token", "belongs to another list; start again without it")
    return mark


def _digest(mark: str, scope: str) -> bytes:
    return hashlib.blake2b(f"{scope} {mark}".encode(), digest_size=_SEAL).digest()


MOST_RECENT = 50  # ended runs shown with each job
LONGEST = 200  # characters of a filter: every name is shorter
NOBODY = UserNumber(0)
OPEN = frozenset({JobStatus.ACTIVE, JobStatus.PAUSED})
NOT_TRIED = frozenset({Status.SCHEDULED, Status.QUEUED})
Listed = tuple[Snapshot, RunView | None]
_TEXT = text(LONGEST)
_WINDOW: dict[str, Reader] = {"start_time": instant, "end_time": instant}
JOB_FILTERS: dict[str, Reader] = {
    "status": several({one.value: one for one in JobStatus}),
    "last_status": several({one.value: one for one in Status if one not in NOT_TRIED}),
    **dict.fromkeys(("task", "name", "name_prefix", "tag", "queue", "user_id"), _TEXT),
    **_WINDOW,
    "recent": number(0, MOST_RECENT, 0),
    "health": choice({one.value: one for one in Health}),
}
RUN_FILTERS: dict[str, Reader] = {
    "status": several({one.value: one for one in Status}),
    "job_id": read_job_id,
    **dict.fromkeys(("task", "queue", "user_id"), _TEXT),
    **_WINDOW,
    "ended_after": instant,
    "ended_before": instant,
    "trigger": several({one.name.lower(): one for one in Trigger}),
    "worker_id": _worker_id,
    "error_type": _TEXT,
    "system": choice({"true": True, "false": False}),
}
STATES = {
    **dict.fromkeys((Status.SCHEDULED, Status.QUEUED, Status.RETRYING), State.WAITING),
    **dict.fromkeys((Status.RUNNING, Status.CANCELLING), State.RUNNING),
    **{Status[state.name]: state for state in State if state.final},
}


async def jobs(api: Api, request: Request, caller: Caller) -> Response:
    """List jobs, newest first; in a window, by next run. A job that ends meanwhile may appear twice."""
    wanted = wanted_page(request, caller, JOB_FILTERS)
    query = await job_query(api, caller, wanted.filters)
    statuses, last_statuses, now = wanted.filters.get("status"), wanted.filters.get("last_status"), api.clock.now()
    prefix = wanted.filters.get("name_prefix", "")

    health: Health | None = wanted.filters.get("health")

    async def read(limit: int, after: str | None) -> Page[Listed]:
        asked = replace(query, limit=limit, after=after)
        found = await (api.engine.lists.jobs(asked) if health is None else unwell(api, health, asked, now))
        last_and_next = (
            await api.engine.lists.last_and_next([row.job.job_id for row in found.items]) if found.items else {}
        )
        items = tuple(_as_read(row, last_and_next[row.job.job_id]) for row in found.items)
        return Page(items, found.next, found.looked_to)

    def keep(found: Listed) -> bool:
        """Whether a job matches as it is shown. The store may lack a part: what was planned meanwhile, for instance."""
        snap, last = found
        return (
            (statuses is None or snap.job.status in statuses)
            and (last_statuses is None or (last is not None and views.status(last, now) in last_statuses))
            and (snap.job.spec.name or "").startswith(prefix)
            and (health is None or (is_unwell(health, last) and fits(query, snap)))
            and _is_in_window(query, snap)
        )

    narrowed = {"status", "last_status", "name_prefix", "health", *_WINDOW} & wanted.filters.keys()
    found = await filled_page(read, wanted, keep if narrowed else None, lambda one: _position(query, *one))
    owners = {uid: await api.owner_of(uid, caller) for uid in {snap.job.uid for snap, _ in found.items}}

    strips = await _strips(api, [snap.job.job_id for snap, _ in found.items], wanted.filters.get("recent", 0))

    def shown(found: Listed) -> Any:
        snap, last = found
        last_run = None if last is None else views.last_run(last, now)
        return views.job(snap, owners[snap.job.uid], last_run, recent=strips.get(snap.job.job_id))

    return answer(page("jobs", found, shown, wanted))


async def _strips(api: Api, job_ids: Sequence[JobId], recent: int) -> dict[JobId, list[views.ShownEndedRun]]:
    """The last ended runs of each job, if they were asked for."""
    if not recent or not job_ids:
        return {}
    found = await api.engine.lists.last_ended(job_ids, recent)
    return {job_id: [views.ended_run(run) for run in found.get(job_id, ())] for job_id in job_ids}


async def whose(api: Api, caller: Caller, filters: Mapping[str, Any]) -> UserNumber | None:
    """Return the user whose objects are asked for. None: everybody's."""
    if "user_id" not in filters:
        return caller.sees
    _check_sees_all(caller)
    return await api.engine.accounts.find(filters["user_id"]) or NOBODY


def _check_sees_all(caller: Caller) -> None:
    if caller.sees is not None:
        raise forbidden("The filter user_id needs an admin key. Leave it out: yours are all that you see.")


async def job_query(api: Api, caller: Caller, filters: dict[str, Any]) -> JobQuery:
    next_from, next_until = window(filters)
    asked = {name: filters[name] for name in ("task", "name", "tag", "queue") if name in filters}
    query = JobQuery(
        await whose(api, caller, filters), filters.get("status"), next_from=next_from, next_until=next_until, **asked
    )
    if {"name", "tag", *_WINDOW} & filters.keys():
        return query  # its order, whatever the names begin with
    return replace(query, name_prefix=filters.get("name_prefix"))


def _position(query: JobQuery, snap: Snapshot, last: RunView | None) -> Instant | None:
    """The time by which the list is ordered where this job is; None: it is ordered by name."""
    if query.next_from is not None or query.next_until is not None:
        return views.next_run_at(snap)
    if snap.job.status not in OPEN and last is not None and not snap.job.spec.schedule.recurring:
        return last.ended_at
    return None if query.name_prefix is not None else snap.job.created_at


def _is_in_window(query: JobQuery, snap: Snapshot) -> bool:
    if query.next_from is None and query.next_until is None:
        return True
    next_at = views.next_run_at(snap)
    return next_at is not None and (query.next_from or next_at) <= next_at < (query.next_until or NEVER)


def _as_read(row: JobRow, near: LastAndNext) -> Listed:
    """The fields of a job that its view needs."""
    job, waiting = row.job, tuple[WaitingRun, ...]()
    if near.next_at is not None:
        waiting = (WaitingRun(RunId(job.job_id), near.next_at, None, scheduled=True),)
    cursor = Cursor(NEVER if row.next_at is None else row.next_at, NEVER) if job.spec.schedule.recurring else None
    return Snapshot(job, ClassId(0), cursor, waiting), near.last


def _run_query(uid: UserNumber | None, filters: Mapping[str, Any]) -> RunQuery:
    wanted_from, wanted_until = window(filters)
    ended_from, ended_until = window(filters, "ended_after", "ended_before")
    statuses = filters.get("status")
    exactly = ("job_id", "task", "queue", "worker_id", "error_type")
    return RunQuery(
        uid,
        states=None if statuses is None else frozenset(STATES[status] for status in statuses),
        wanted_from=wanted_from,
        wanted_until=wanted_until,
        ended_from=ended_from,
        ended_until=ended_until,
        triggers=filters.get("trigger"),
        **{name: filters[name] for name in exactly if name in filters},
    )


async def runs(api: Api, request: Request, caller: Caller) -> Response:
    """List runs that have not ended, then ended ones, newest end first; a window filters by the wanted time."""
    wanted = wanted_page(request, caller, RUN_FILTERS)
    statuses, now = wanted.filters.get("status"), api.clock.now()
    query = _run_query(await whose(api, caller, wanted.filters), wanted.filters)

    async def read(limit: int, after: str | None) -> Page[RunView]:
        return await api.engine.lists.runs(replace(query, limit=limit, after=after))

    def keep(run: RunView) -> bool:
        return (run.job_id != NOTICES or system) and (statuses is None or views.status(run, now) in statuses)

    system = wanted.filters.get("system", False)
    found = await filled_page(read, wanted, keep, lambda run: run.ended_at or run.wanted, MOST_RUNS_LOOKED_AT)
    known = await api.known_of(*found.items)
    return answer(page("runs", found, lambda run: views.run(run, known, now), wanted))
