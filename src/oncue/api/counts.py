"""How many jobs, runs and dead letters there are, counted up to a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import LONGEST, OPEN, read_query, whose
from oncue.api.shared.context import Api
from oncue.domain.fields import Reader, text
from oncue.engines.capped import ENDED

MOST = 10_001  # then it is "at least"
PARAMETERS: Mapping[str, Reader] = {"user_id": text(LONGEST)}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """Count the caller's own; for an administrator, everybody's, or those of one user."""
    asked = read_query(request, PARAMETERS)
    found = await api.engine.lists.counts(await whose(api, caller, asked), MOST, api.clock.now())
    whole = {True: found.live_all, False: found.ended_all}
    return answer(
        {
            "jobs": {status: _shown(n, whole[status in OPEN]) for status, n in found.jobs.items()},
            "runs": {status: _shown(n, whole[status not in ENDED]) for status, n in found.runs.items()},
            "dead_letters": _shown(found.dead_letters, True),
        }
    )


def _shown(n: int, all_looked_at: bool) -> dict[str, Any]:
    return {"n": n, "at_least": n >= MOST or not all_looked_at}
