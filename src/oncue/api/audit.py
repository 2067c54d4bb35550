"""The audit log: which user did what to which object, when, and from which address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_id
from oncue.api.listing import LONGEST, instant, page, wanted_page, whose, window
from oncue.api.shared.context import Api
from oncue.clock import Clock
from oncue.domain.fields import Reader, text
from oncue.domain.instants import Instant, rfc3339
from oncue.engines.port import Audit, AuditEntry, AuditFilter
from oncue.engines.refusals import Refusal, apart
from oncue.log import log

FILTERS: Mapping[str, Reader] = {
    "object_id": read_id,
    **dict.fromkeys(("action", "user_id"), text(LONGEST)),
    **dict.fromkeys(("start_time", "end_time"), instant),
}
NO_DETAIL: Mapping[str, Any] = MappingProxyType({})
WRITTEN_WITHIN = 1.0  # seconds that an answer waits for its line
WRITTEN_AFTER_A_FAILURE = 0.1  # seconds; the caller has already waited for the database


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller, FILTERS)
    since, until = window(wanted.filters)
    only = AuditFilter(wanted.filters.get("object_id"), wanted.filters.get("action"), since, until)
    found = await api.engine.audit.entries(await whose(api, caller, wanted.filters), wanted.limit, wanted.after, only)
    uids = {audit_entry.uid for audit_entry in found.items}
    users = {uid: None if uid is None else await api.owner_of(uid, caller) for uid in uids}
    return answer(page("audit", found, lambda audit_entry: _shown(audit_entry, users[audit_entry.uid]), wanted))


def audit_entry(
    action: str,
    request: Request,
    caller: Caller,
    object_id: UUID | None,
    now: Instant,
    detail: Mapping[str, Any] = NO_DETAIL,
) -> AuditEntry:
    """Build the line of a request from the names in its path and these details."""
    client = request.scope.get("client")
    address = None if client is None else client[0]
    told = {name: value for name, value in request.path_params.items() if name != "id"} | dict(detail)
    encoded = msgspec.json.encode(told) if told else None
    return AuditEntry(now, caller.uid, caller.key_id, action, object_id, encoded, address)


class AuditLog:
    """Writes each line before its answer is sent, and lines of the same moment together.

    An error here is logged with the lines it affects, and the answer is sent anyway: the change is already stored.
    """

    def __init__(self, audit: Audit, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._waiting: list[AuditEntry] = []
        self._turn = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    async def record(self, entry: AuditEntry, within: float) -> None:
        """Wait at most `within` seconds for the line; a slower one is written after the answer."""
        self._waiting.append(entry)
        writing = asyncio.create_task(self._write())
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        await asyncio.wait({writing}, timeout=within)

    async def _write(self) -> None:
        """Write all waiting lines. The call with the lock writes for all that wait; these then find nothing to do."""
        async with self._turn:
            left, self._waiting = self._waiting, []
            try:
                async for written, answer in apart(left.copy(), self._audit.record):
                    del left[: len(written)]
                    if isinstance(answer, Refusal):
                        _say_missing(written, answer.why)
            except Exception as error:
                _say_missing(left, error)


def _say_missing(entries: Sequence[AuditEntry], why: Exception) -> None:
    shown = msgspec.to_builtins(entries)
    log.error("The audit log may lack these entries", kind="audit_missing", audit_entries=shown, exc_info=why)


def _shown(audit_entry: AuditEntry, user_id: str | None) -> dict[str, Any]:
    return {
        "at": rfc3339(audit_entry.at),
        "user_id": user_id,
        "key_id": audit_entry.key_id,
        "action": audit_entry.action,
        "object_id": audit_entry.object_id,
        "detail": None if audit_entry.detail is None else msgspec.Raw(audit_entry.detail),
        "address": audit_entry.address,
    }
