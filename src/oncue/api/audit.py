"""The audit log: who did what to which thing, when, and from where."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from oncue.api.answers import answer
from oncue.api.auth import Caller
from oncue.api.changes import changes_of
from oncue.api.context import Api
from oncue.api.pages import page, wanted_page
from oncue.api.reading import as_uuid
from oncue.clock import Clock
from oncue.domain.instants import Instant, rfc3339
from oncue.engines.port import Accounts, AuditEntry
from oncue.engines.refusals import Refusal, apart

log = structlog.get_logger()

_SETTLED, _NOTED = "oncue.account_settled", "oncue.noted"
PATIENCE = 1  # seconds that an answer waits for the log; a line that takes longer is still written
PATIENCE_AFTER_A_FAILURE = 0.1  # the store has made the caller wait before


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    found = await api.engine.accounts.audit(caller.sees, wanted.limit, wanted.after)
    uids = {audit_entry.uid for audit_entry in found.items}
    users = {uid: None if uid is None else await api.owner_of(uid, caller) for uid in uids}
    return answer(page("audit", found, lambda audit_entry: _shown(audit_entry, users[audit_entry.uid]), wanted))


def audit_entry_of(action: str, request: Request, caller: Caller, object_id: UUID | None, now: Instant) -> AuditEntry:
    """The line that a request gets. Who makes it writes it down, with what it is about or before: nobody else does."""
    audit_nothing(request)
    return _audit_entry(action, request, caller, object_id, now)


def audit_nothing(request: Request) -> None:
    """What this request changed is written down and told to whoever watches already, or it changed nothing."""
    request.scope[_SETTLED] = True


def account_settled(request: Request) -> bool:
    return _SETTLED in request.scope


def note(request: Request, **detail: Any) -> None:
    """What the log should tell of this request beside the names and the id in its path."""
    request.scope[_NOTED] = detail


class AuditLog:
    """Lines are there when the answer is; those of the same moment are written together.

    Whatever goes wrong here is logged with the lines it is about, and the answer is given all the same: what was done
    is done.
    """

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock
        self._waiting: list[AuditEntry] = []
        self._turn = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    async def record(self, action: str, request: Request, response: Response, caller: Caller) -> None:
        """Also of a request that failed on our side: then nobody knows whether it was done, and the line says so."""
        failed = response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if failed:
            note(request, **_noted(request), outcome="unknown")
        self._waiting.append(_audit_entry(action, request, caller, _object(request, response), self._clock.now()))
        writing = asyncio.create_task(self._write())
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        await asyncio.wait({writing}, timeout=PATIENCE_AFTER_A_FAILURE if failed else PATIENCE)

    async def _write(self) -> None:
        """Whoever gets the turn writes for all who wait for it; these then find nothing left to do."""
        async with self._turn:
            left, self._waiting = self._waiting, []
            try:
                async for written, answer in apart(left.copy(), self._accounts.record):
                    del left[: len(written)]
                    if isinstance(answer, Refusal):
                        log.error(
                            "the audit log lacks this", audit_entries=msgspec.to_builtins(written), why=str(answer.why)
                        )
            except Exception as error:
                log.error("the audit log may lack these", audit_entries=msgspec.to_builtins(left), why=str(error))


def _audit_entry(action: str, request: Request, caller: Caller, object_id: UUID | None, now: Instant) -> AuditEntry:
    client = request.scope.get("client")
    address = None if client is None else client[0]
    return AuditEntry(now, caller.uid, caller.key_id, action, object_id, _detail(request), address)


def _object(request: Request, response: Response) -> UUID | None:
    """The id in the path, that of the one thing that was made, or that of the one job that was changed."""
    named: str = request.path_params.get("id") or response.headers.get("location", "").rpartition("/")[2]
    if named:
        return as_uuid(named)
    jobs = [changed.job_id for changed in changes_of(request)]
    return jobs[0] if len(jobs) == 1 else None


def _detail(request: Request) -> bytes | None:
    named = {name: value for name, value in request.path_params.items() if name != "id"}
    detail = named | _noted(request)
    return msgspec.json.encode(detail) if detail else None


def _noted(request: Request) -> dict[str, Any]:
    noted: dict[str, Any] = request.scope.get(_NOTED, {})
    return noted


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
