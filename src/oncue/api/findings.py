"""What the self-audit found: stored rows that are not as they must be."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import page, wanted_page
from oncue.api.shared.context import Api
from oncue.domain.instants import rfc3339
from oncue.engines.port import Finding


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    return answer(page("findings", await api.engine.auditing.findings(wanted.limit, wanted.after), _shown, wanted))


def _shown(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "object_id": finding.object_id or None,
        "detail": finding.words,
        "first_seen": rfc3339(finding.first_seen),
        "seen_at": rfc3339(finding.seen_at),
        "cleared_at": None if finding.cleared_at is None else rfc3339(finding.cleared_at),
    }
