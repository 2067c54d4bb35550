"""The definitions that a job has and had, newest first, with who changed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.jobs import snapshot
from oncue.api.listing import page, wanted_page
from oncue.api.shared.context import Api
from oncue.domain.edits import as_sent, definition_changes
from oncue.domain.ids import JobId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.job import Job, Snapshot
from oncue.domain.tried import time_or_none
from oncue.engines.port import AuditEntry, AuditFilter, JobVersion, Page

CHANGES = frozenset({"job.create", "job.edit", "job.put"})
WRITTEN_WITHIN = Duration(10 * SECOND)  # after a change, its line in the audit log
MOST_ENTRIES = 1_000  # of the audit log, looked through for the versions of a page


class Shown(JobVersion, frozen=True):
    """A version with the one before it, if that is known."""

    current: bool = False
    since: Instant | None = None
    before: JobVersion | None = None


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    snap = await snapshot(api, request, caller)
    found = await _page(api, snap, wanted.limit, wanted.after, caller)
    entries = await _entries(api, caller, snap.job.job_id, found.items)
    uids = {entry.uid for entry in entries}
    users = {uid: None if uid is None else await api.owner_of(uid, caller) for uid in uids}

    def shown(one: Shown) -> dict[str, Any]:
        entry = _entry_of(one, entries)
        return _shown(one) | {
            "user_id": None if entry is None else users[entry.uid],
            "action": None if entry is None else entry.action,
        }

    return answer(page("versions", found, shown, wanted))


async def _page(api: Api, snap: Snapshot, limit: int, after: str | None, caller: Caller) -> Page[Shown]:
    """Return a page; the first begins with the present definition. Each item is compared with the one before it."""
    job = snap.job
    known = [] if after else [JobVersion(job.version, job.spec, job.payload, Instant(0))]
    below = int(after) if after else job.version
    known += await api.engine.lists.versions(caller.sees, job.job_id, below, limit + 1 - len(known))
    items = tuple(_with_before(one, before, job) for one, before in zip(known, [*known[1:], None], strict=True))
    return Page(items[:limit], str(items[limit - 1].version) if len(items) > limit else None)


def _with_before(one: JobVersion, before: JobVersion | None, job: Job) -> Shown:
    since = job.created_at if one.version == 1 else None if before is None else before.until
    return Shown(
        one.version,
        one.spec,
        one.payload,
        one.until,
        current=one.version == job.version,
        since=since,
        before=before,
    )


async def _entries(api: Api, caller: Caller, job_id: JobId, items: Sequence[Shown]) -> list[AuditEntry]:
    """Return the lines about this job that may tell who made these versions, oldest first."""
    times = [one.since for one in items if one.since is not None]
    if not times:
        return []
    window = AuditFilter(job_id, None, min(times), Instant(max(times) + WRITTEN_WITHIN))
    found = await api.engine.audit.entries(caller.sees, MOST_ENTRIES, None, window)
    return [entry for entry in reversed(found.items) if entry.action in CHANGES]


def _entry_of(one: Shown, entries: Sequence[AuditEntry]) -> AuditEntry | None:
    """Return the first line after the version was made."""
    if one.since is None:
        return None
    since = one.since
    return next((entry for entry in entries if since <= entry.at <= since + WRITTEN_WITHIN), None)


def _shown(one: Shown) -> dict[str, Any]:
    before = one.before
    changes = {} if before is None else definition_changes(before.spec, before.payload, one.spec, one.payload)
    return {
        "version": one.version,
        "since": time_or_none(one.since),
        "until": None if one.current else time_or_none(one.until),
        "definition": as_sent(one.spec) | {"payload": views.json_of(one.payload)},
        "changes": changes,
    }
