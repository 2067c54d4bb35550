"""Calls on users, for administrators: routes.py says so."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import page, read_query, wanted_page
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Changed, Line, Outcome
from oncue.domain.errors import Conflict, Invalid, NotFound
from oncue.domain.fields import Reader, choice
from oncue.domain.instants import rfc3339
from oncue.engines.port import JOBS_COUNTED, Revoked, User
from oncue.log import log

MOST_SHOWN = 100  # users on a page
PARAMETERS: Mapping[str, Reader] = {"purge": choice({"true": True})}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """List users. A page has at most `MOST_SHOWN`: the jobs of each are counted."""
    wanted = wanted_page(request, caller)
    found = await api.engine.accounts.users(api.clock.now(), min(wanted.limit, MOST_SHOWN), wanted.after)
    most_jobs = api.settings.max_jobs_per_user or None
    most_bytes = api.settings.max_payload_bytes_per_user or None

    def shown(user: User) -> dict[str, Any]:
        return {
            "user_id": user.user_id,
            "number": user.uid,
            "created_at": rfc3339(user.created_at),
            "keys": user.keys,
            "open_jobs": user.open_jobs,
            "more_jobs": user.open_jobs >= JOBS_COUNTED,
            "max_jobs": most_jobs,
            "payload_bytes": user.payload_bound,
            "max_payload_bytes": most_bytes,
        }

    return answer(page("users", found, shown, wanted))


async def forget(api: Api, request: Request, caller: Caller) -> Outcome:
    """Forget a user for good. Schedulers do it: what is left after this answer is a note, and no valid key."""
    if not read_query(request, PARAMETERS).get("purge"):
        raise Invalid.of(
            "purge", "required", "write ?purge=true: all jobs, runs and files of the user are deleted and cannot return"
        )
    user_id = request.path_params["user_id"]
    uid = await api.engine.forgetting.begin(user_id, api.clock.now())
    if uid is Revoked.LAST_ADMIN:
        raise Conflict("This user has the last valid admin key. Create another admin key first.")
    if isinstance(uid, Revoked):
        raise NotFound
    log.info("A user is being forgotten", kind="user_forgetting", user=uid, by=caller.user_id)
    return Outcome(answer({"user_id": user_id, "number": uid}, HTTPStatus.ACCEPTED), (Changed(uid),), Line())
